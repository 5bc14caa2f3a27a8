"""Kept calls: what a step keeps of one call signature, to launch it again without calling the function."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

from hiprt.allocator import Arena, Pool
from hiprt.array import Array
from hiprt.graphs.arguments import Arguments
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.moved_arrays import Placement, Placements
from hiprt.graphs.launch.results import copied
from hiprt.graphs.record.comparison import Recorded
from hiprt.graphs.record.extents import Extent
from hiprt.graphs.record.recording import Recording
from hiprt.stream import Stream

__all__ = ["KeptCall", "Segment"]

Segment = Exec | Recording  # a graph, or nodes that run eagerly


class KeptCall:
    """The segments of one call, the arrays it was recorded with, and what the function returned.

    Parameters
    ----------
    segments : list of Segment
        What the call launched, in order.
    result : object
        What the function returned.
    arrays : sequence of Array
        The call's array arguments.
    own : collection of int
        The ids of the buffers, among those of the results, that every launch writes anew.
    arguments : Arguments, optional
        What the call was given.
    captured : sequence of Extent, optional
        Memory that the function uses besides its arguments, also where an argument lies there.

    Attributes
    ----------
    exec : Exec or None
        The only segment, where that is a graph.
    placements : Placements
        Where the arrays lie that the exec carries, and where others may.
    nbytes : int
        Bytes of device memory that its intermediates and results take.
    signature : hashable
        What the step keeps it under.
    """

    def __init__(
        self,
        segments: list[Segment],
        result: Any,
        arrays: Sequence[Array],
        own: Collection[int] = (),
        arguments: Arguments | None = None,
        captured: Sequence[Extent] = (),
    ) -> None:
        self.segments = segments
        self.result = result
        self.own = own
        self.arguments = arguments
        self.placements = Placements(arrays, result, [] if arguments is None else arguments.arrays, captured)
        self.nbytes = sum(memory.stats().reserved for memory in self.memories)
        self.signature: Hashable = None

    @property
    def recorded(self) -> Recorded:
        """What it launches now."""
        recordings = [each if isinstance(each, Recording) else each.recording for each in self.segments]
        return Recorded(recordings, self.placements.here.extents)

    @property
    def memories(self) -> list[Pool | Arena]:
        """The pools and arenas in which the intermediates of its segments lie."""
        memories = {id(each.memory): each.memory for each in self.recorded.recordings}
        return [memory for memory in memories.values() if memory is not None]

    @property
    def segments(self) -> list[Segment]:
        """What a call launches, in order."""
        return self._segments

    @segments.setter
    def segments(self, segments: list[Segment]) -> None:
        only = segments[0] if len(segments) == 1 else None
        self._segments = segments
        self.exec = only if isinstance(only, Exec) else None

    def results(self, stream: Stream) -> Any:
        """Return what the function returned, with what the next launch overwrites copied to memory of its own.

        Tuples, lists and dictionaries are made anew for each call.

        Raises
        ------
        UndefinedOutputsError
            There is no memory for the copies, or making them failed. The step has run.
        """
        return copied(self.result, self.own, stream)

    def release(self) -> list[Exec]:
        """Let other recordings have the execs, and return those that no kept call holds any more."""
        execs = [segment for segment in self.segments if isinstance(segment, Exec)]
        for exec_ in execs:
            exec_.hold(-1)
        return [exec_ for exec_ in execs if not exec_.holders]

    def can_move(self, target: Placement) -> bool:
        """Whether the exec can be given arguments that lie there with the edges that it has."""
        exec_ = self.exec
        if exec_ is None or exec_.holders != 1:
            return False
        return self.placements.can_move(exec_.recording, target)
