"""The provider ``metal``: how devices that Metal serves differ from HIP's. Never run on Apple hardware."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hiprt import dlpack
from hiprt.errors import ProviderError
from hiprt.kernels.lang.kernel import Kernel
from hiprt.metal_compat.apple.body_module import load_body
from hiprt.metal_compat.apple.device import MetalDevice
from hiprt.metal_compat.apple.framework import framework
from hiprt.metal_compat.apple.heap import Heap
from hiprt.metal_compat.apple.library import MetalModule
from hiprt.metal_compat.apple.step import run
from hiprt.metal_compat.apple.stream import MetalStream
from hiprt.provider import Files, Provider, Refused

__all__ = ["METAL", "open_device"]

SIMDGROUP = 32
# The numbers are negative because HIP's begin at 0, and kernels remember their plans and functions by them. Those that
# are nearer to 0 stand for no device, and for GPUs that are compiled for ahead.
numbers = itertools.count(-1000, -1)


def find(_refused: Refused) -> Iterator[Files]:
    """Yield nothing: Metal is no HIP library, and `open_device` opens it."""
    yield from ()


def load_kernel(kernel: Kernel, template: tuple[Any, ...], device: MetalDevice) -> MetalModule:
    """Compile a kernel's Metal text."""
    return MetalModule(device.metal, device.handle, kernel.text("metal", template), kernel.name)


METAL = Provider(
    name="metal",
    find=find,
    dlpack_device=dlpack.METAL,
    dlpack_usable=(),
    math_modes={},
    stream=MetalStream,
    load_kernel=load_kernel,
    load_body=load_body,
    run_step=run,
)


def open_device(nbytes: int = 0, metal: Any = None) -> MetalDevice:
    """Open the system's default Metal device.

    Parameters
    ----------
    nbytes : int
        The size of the heap that all arrays come from; by default half of what Metal recommends to use.
    metal : module, optional
        PyObjC's Metal, imported by default.

    Raises
    ------
    ProviderError
        There is no Metal, or no device.
    OutOfMemoryError
        The heap is too large.
    """
    metal = metal or framework()
    handle = metal.MTLCreateSystemDefaultDevice()
    if handle is None:
        raise ProviderError("Metal cannot be used", [(METAL.name, "there is no Metal device")])
    usable = int(handle.recommendedMaxWorkingSetSize())
    heap = Heap(metal, handle, nbytes or usable // 2)
    name = str(handle.name())
    return MetalDevice(next(numbers), name, "metal", SIMDGROUP, usable, 0, METAL, metal, handle, heap)
