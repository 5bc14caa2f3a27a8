"""Devices: how many there are, what they are, and which one this thread uses."""

from __future__ import annotations

import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from hiprt import library, objects
from hiprt.core import ffi
from hiprt.errors import HipError, HipWarning, ProviderError
from hiprt.flags import flags
from hiprt.hip import call, lib, result
from hiprt.hip_versions import shortfall
from hiprt.provider import Provider

__all__ = ["Device", "current_device", "device_count", "open_ahead", "set_device"]

thread = threading.local()


@dataclass(frozen=True)
class Device:
    """One device of the library in use.

    Attributes
    ----------
    index : int
        HIP's device number.
    name : str
        The name under which it is sold.
    arch : str
        The compiler's target, for example ``gfx1201`` or ``hiprt-cpu``.
    warp_size : int
        The number of lanes of a hardware wave: 32 or 64.
    memory : int
        The device's memory in bytes.
    compute_units : int
        The number of compute units as HIP counts them: pairs of them on RDNA, multiprocessors on NVIDIA.
    provider : Provider
        What serves the device; its text is its name, for example ``rocm``.
    """

    index: int
    name: str
    arch: str
    warp_size: int
    memory: int
    compute_units: int
    provider: Provider

    @property
    def shortfall(self) -> str:
        """The reason why the runtime may not serve the device's architecture; empty where nothing is known."""
        return shortfall(self.provider.name, self.arch, library.current().version)

    def synchronize(self) -> None:
        """Wait for everything queued on this device."""
        call(lib.hipSetDevice(self.index))
        call(lib.hipDeviceSynchronize())


def device_count() -> int:
    """Return the number of devices of the library in use."""
    library.current()
    return int(result("int", lib.hipGetDeviceCount))


@cache
def describe(index: int) -> Device:
    """Read a device's properties; they do not change while the process lives."""
    count = device_count()
    if not 0 <= index < count:
        raise ValueError(f"there is no device {index}: {count} found, numbered from 0")
    properties = ffi.new("hipDeviceProp_tR0600 *")
    call(lib.hipGetDevicePropertiesR0600(properties, index))
    device = Device(
        index,
        text(properties.name),
        text(properties.gcnArchName).split(":")[0],
        int(properties.warpSize),
        int(properties.totalGlobalMem),
        int(properties.multiProcessorCount),
        library.current().provider,
    )
    if device.shortfall:
        warnings.warn(device.shortfall, HipWarning, stacklevel=3)
    return device


def text(value: Any) -> str:
    """Return a C string as str."""
    return bytes(ffi.string(value)).decode(errors="replace")


def current_device() -> Device:
    """Return this thread's device: the one that it set last, else the one that ``HIPRT_DEVICE`` names."""
    return describe(getattr(thread, "index", flags.device))


def open_ahead(index: int | None = None) -> None:
    """Begin to open a device on another thread and return at once, so that imports and files are read meanwhile.

    A GPU's driver takes 0.1 to 0.3 s for it. A call that needs the device before it is open waits for that. Do not call
    it in a process that forks later: its children cannot use the GPU.

    Parameters
    ----------
    index : int, optional
        The device; by default the one of this thread.

    Notes
    -----
    No error is raised here. What goes wrong is an error of the first call that needs the device.
    """
    number = getattr(thread, "index", flags.device) if index is None else index

    def opened() -> None:
        with suppress(HipError, HipWarning, ProviderError, ValueError):
            describe(number).synchronize()

    threading.Thread(target=opened, name="hiprt opens a device").start()


def set_device(index: int) -> Device:
    """Choose this thread's device.

    Raises
    ------
    ValueError
        There is no such device.
    """
    device = describe(index)
    # The choice is noted whatever HIP says: each call of ours sets the device that it needs.
    thread.index = index
    objects.Stream.choose_device(index)
    call(lib.hipSetDevice(index))
    return device
