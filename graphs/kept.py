"""What a step keeps of one call signature: the segments it launched, and how to launch them with other arguments."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hiprt.array import Array
from hiprt.graphs.exec import Exec
from hiprt.graphs.memory import coalesce
from hiprt.graphs.recording import Recording

__all__ = ["Kept", "Segment"]

Segment = Exec | Recording  # a graph, or nodes that run eagerly


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
    """

    def __init__(self, segments: list[Segment], result: Any, arrays: Sequence[Array]) -> None:
        self.segments = segments
        self.result = result
        self.arrays = list(arrays)
        self.others: list[tuple[int, int]] | None = None
        self.plans: dict[tuple[int, ...], list[int]] = {}

    @property
    def exec(self) -> Exec | None:
        """The exec, when it is the only segment."""
        only = self.segments[0] if len(self.segments) == 1 else None
        return only if isinstance(only, Exec) else None

    def carries(self, arrays: Sequence[Array]) -> bool:
        """Whether the segments were made for arrays at these addresses."""
        return all(mine.address == its.address for mine, its in zip(self.arrays, arrays))

    def can_move(self, arrays: Sequence[Array]) -> bool:
        """Whether the exec can be given these arguments with the edges it has."""
        if self.others is None:
            self.is_movable, self.others = self.examine()
        return self.is_movable and are_disjoint(arrays) and not any(map(self.is_in_use, arrays))

    def examine(self) -> tuple[bool, list[tuple[int, int]]]:
        """Find whether the recorded arguments lie alone in their memory, and what else the step uses."""
        buffers = [array.buffer for array in self.arrays]
        if self.exec is None or not are_disjoint(self.arrays) or any(a.buffer in buffers for a in leaves(self.result)):
            return False, []
        own = {array.extent for array in self.arrays}
        others = coalesce(extent for extent in self.exec.recording.extents() if extent not in own)
        self.others = others
        return not any(map(self.is_in_use, self.arrays)), others

    def is_in_use(self, array: Array) -> bool:
        """Whether the step uses an array's memory for something else than an argument."""
        assert self.others is not None
        start, end = array.extent
        at = bisect.bisect_left(self.others, (end, 0))
        return at > 0 and self.others[at - 1][1] > start

    def move(self, arrays: Sequence[Array]) -> int:
        """Give the exec these arguments; returns the number of nodes patched."""
        exec_ = self.exec
        assert exec_ is not None
        pairs = list(zip(self.arrays, arrays))
        moved = tuple([i for i, (mine, its) in enumerate(pairs) if mine.address != its.address])
        nodes = self.plans.get(moved)
        if nodes is None:
            found = {node for i in moved for node in exec_.recording.users(*self.arrays[i].extent)}
            nodes = self.plans[moved] = sorted(found)
        exec_.move(nodes, [(*pairs[i][0].extent, pairs[i][1].extent[0]) for i in moved])
        self.arrays = list(arrays)
        return len(nodes)


def are_disjoint(arrays: Sequence[Array]) -> bool:
    """Whether no two arrays touch a common byte."""
    extents = sorted(array.extent for array in arrays)
    return all(first[1] <= second[0] for first, second in pairwise(extents))


def leaves(value: Any) -> list[Array]:
    """Return the arrays in a structure of tuples, lists and dictionaries."""
    if isinstance(value, Array):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [array for item in value for array in leaves(item)]
    return []
