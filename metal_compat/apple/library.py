"""Modules on Metal: a library of a kernel's Metal text, and its compute pipelines. Never run on Apple hardware."""

from __future__ import annotations

import itertools
from typing import Any

from hiprt.errors import CompileError
from hiprt.metal_compat.options import DEFAULT_MODE
from hiprt.module import Module

__all__ = ["Bindings", "MetalModule", "Sizes"]

Sizes = tuple[int, int, int]
# A buffer's address or a value's bytes for each binding index.
Bindings = tuple["int | bytes", ...]

COMPILATION = 6  # hiprtc's status for a text that does not compile
handles = itertools.count(1)


class MetalModule(Module):
    """A library and the pipelines of its functions.

    Parameters
    ----------
    metal : module
        PyObjC's Metal.
    device : MTLDevice
    text : str
        The Metal program.
    name : str
        The program's name, used in messages.
    mode : str
        The math mode: safe, relaxed or fast.

    Attributes
    ----------
    pipelines : dict
        The number that stands for a kernel in recordings and its MTLComputePipelineState, by the kernel's name.

    Raises
    ------
    CompileError
        Metal's compiler refuses the text.
    """

    def __init__(self, metal: Any, device: Any, text: str, name: str, mode: str = DEFAULT_MODE) -> None:
        self.metal, self.device, self.name = metal, device, name
        options = metal.MTLCompileOptions.alloc().init()
        if mode == DEFAULT_MODE:
            options.setFastMathEnabled_(False)
        else:
            options.setMathMode_(getattr(metal, f"MTLMathMode{mode.title()}"))
        self.library, error = device.newLibraryWithSource_options_error_(text, options, None)
        if self.library is None:
            raise self.failure("newLibraryWithSource:options:error:", error)
        self.pipelines: dict[str, tuple[int, Any]] = {}
        self.kernels: list[Any] = []

    def failure(self, call: str, error: Any) -> CompileError:
        """Return the exception for an NSError."""
        return CompileError(COMPILATION, "HIPRTC_ERROR_COMPILATION", call, self.name, str(error))

    def function(self, name: str) -> int:
        """Return the number of a kernel, whose pipeline is made at the first call.

        Raises
        ------
        CompileError
            There is no such kernel, or no pipeline can be made of it.
        """
        if name not in self.pipelines:
            found = self.library.newFunctionWithName_(name)
            if found is None:
                raise self.failure("newFunctionWithName:", f"no kernel is named {name}")
            descriptor = self.metal.MTLComputePipelineDescriptor.alloc().init()
            descriptor.setComputeFunction_(found)
            descriptor.setSupportIndirectCommandBuffers_(True)
            state, error = self.device.newComputePipelineStateWithDescriptor_options_reflection_error_(
                descriptor, self.metal.MTLPipelineOptionNone, None, None
            )
            if state is None:
                raise self.failure("newComputePipelineStateWithDescriptor:options:reflection:error:", error)
            self.pipelines[name] = (next(handles), state)
        return self.pipelines[name][0]

    def pipeline(self, name: str) -> Any:
        """Return the MTLComputePipelineState of a kernel that `function` has made."""
        return self.pipelines[name][1]

    def arrange(self, arguments: Bindings, grid: Sizes, block: Sizes) -> tuple[Bindings, Sizes, Sizes, bool]:
        """Return a launch's arguments and sizes in Metal's form, and whether the grid counts threads."""
        return arguments, grid, block, False

    def close(self) -> None:
        """Drop the pipelines; no recording may use them."""
        self.pipelines.clear()
