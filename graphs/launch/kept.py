"""What a step keeps of one call signature: the segments it launched, and how to launch them with other arguments."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hiprt import core
from hiprt.array import Array
from hiprt.buffer import Buffer, allocate
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.record.extents import Extent, coalesce
from hiprt.graphs.record.recording import Recording
from hiprt.stream import Stream

__all__ = ["Kept", "Segment", "leaves"]

DEVICE_TO_DEVICE = 3
MOST_PLACEMENTS = 32  # remembered: engines let a few sets of buffers take turns

Segment = Exec | Recording  # a graph, or nodes that run eagerly


class Move(NamedTuple):
    """How an exec is given arrays that lie elsewhere: the nodes and ranges as the C core takes them."""

    nodes: Any
    size: int
    nbytes: int
    ranges: Any
    moves: int
    reason: str


class Placement:
    """Where the arrays of a call lie.

    Attributes
    ----------
    extents : list of Extent
    is_free : bool or None
        Whether the exec can be given them with the edges it has; None: not looked at yet.
    moves : dict
        How, by the placement that the exec carries.
    """

    __slots__ = ("extents", "is_free", "moves")

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.extents = [array.extent for array in arrays]
        self.is_free: bool | None = None
        self.moves: dict[Placement, Move] = {}


class Kept:
    """One call signature's segments, the arrays they were recorded with, and what the function returned.

    A later call with arrays of the same shapes at other addresses moves the addresses in the exec instead of recording
    again, as long as that cannot change an edge: every argument, old or new, lies alone in its memory.

    Parameters
    ----------
    segments : list of Segment
    result : object
        What the function returned.
    arrays : list of Array
        The call's array arguments.
    own : collection of int
        The ids of the buffers, among those of the results, that every launch writes anew.
    """

    def __init__(
        self, segments: list[Segment], result: Any, arrays: Sequence[Array], own: Collection[int] = ()
    ) -> None:
        self.segments = segments
        self.result = result
        self.own = own
        self.arrays = list(arrays)
        self.others: list[Extent] | None = None
        self.placements: dict[tuple[int, ...], Placement] = {}
        self.here = self.placement(arrays)

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
        """Return what the function returned, with what the next launch overwrites copied to memory of its own."""
        return copied(self.result, self.own, {}, stream) if self.own else self.result

    def release(self) -> list[Exec]:
        """Let others have the execs; those that nobody holds any more."""
        execs = [segment for segment in self.segments if isinstance(segment, Exec)]
        for exec_ in execs:
            exec_.holders -= 1
        return [exec_ for exec_ in execs if not exec_.holders]

    def placement(self, arrays: Sequence[Array]) -> Placement:
        """Return where the arrays of a call of this signature lie: `here`, if the segments were made for them."""
        addresses = tuple([array.address for array in arrays])
        found = self.placements.get(addresses)
        if found is None:
            if len(self.placements) >= MOST_PLACEMENTS:
                self.placements = {key: each for key, each in self.placements.items() if each is self.here}
                self.here.moves.clear()
            found = self.placements[addresses] = Placement(arrays)
        return found

    def can_move(self, target: Placement) -> bool:
        """Whether the exec can be given arguments that lie there with the edges it has."""
        exec_ = self.exec
        if exec_ is None or exec_.holders != 1:
            return False
        if self.others is None:
            self.is_movable, self.others = self.examine(exec_)
        if target.is_free is None:
            target.is_free = self.is_movable and self.are_free(target.extents)
        return target.is_free

    def are_free(self, extents: Sequence[Extent]) -> bool:
        """Whether arguments here would lie alone in their memory."""
        assert self.others is not None
        at, others = 0, self.others
        end_before = 0
        for start, end in sorted(extents):
            # Disjoint from the argument below it, and from everything else that the step uses.
            at = bisect.bisect_left(others, (end, 0), at)
            if start < end_before or (at and others[at - 1][1] > start):
                return False
            end_before = end
        return True

    def examine(self, exec_: Exec) -> tuple[bool, list[Extent]]:
        """Find whether the recorded arguments lie alone in their memory, and what else the step uses."""
        buffers = [array.buffer for array in self.arrays]
        results = leaves(self.result)
        if results is None or any(array.buffer in buffers for array in results) or not are_disjoint(self.arrays):
            return False, []
        own = set(self.here.extents)
        others = coalesce(extent for extent in exec_.recording.extents() if extent not in own)
        self.others = others
        return not any(map(self.is_in_use, self.here.extents)), others

    def is_in_use(self, extent: Extent) -> bool:
        """Whether the step uses an argument's memory for something else."""
        assert self.others is not None
        start, end = extent
        at = bisect.bisect_left(self.others, (end, 0))
        return at > 0 and self.others[at - 1][1] > start

    def move_to(self, target: Placement) -> Move:
        """Return how the exec is given arguments that lie there."""
        move = target.moves.get(self.here)
        if move is None:
            exec_, before, after = self.exec, self.here.extents, target.extents
            assert exec_ is not None
            moved = [i for i, (mine, its) in enumerate(zip(before, after)) if mine != its]
            nodes = sorted({node for i in moved for node in exec_.recording.users(*before[i])})
            nbytes = sum(map(exec_.recording.node_bytes, nodes))
            ranges = core.ffi.new("hiprt_move[]", sorted([(*before[i], after[i][0]) for i in moved]))
            reason = f"arrays moved, {len(nodes)} nodes"
            move = Move(core.ffi.new("uint32_t[]", nodes), len(nodes), nbytes, ranges, len(moved), reason)
            target.moves[self.here] = move
        return move

    def move(self, arrays: Sequence[Array], target: Placement, move: Move) -> None:
        """Give the exec these arguments."""
        exec_ = self.exec
        assert exec_ is not None
        exec_.move(move.nodes, move.size, move.ranges, move.moves)
        self.arrays, self.here = list(arrays), target


def are_disjoint(arrays: Sequence[Array]) -> bool:
    """Whether no two arrays touch a common byte."""
    extents = sorted(array.extent for array in arrays)
    return all(first[1] <= second[0] for first, second in pairwise(extents))


def copied(value: Any, own: Collection[int], copies: dict[int, Buffer], stream: Stream) -> Any:
    """Return a structure in which arrays of some buffers show copies of them, made in stream order."""
    if isinstance(value, Array):
        buffer = value.buffer
        if id(buffer) not in own:
            return value
        copy = copies.get(id(buffer))
        if copy is None:
            copy = copies[id(buffer)] = allocate(buffer.nbytes, stream)
            stream.submit(core.lib.hiprt_copy, copy.address, buffer.address, buffer.nbytes, DEVICE_TO_DEVICE)
        return Array(copy, value.shape, value.dtype, value.address - buffer.address + copy.address, value.strides)
    if isinstance(value, dict):
        return {key: copied(item, own, copies, stream) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = [copied(item, own, copies, stream) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def leaves(value: Any) -> list[Array] | None:
    """Return the arrays in a structure of tuples, lists and dictionaries; None if there may be others inside."""
    if isinstance(value, Array):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (tuple, list)):
        return [] if value is None or isinstance(value, (bool, int, float, complex, str, bytes)) else None
    found: list[Array] = []
    for item in value:
        inside = leaves(item)
        if inside is None:
            return None
        found += inside
    return found
