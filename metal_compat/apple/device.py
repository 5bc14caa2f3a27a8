"""The Metal device: what launches, arrays and recordings need of it. Never run on Apple hardware."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hiprt.device import Device
from hiprt.errors import ProviderError
from hiprt.kernels.kernel import LOADERS, Kernel
from hiprt.metal_compat import programs
from hiprt.metal_compat.apple.body import load_body
from hiprt.metal_compat.apple.framework import framework
from hiprt.metal_compat.apple.heap import Heap
from hiprt.metal_compat.apple.library import MetalModule
from hiprt.module import Module

__all__ = ["MetalDevice", "open_device"]

SIMDGROUP = 32
# Negative: HIP's numbers begin at 0, and kernels remember their functions by number.
numbers = itertools.count(-1, -1)


@dataclass(frozen=True)
class MetalDevice(Device):
    """A GPU that Metal serves.

    Attributes
    ----------
    metal : module
        PyObjC's Metal.
    handle : MTLDevice
    heap : Heap
        Where all its arrays are.
    """

    metal: Any = field(repr=False, compare=False)
    handle: Any = field(repr=False, compare=False)
    heap: Heap = field(repr=False, compare=False)

    def synchronize(self) -> None:
        """Refuse: only streams know what they have committed.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError("a Metal device has no queue of its own: synchronize its streams")


def open_device(nbytes: int = 0, metal: Any = None) -> MetalDevice:
    """Open the system's default Metal device.

    Parameters
    ----------
    nbytes : int
        Size of the heap that all arrays come from; by default half of what Metal recommends to use.
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
        raise ProviderError("Metal cannot be used", [("metal", "there is no Metal device")])
    usable = int(handle.recommendedMaxWorkingSetSize())
    heap = Heap(metal, handle, nbytes or usable // 2)
    name = str(handle.name())
    return MetalDevice(next(numbers), name, "metal", SIMDGROUP, usable, 0, "metal", metal, handle, heap)


def load(kernel: Kernel, template: tuple[Any, ...], device: MetalDevice) -> Module:
    """Compile a kernel's Metal text."""
    return MetalModule(device.metal, device.handle, kernel.text("metal", template), kernel.name)


LOADERS["metal"] = load
programs.LOADERS["metal"] = load_body
