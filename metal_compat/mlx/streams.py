"""Devices and streams by MLX's names. All work runs on hiprt's device, in the order in which it was asked for."""

from __future__ import annotations

import enum
import itertools
import threading
from typing import Any

from hiprt.device import Device as HipDevice, current_device, device_count as hip_device_count
from hiprt.graphs.trace.lazy import check
from hiprt.stream import current_stream

__all__ = [
    "Device",
    "DeviceType",
    "Stream",
    "StreamContext",
    "ThreadLocalStream",
    "clear_streams",
    "cpu",
    "default_device",
    "default_stream",
    "device_count",
    "device_info",
    "gpu",
    "is_available",
    "new_stream",
    "new_thread_local_stream",
    "new_thread_unsafe_stream",
    "set_default_device",
    "set_default_stream",
    "stream",
    "synchronize",
]


class DeviceType(enum.Enum):
    """The kind of a device."""

    cpu = 0
    gpu = 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Device):
            return other == self
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)


cpu, gpu = DeviceType.cpu, DeviceType.gpu


class Device:
    """A device as MLX names it. ``mx.gpu`` and ``mx.cpu`` are both hiprt's device; what was named is remembered.

    Parameters
    ----------
    type : DeviceType
    index : int
    """

    def __init__(self, type: DeviceType, index: int = 0) -> None:  # noqa: A002
        if not isinstance(type, DeviceType):
            raise TypeError(f"Device(): {type!r} is not mx.cpu or mx.gpu")
        self._type, self.index = type, index

    @property
    def type(self) -> DeviceType:
        """The kind."""
        return self._type

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceType):
            return self._type is other and self.index == 0
        return isinstance(other, Device) and (self._type, self.index) == (other._type, other.index)

    def __hash__(self) -> int:
        return hash((self._type.name, self.index))

    def __repr__(self) -> str:
        return f"Device({self._type.name}, {self.index})"


class Stream:
    """A stream as MLX names it. Work of all streams of a thread is in one order, which satisfies each of them."""

    def __init__(self, device: Device, index: int) -> None:
        self.device, self.index = device, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.index) == (other.device, other.index)

    def __hash__(self) -> int:
        return hash((self.device, self.index))

    def __repr__(self) -> str:
        return f"Stream({self.device!r}, {self.index})"


class ThreadLocalStream(Stream):
    """A stream that each thread has of its own."""

    def __repr__(self) -> str:
        return f"ThreadLocalStream({self.device!r}, {self.index})"


StreamOrDevice = Stream | Device | DeviceType | None


class Chosen(threading.local):
    """The device and the streams that a thread has chosen.

    Attributes
    ----------
    streams : dict
        The default stream of a device, where it is not the first.
    """

    def __init__(self) -> None:
        self.streams: dict[Device, Stream] = {}


default = Device(gpu)
chosen = Chosen()
numbers = itertools.count(2)  # 0 and 1 are the first streams of the GPU and of the CPU


def device_of(device: Any) -> Device:
    """Return a device from what MLX takes for one; raise ValueError where there is none of that number."""
    made = device if isinstance(device, Device) else Device(device)
    if not 0 <= made.index < device_count(made):
        raise ValueError(f"[Device] {made} is not available: there are {device_count(made)} of its kind")
    return made


def default_device() -> Device:
    """Return the device that was chosen last; the GPU at first."""
    return default


def set_default_device(device: Device | DeviceType) -> None:
    """Choose the device that `default_device` returns."""
    global default
    default = device_of(device)


def is_available(device: Device | DeviceType) -> bool:
    """Whether there is such a device."""
    made = device if isinstance(device, Device) else Device(device)
    return 0 <= made.index < device_count(made)


def device_count(device_type: DeviceType | Device) -> int:
    """Return the number of devices of a kind."""
    kind = device_type.type if isinstance(device_type, Device) else device_type
    return 1 if kind is cpu else hip_device_count()


def device_info(d: Device | DeviceType | None = None) -> dict[str, str | int]:
    """Return what is known of a device.

    Returns
    -------
    dict
        ``device_name``, ``architecture``, ``memory_size``, ``max_recommended_working_set_size`` (what
        `set_wired_limit` takes at most), ``max_buffer_length`` (bytes) and ``resource_limit``.
    """
    if d is not None:
        device_of(d)
    found: HipDevice = current_device()
    return {
        "device_name": found.name,
        "architecture": found.arch,
        "memory_size": found.memory,
        "max_recommended_working_set_size": found.memory,
        "max_buffer_length": found.memory,
        "resource_limit": 2**31 - 1,
    }


def default_stream(device: Device | DeviceType) -> Stream:
    """Return this thread's default stream of a device."""
    of = device_of(device)
    return chosen.streams.get(of) or Stream(of, 0 if of.type is gpu else 1)


def set_default_stream(stream: Stream) -> None:
    """Make a stream this thread's default stream of its device."""
    chosen.streams[stream.device] = stream


def new_stream(device: Device | DeviceType) -> Stream:
    """Return a stream that was not there before."""
    return Stream(device_of(device), next(numbers))


def new_thread_unsafe_stream(device: Device | DeviceType) -> Stream:
    """Return a stream that was not there before; here every stream may be used from any thread."""
    return new_stream(device)


def new_thread_local_stream(device: Device | DeviceType) -> ThreadLocalStream:
    """Return a stream that each thread has of its own."""
    return ThreadLocalStream(device_of(device), next(numbers))


def clear_streams() -> None:
    """Forget the default streams that this thread has chosen."""
    chosen.streams.clear()


class StreamContext:
    """Sets the default device, and its default stream, while it is entered.

    Parameters
    ----------
    s : Stream, Device or DeviceType
    """

    def __init__(self, s: Stream | Device | DeviceType) -> None:
        self.s = s
        self.before: list[tuple[Device, Stream | None]] = []

    def __enter__(self) -> None:
        device = self.s.device if isinstance(self.s, Stream) else device_of(self.s)
        self.before.append((default_device(), chosen.streams.get(device)))
        set_default_device(device)
        if isinstance(self.s, Stream):
            set_default_stream(self.s)

    def __exit__(self, *_: object) -> None:
        device, before = self.before.pop()
        inner = default_device()
        if before is None:
            chosen.streams.pop(inner, None)
        else:
            chosen.streams[inner] = before
        set_default_device(device)


def stream(s: Stream | Device | DeviceType) -> StreamContext:
    """Return a context manager that sets the default device and stream."""
    if not isinstance(s, (Stream, Device, DeviceType)):
        raise TypeError(f"stream(): {s!r} is not a stream or a device")
    return StreamContext(s)


def synchronize(stream: StreamOrDevice = None) -> None:
    """Wait for all work that this thread has asked for."""
    current_stream().synchronize()
    check()
