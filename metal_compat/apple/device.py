"""The Metal device, as launches, arrays and recordings see it. Never run on Apple hardware."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hiprt.device import Device
from hiprt.metal_compat.apple.heap import Heap

__all__ = ["MetalDevice"]


@dataclass(frozen=True)
class MetalDevice(Device):
    """A GPU that Metal serves.

    Attributes
    ----------
    metal : module
        PyObjC's Metal.
    handle : MTLDevice
    heap : Heap
        The heap that holds all its arrays.
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
