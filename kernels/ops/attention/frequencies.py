"""The frequencies of rotary positions, in tables on the device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt import fork
from hiprt.array import Array, array, make
from hiprt.device import Device
from hiprt.stream import Stream, apart, new_stream

__all__ = ["check_rotation", "device_frequencies", "frequencies_of"]

UINT64 = np.dtype(np.uint64)
tables: dict[tuple[int, float, int], Array] = {}
lock = fork.lock()


def check_rotation(op: str, base: float, dims: int | None, width: int) -> int:
    """Return how many elements of a head of `width` turn.

    Raises
    ------
    ValueError
        `dims` is odd or larger than the head, or `base` is not positive.
    """
    dims = width if dims is None else dims
    if dims % 2 or not 0 <= dims <= width:
        raise ValueError(f"{op}: dims={dims} is not an even number of at most {width}")
    if not base > 0:
        raise ValueError(f"{op}: base={base} is not positive")
    return dims


def frequencies_of(base: float, dims: int) -> NDArray[np.uint64]:
    """Return ``base**(-2i / dims)`` in units of 2**-64 turns a position, modulo whole turns, for each pair i."""
    turns = np.power(np.float64(base), -np.arange(0, dims, 2, dtype=np.float64) / max(dims, 1)) / (2 * np.pi)
    upper = np.floor((turns % 1.0) * 2.0**32)
    lower = np.rint(((turns % 1.0) * 2.0**32 - upper) * 2.0**32)
    return (upper.astype(np.uint64) << np.uint64(32)) + lower.astype(np.uint64)


def device_frequencies(stream: Stream, base: float, dims: int) -> Array:
    """Return the frequencies as an array on the device of a stream, uploaded once for the life of the process."""
    if stream.written is not None:
        return make((dims // 2,), UINT64, stream)  # nothing runs on the stream
    table = tables.get((stream.device.index, base, dims))
    return upload(stream.device, base, dims) if table is None else table


def upload(device: Device, base: float, dims: int) -> Array:
    """Put the frequencies on a device where that has not been done."""
    key = (device.index, base, dims)
    with lock:
        if key not in tables:
            # A stream of its own: the caller's may be recording, and a recording must not own the table's memory.
            with new_stream(device) as stream, apart():
                tables[key] = array(frequencies_of(base, dims), stream=stream)
        return tables[key]
