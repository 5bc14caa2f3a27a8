"""Planner: where the intermediates of a kept step lie in one block of memory.

Two intermediates conflict unless every node that touches one is ordered, by edges, before every node that touches the
other; only those that do not conflict may share bytes. Sharing then adds no edge that the step does not have, so a
device stays free to run independent nodes in any order. Where a kernel declares that an output may lie over an input
(`InPlace`), the output continues the input's memory at the very same bytes, if every other node that touches the input
is ordered before the kernel and every other node that touches the output after it. Requests are placed largest first,
each into the tightest gap among those it conflicts with; several orders are tried until one reaches the lower bound.

Requests come from a recording in which no two intermediates share memory (`requests_of`). The C core does all this
(`allocator/native/interference.c`, `allocator/native/placing.c`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, NamedTuple

from hiprt import core

__all__ = ["InPlace", "Interference", "Outline", "Plan", "Request", "plan", "requests_of"]

ALIGNMENT = 256  # bytes; offsets are multiples
NO_MEMORY = "a plan of memory"


class Request(NamedTuple):
    """An intermediate of a step.

    Attributes
    ----------
    nbytes : int
        Size in bytes.
    users : tuple of int
        The nodes that touch it, ascending.
    is_result : bool
        Whether somebody reads it after the step, so that nothing that is used later may share its memory.
    """

    nbytes: int
    users: tuple[int, ...]
    is_result: bool = False


class InPlace(NamedTuple):
    """A node that may write one intermediate where it reads another: the same bytes, or none in common.

    Attributes
    ----------
    node : int
    source, target : int
        Indices of two requests of one size: what is read, and what is written.
    """

    node: int
    source: int
    target: int


class Outline(NamedTuple):
    """What the nodes of a step do with its intermediates.

    Attributes
    ----------
    users : sequence of tuple of int
        For each intermediate, the nodes that touch it, ascending.
    dependencies : sequence of sequence of int
        For each node, the earlier nodes that it waits for.
    in_place : sequence of InPlace
        What may be written in place.
    """

    users: Sequence[tuple[int, ...]]
    dependencies: Sequence[Sequence[int]]
    in_place: Sequence[InPlace]


@dataclass(frozen=True)
class Plan:
    """Offsets of intermediates in one block.

    Attributes
    ----------
    offsets : tuple of int
        One offset for each request, in their order; multiples of 256.
    nbytes : int
        Size of the block.
    lower_bound : int
        No plan is smaller. It is the most bytes that are live at once in program order, sizes rounded up to 256, where
        what is written in place needs no more; or, where branches that may run together need more than that, the size
        of a set of requests of which any two conflict.
    sizes : tuple of int
        The intermediates' sizes in bytes.
    uses : tuple of (tuple of int, bool)
        The nodes that touch each intermediate, and whether somebody reads it after the step.
    heads : tuple of int
        For each intermediate the one whose memory it continues in place, or itself.
    """

    offsets: tuple[int, ...]
    nbytes: int
    lower_bound: int
    sizes: tuple[int, ...] = ()
    uses: tuple[tuple[tuple[int, ...], bool], ...] = ()
    heads: tuple[int, ...] = ()

    @property
    def requests(self) -> list[Request]:
        """The intermediates."""
        return [Request(size, *use) for size, use in zip(self.sizes, self.uses)]


def requests_of(
    extents: Sequence[tuple[int, int]],
    touched: Iterable[Iterable[tuple[int, int, int]]],
    results: Iterable[int] = (),
) -> list[Request]:
    """Find which nodes touch which intermediates.

    Parameters
    ----------
    extents : sequence of (int, int)
        First address and one past the last of each intermediate; no two overlap.
    touched : iterable
        For each node in program order, the memory that it declares: (start, end, access).
    results : iterable of int
        Indices of the intermediates that are read after the step.

    Returns
    -------
    list of Request
        One request for each extent.
    """
    order = sorted((start, end, i) for i, (start, end) in enumerate(extents) if start < end)
    starts = [start for start, _, _ in order]
    lowest, highest = (starts[0], max(end for _, end, _ in order)) if order else (0, 0)
    users: list[list[int]] = [[] for _ in extents]
    for node, pieces in enumerate(touched):
        for start, end, _ in pieces:
            if end <= lowest or start >= highest:
                continue
            at = bisect.bisect_right(starts, start) - 1
            for low, high, i in order[max(at, 0) : bisect.bisect_left(starts, end)]:
                if max(start, low) < min(end, high) and users[i][-1:] != [node]:
                    users[i].append(node)
    kept = set(results)
    return [Request(end - start, tuple(users[i]), i in kept) for i, (start, end) in enumerate(extents)]


def plan(
    requests: Sequence[Request],
    dependencies: Sequence[Sequence[int]] | None = None,
    in_place: Iterable[InPlace] = (),
) -> Plan:
    """Place intermediates in one block.

    Parameters
    ----------
    requests : sequence of Request
    dependencies : sequence of sequence of int, optional
        For each node, the earlier nodes that it waits for. By default each node waits for the one before it.
    in_place : iterable of InPlace, optional
        What may be written in place.

    Returns
    -------
    Plan
        The smallest plan that the orders tried led to.
    """
    if dependencies is None:
        last = max((request.users[-1] for request in requests if request.users), default=-1)
        dependencies = [[] if i == 0 else [i - 1] for i in range(last + 1)]
    return Interference(requests, dependencies, in_place).plan([request.nbytes for request in requests])


class Interference:
    """Which requests conflict, as in a compiler's interference graph, and which continue others in place.

    A plan depends on this and on sizes.

    Parameters
    ----------
    requests : sequence of Request
        Their sizes count as far as they are zero, or equal for what is written in place.
    dependencies : sequence of sequence of int
        For each node, the earlier nodes that it waits for.
    in_place : iterable of InPlace
        What may be written in place.

    Raises
    ------
    MemoryError
        The host has no memory.
    """

    def __init__(
        self, requests: Sequence[Request], dependencies: Sequence[Sequence[int]], in_place: Iterable[InPlace]
    ) -> None:
        written = sorted(in_place)
        arrays = [
            core.ffi.new("int64_t[]", [request.nbytes for request in requests]),
            core.ffi.new("uint8_t[]", [request.is_result for request in requests]),
            *flattened([request.users for request in requests]),
            *flattened(dependencies),
            core.ffi.new("uint32_t[]", list(chain.from_iterable(written))),
        ]
        given = core.ffi.new("hiprt_requests *", [len(requests), len(dependencies), len(written), *arrays])
        made = core.ffi.new("hiprt_interference **")
        if core.lib.hiprt_interference_create(given, made):
            raise MemoryError(NO_MEMORY)
        self.core = core.owned(made, core.lib.hiprt_interference_release)
        heads = core.lib.hiprt_interference_heads(self.core)
        self.heads = tuple(core.ffi.unpack(heads, len(requests)) if requests else ())
        self.uses = tuple([(request.users, request.is_result) for request in requests])

    def plan(self, sizes: Sequence[int]) -> Plan:
        """Place requests of other sizes, which are zero, or equal, where those that were given first are.

        Raises
        ------
        MemoryError
            The host has no memory.
        """
        count, placed = len(sizes), core.ffi.new("hiprt_placed *")
        offsets = core.ffi.new("int64_t[]", count)
        if core.lib.hiprt_interference_place(self.core, sizes, ALIGNMENT, offsets, placed):
            raise MemoryError(NO_MEMORY)
        found = tuple(core.ffi.unpack(offsets, count)) if count else ()
        heads = tuple(range(count)) if placed.is_apart else self.heads
        return Plan(found, placed.nbytes, placed.lower_bound, tuple(sizes), self.uses, heads)


def flattened(numbers: Sequence[Sequence[int]]) -> list[Any]:
    """Return where each list begins among all numbers, with the end of the last, and these, for the C core."""
    begins = [0, *accumulate(map(len, numbers))]
    return [core.ffi.new("uint32_t[]", each) for each in (begins, list(chain.from_iterable(numbers)))]
