"""Issues: what calls of ops launched while a step recorded, to be launched again without calling the ops.

An op launches the same for operands of the same forms, but at other addresses. A program of many layers calls few ops
with a few forms, so that most of its nodes are issued by the C core (``graphs/native/issue.c``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hiprt import buffer as buffers
from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.trace import core
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.rehearsal import stand_in
from hiprt.stream import Stream, session_of_thread

__all__ = ["MOST_ARRAYS", "Notes", "noting", "recording_on"]

MOST_ARRAYS = 64  # of one call, as in the C core
NO_MEMORY = Buffer(0, 0, -1)
Launched = tuple[Any, bytes, tuple[Array | None, ...]]


def recording_on(stream: Stream) -> Recording | None:
    """Return what this thread records into on a stream; None where it records nothing there."""
    session = session_of_thread()
    if session is None or session.stream is not stream:
        return None
    recording: Recording | None = session.recording
    return recording


class Notes:
    """What a thread launches and allocates within `noting`.

    Attributes
    ----------
    launches : list of (launcher, payload, arrays)
        In order; the arrays by argument, None for other arguments.
    buffers : list of Buffer
    has_other_memory : bool
        Whether one of them is not the recording's: an op that is called for the first time may make what it keeps.
    nodes : int
        How many nodes the recording has got meanwhile; -1 where it has ended.
    """

    def __init__(self) -> None:
        self.launches: list[Launched] = []
        self.buffers: list[Buffer] = []
        self.has_other_memory = False
        self.nodes = -1

    def issue(self, primitive: Primitive, operands: Sequence[Array], results: Sequence[Any]) -> core.Issue | None:
        """Return what launches the same for other operands of these forms.

        None is returned where something else than these launches happened, where the op writes an operand (whether it
        may, depends on addresses), or where a launch uses memory that is neither an operand's nor the recording's.
        """
        if self.nodes != len(self.launches) or self.has_other_memory or primitive.rule[2]:
            return None
        places: dict[int, int] = {}
        for i, operand in enumerate(operands):
            places.setdefault(id(operand), i)
        sources: dict[int, int | None] = {}
        for i, buffer in enumerate(self.buffers):
            sources[id(buffer)] = -1 - i
        for i, operand in enumerate(operands):
            shared = id(operand.buffer) in sources and operands[sources[id(operand.buffer)] or 0] is not operand
            sources[id(operand.buffer)] = None if shared else i
        made: list[tuple[Array, int, int]] = []

        def place_of(array: Any) -> int | None:
            if array is None:
                return None
            if id(array) not in places:
                source = sources[id(array.buffer)]
                if source is None:
                    raise KeyError(id(array.buffer))
                start = array.buffer.address if source < 0 else operands[source].address
                pattern = stand_in(array, NO_MEMORY)
                assert pattern.form is not None  # each array that is made like it has its form
                places[id(array)] = len(operands) + len(made)
                made.append((pattern, source, array.address - start))
            return places[id(array)]

        try:
            launches = tuple(
                (function, payload, tuple(map(place_of, arrays))) for function, payload, arrays in self.launches
            )
            ends = tuple(map(place_of, results))
        except KeyError:
            return None
        if len(made) > MOST_ARRAYS or len(self.buffers) > MOST_ARRAYS or len(launches) > MOST_ARRAYS:
            return None
        nbytes = tuple(buffer.nbytes for buffer in self.buffers)
        return core.Issue(Array, len(operands), nbytes, tuple(made), launches, ends)


@contextmanager
def noting(recording: Recording) -> Iterator[Notes]:
    """Note what this thread launches into a recording and allocates within the block."""
    notes, thread = Notes(), threading.get_ident()

    def see(buffer: Buffer) -> None:
        if threading.get_ident() == thread:
            notes.buffers.append(buffer)
            notes.has_other_memory |= buffer.pool is not recording.memory

    session, nodes = session_of_thread(), len(recording)
    before = core.note(notes.launches)
    buffers.observers.append(see)
    try:
        yield notes
    finally:
        buffers.observers.remove(see)
        core.note(before)
        if session is not None and session.recording is recording:
            notes.nodes = len(recording) - nodes
