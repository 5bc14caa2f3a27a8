"""Marks: points behind evaluations, at which what they computed is read while later ones run."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hiprt import fork
from hiprt.array import Array
from hiprt.device import Device
from hiprt.errors import HipError
from hiprt.event import Event
from hiprt.stream import Stream, session_of_thread

__all__ = ["Mark", "mark"]

MOST_EVENTS = 4  # of a stream; an event that is used again stands for a later point, which is right as well

lock = fork.rlock()
events: WeakKeyDictionary[Stream, deque[Event]] = WeakKeyDictionary()
readers: dict[int, Stream] = {}


class Mark(NamedTuple):
    """A point in a stream's work.

    Attributes
    ----------
    event : Event
    stream : Stream
    """

    event: Event
    stream: Stream

    def wait(self) -> None:
        """Wait on the host until all that was launched before is done."""
        self.event.synchronize()

    def read(self, array: Array) -> np.ndarray[Any, Any]:
        """Return an array's elements, which were written before this point, and are not written again."""
        return array.numpy(reader(self.stream.device), after=self.event)


def mark(stream: Stream) -> Mark | None:
    """Return the point behind what was launched on a stream; None where that becomes part of a graph."""
    if type(stream) is not Stream or stream.recording or session_of_thread() is not None:
        return None
    with lock:
        found = events.setdefault(stream, deque())
        try:
            event = Event(timing=False) if len(found) < MOST_EVENTS else found.popleft()
            event.record(stream)
        except HipError:  # whoever reads waits for the stream
            return None
        found.append(event)
    return Mark(event, stream)


def reader(device: Device) -> Stream:
    """Return the stream on which arrays of a device are read."""
    with lock:
        found = readers.get(device.index)
        if found is None or not found.is_open:
            found = readers[device.index] = Stream(device)
        return found
