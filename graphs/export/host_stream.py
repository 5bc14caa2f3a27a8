"""A stream of the host: where a traced function's own arrays lie while there may be no device."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.device import describe
from hiprt.graphs.trace.rehearsal import NO_DEVICE, RehearsalStream
from hiprt.stream import Stream, default_stream

__all__ = ["HostStream", "host_array", "host_values"]

HostArray = np.ndarray[Any, np.dtype[Any]]


class HostMemory:
    """Memory of the host, as a stream's memory."""

    def allocate(self, nbytes: int, _stream: Stream) -> Buffer:
        """Return a buffer of this size."""
        return buffer_of(np.empty(max(nbytes, 1), np.uint8))


def buffer_of(host: HostArray) -> Buffer:
    """Return the memory of a contiguous array of the host as a buffer of no device."""
    return Buffer(host.ctypes.data, host.nbytes, NO_DEVICE.index, None, host)


def host_array(host: HostArray) -> Array:
    """Return an array that shows the memory of an array of the host; no kernel can use it."""
    whole = np.ascontiguousarray(host).reshape(host.shape)
    return Array(buffer_of(whole), whole.shape, whole.dtype, whole.ctypes.data)


def host_values(array: Array) -> HostArray:
    """Return the values of an array on the host or on a device."""
    if array.buffer.device != NO_DEVICE.index:
        return array.numpy()
    item, base = array.dtype.itemsize, array.buffer
    raw = base.owner.reshape(-1).view(np.uint8)
    strides = tuple(step * item for step in array.strides)
    start = Array.address.__get__(array) - base.address
    return np.ascontiguousarray(np.ndarray(array.shape, array.dtype, raw.data, start, strides)).reshape(array.shape)


class HostStream(RehearsalStream):
    """A stream on which copies between arrays of the host are made at once, and nothing is launched."""

    def __init__(self) -> None:
        super().__init__()
        self.memory, self.written = HostMemory(), None

    def copy(self, target: int, source: int, nbytes: int, kind: int, *, to: Any = None, of: Any = None) -> None:
        """Copy at once where both are memory of the host, else on the device's own stream."""
        devices = [each.device for each in (to, of) if each is not None and each.device != NO_DEVICE.index]
        if devices:
            stream = default_stream(describe(devices[0]))
            stream.copy(target, source, nbytes, kind, to=to, of=of)
            stream.synchronize()
        else:
            ctypes.memmove(target, source, nbytes)

    def fill(self, target: int, value: int, width: int, count: int, *, to: Any = None) -> None:
        """Fill memory of the host."""
        ctypes.memmove(target, value.to_bytes(width, "little") * count, width * count)
