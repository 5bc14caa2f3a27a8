"""Arrivals: the counters by which the threadgroups of a launch find out which of them is the last."""

from __future__ import annotations

import numpy as np

from hiprt import fork
from hiprt.array import Array, array, make
from hiprt.stream import Stream, apart, leaving, new_stream

__all__ = ["COUNTERS", "arrivals"]

COUNTERS = 4096  # of a stream: a launch has one for each result that several of its threadgroups share
UINT32 = np.dtype(np.uint32)
counters: dict[int, Array] = {}  # by the numbers of streams
lock = fork.lock()


def arrivals(stream: Stream) -> Array:
    """Return the counters of a stream: zeros, which each launch leaves as it finds them.

    Launches that use them count as writers of the same array, so that no two run at a time.

    Returns
    -------
    Array, [COUNTERS]
        uint32.
    """
    if stream.written is not None:
        return make((COUNTERS,), UINT32, stream)  # nothing runs on the stream
    found = counters.get(stream.number)
    return upload(stream) if found is None else found


def upload(stream: Stream) -> Array:
    """Make the counters of a stream where that has not been done."""
    with lock:
        if stream.number not in counters:
            # A stream of its own: the caller's may be recording, and a recording must not own this memory.
            with new_stream(stream.device) as other, apart():
                counters[stream.number] = array(np.zeros(COUNTERS, UINT32), stream=other)
        return counters[stream.number]


def forget(stream: Stream, _can_fence: bool) -> None:
    """Give the counters of a stream back when it goes."""
    counters.pop(stream.number, None)


leaving.append(forget)
