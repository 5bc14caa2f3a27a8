"""What a step keeps of one call signature: the segments it launched, and how to launch them with other arguments."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from hiprt import core
from hiprt.array import Array
from hiprt.buffer import Buffer, allocate
from hiprt.graphs.exec import Exec
from hiprt.graphs.memory import Extent, coalesce
from hiprt.graphs.recording import Recording
from hiprt.stream import Stream

__all__ = ["Kept", "Segment", "leaves"]

DEVICE_TO_DEVICE = 3

Segment = Exec | Recording  # a graph, or nodes that run eagerly


class Nodes(NamedTuple):
    """The nodes that use some arguments: as the C core takes them, how many, and the bytes of what they are given."""

    indices: Any
    size: int
    nbytes: int


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
        self.extents = [array.extent for array in arrays]
        self.others: list[Extent] | None = None
        self.plans: dict[tuple[int, ...], Nodes] = {}

    @property
    def exec(self) -> Exec | None:
        """The exec, when it is the only segment."""
        only = self.segments[0] if len(self.segments) == 1 else None
        return only if isinstance(only, Exec) else None

    def results(self, stream: Stream) -> Any:
        """Return what the function returned, with what the next launch overwrites copied to memory of its own."""
        return copied(self.result, self.own, {}, stream) if self.own else self.result

    def release(self) -> list[Exec]:
        """Let others have the execs; those that nobody holds any more."""
        execs = [segment for segment in self.segments if isinstance(segment, Exec)]
        for exec_ in execs:
            exec_.holders -= 1
        return [exec_ for exec_ in execs if not exec_.holders]

    def carries(self, arrays: Sequence[Array]) -> bool:
        """Whether the segments were made for arrays at these addresses."""
        return all(mine.address == its.address for mine, its in zip(self.arrays, arrays))

    def can_move(self, extents: Sequence[Extent]) -> bool:
        """Whether the exec can be given arguments that lie here with the edges it has."""
        exec_ = self.exec
        if exec_ is None or exec_.holders != 1:
            return False
        if self.others is None:
            self.is_movable, self.others = self.examine(exec_)
        if not self.is_movable:
            return False
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
        own = set(self.extents)
        others = coalesce(extent for extent in exec_.recording.extents() if extent not in own)
        self.others = others
        return not any(map(self.is_in_use, self.extents)), others

    def is_in_use(self, extent: Extent) -> bool:
        """Whether the step uses an argument's memory for something else."""
        assert self.others is not None
        start, end = extent
        at = bisect.bisect_left(self.others, (end, 0))
        return at > 0 and self.others[at - 1][1] > start

    def moved(self, extents: Sequence[Extent]) -> tuple[int, ...]:
        """Return which arguments lie elsewhere."""
        return tuple([i for i, (mine, its) in enumerate(zip(self.extents, extents)) if mine != its])

    def plan(self, moved: tuple[int, ...]) -> Nodes:
        """Return the nodes that use some of the arguments."""
        plan = self.plans.get(moved)
        if plan is None:
            exec_ = self.exec
            assert exec_ is not None
            nodes = sorted({node for i in moved for node in exec_.recording.users(*self.extents[i])})
            nbytes = sum(map(exec_.recording.node_bytes, nodes))
            plan = self.plans[moved] = Nodes(core.ffi.new("uint32_t[]", nodes), len(nodes), nbytes)
        return plan

    def move(self, arrays: Sequence[Array], extents: list[Extent], moved: tuple[int, ...]) -> None:
        """Give the exec these arguments."""
        exec_ = self.exec
        assert exec_ is not None
        before, nodes = self.extents, self.plan(moved)
        exec_.move(nodes.indices, nodes.size, sorted([(*before[i], extents[i][0]) for i in moved]))
        self.arrays, self.extents = list(arrays), extents


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
