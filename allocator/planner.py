"""Planner: where the intermediates of a kept step lie in one block of memory.

Two intermediates conflict unless every node that touches one is ordered, by edges, before every node that touches the
other; only those that do not conflict may share bytes. Sharing then adds no edge that the step does not have, so a
device stays free to run independent nodes in any order. Where a kernel declares that an output may lie over an input
(`InPlace`), the output continues the input's memory at the very same bytes, if every other node that touches the input
is ordered before the kernel and every other node that touches the output after it. Requests are placed largest first,
each into the tightest gap among those it conflicts with; several orders are tried until one reaches the lower bound.

Requests come from a recording in which no two intermediates share memory (`requests_of`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import and_
from typing import Any, NamedTuple

from hiprt import core

__all__ = ["InPlace", "Outline", "Plan", "Request", "Structure", "plan", "requests_of"]

ALIGNMENT = 256  # bytes; offsets are multiples


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
    return Structure(requests, dependencies, in_place).plan([request.nbytes for request in requests])


class Structure:
    """What a plan depends on besides sizes: which requests conflict, and which continue others in place.

    Parameters
    ----------
    requests : sequence of Request
        Their sizes count as far as they are zero, or equal for what is written in place.
    dependencies : sequence of sequence of int
        For each node, the earlier nodes that it waits for.
    in_place : iterable of InPlace
        What may be written in place.
    """

    def __init__(
        self, requests: Sequence[Request], dependencies: Sequence[Sequence[int]], in_place: Iterable[InPlace]
    ) -> None:
        ancestors = ancestors_of(dependencies)
        self.conflicts = conflicts_of(requests, sizes_of(requests), ancestors)
        self.heads = heads_of(requests, ancestors, in_place)
        self.uses = tuple([(request.users, request.is_result) for request in requests])
        chains = merged(requests, self.heads)
        self.spans = Spans(chains)
        firsts = [request.users[0] if request.users else 0 for request in requests]
        apart = list(range(len(requests)))
        # Long chains in place may leave gaps that requests with memory of their own fill.
        tried = [self.heads] if self.heads == apart else [self.heads, apart]
        self.tried = [Placing(heads, firsts, self.conflicts) for heads in tried]

    def plan(self, sizes: Sequence[int]) -> Plan:
        """Place requests of other sizes, which are zero, or equal, where those of the structure are."""
        count = len(sizes)
        aligned, offsets = core.ffi.new("int64_t[]", count), core.ffi.new("int64_t[]", count)
        bound = self.spans.most_live(sizes, aligned)
        best: Plan | None = None
        for placing in self.tried:
            for order in range(core.lib.HIPRT_PLACING_ORDERS):
                nbytes = placing.place(aligned, order, offsets)
                if best is None and nbytes > bound:
                    bound = max(bound, conflicting_bytes(core.ffi.unpack(aligned, count), self.heads, self.conflicts))
                if best is None or nbytes < best.nbytes:
                    found = core.ffi.unpack(offsets, count) if count else []
                    best = Plan(tuple(found), nbytes, bound, tuple(sizes), self.uses, placing.heads)
                if nbytes == bound:
                    return best
        assert best is not None
        return best


class Spans:
    """When requests are live in program order, for the C core.

    Parameters
    ----------
    chains : sequence of Request
        The heads of chains stand for them, and the others have no users.
    """

    def __init__(self, chains: Sequence[Request]) -> None:
        live = [(i, each.users[0], each.users[-1] + 1, each.is_result) for i, each in enumerate(chains) if each.users]
        steps = max((end for _, _, end, _ in live), default=1)
        ends = [steps if is_result else end for _, _, end, is_result in live]
        lists = [i for i, _, _, _ in live], [begin for _, begin, _, _ in live], ends
        self.arrays = [core.ffi.new("uint32_t[]", each) for each in lists]
        self.core = core.ffi.new("hiprt_spans *", [len(live), steps, *self.arrays])

    def most_live(self, sizes: Sequence[int], aligned: Any) -> int:
        """Write sizes as multiples of `ALIGNMENT`, and return the most of these bytes that are live at once.

        Raises
        ------
        MemoryError
            The host has no memory.
        """
        nbytes = int(core.lib.hiprt_most_live(self.core, len(sizes), sizes, ALIGNMENT, aligned))
        if nbytes < 0:
            raise MemoryError("a plan of memory")
        return nbytes


class Placing:
    """What of a structure the C core reads: which requests are placed, and which of them conflict.

    Parameters
    ----------
    heads : sequence of int
        For each request the one whose memory it continues in place, or itself.
    firsts : sequence of int
        For each request the first node that touches it.
    conflicts : sequence of iterable of int
        For each request, those that it conflicts with.
    """

    def __init__(self, heads: Sequence[int], firsts: Sequence[int], conflicts: Sequence[Iterable[int]]) -> None:
        self.heads = tuple(heads)
        others = others_of(heads, conflicts)
        lists = heads, firsts, [0, *accumulate(map(len, others))], [k for each in others for k in each]
        self.arrays = [core.ffi.new("uint32_t[]", each) for each in lists]
        self.core = core.ffi.new("hiprt_placing *", [len(heads), *self.arrays])

    def place(self, sizes: Any, order: int, offsets: Any) -> int:
        """Write the offsets that one order of placing leads to; return the size of the block.

        Raises
        ------
        MemoryError
            The host has no memory.
        """
        nbytes = int(core.lib.hiprt_place(self.core, sizes, order, offsets))
        if nbytes < 0:
            raise MemoryError("a plan of memory")
        return nbytes


def sizes_of(requests: Sequence[Request]) -> list[int]:
    """Return the sizes of requests as multiples of `ALIGNMENT`."""
    return [-(-request.nbytes // ALIGNMENT) * ALIGNMENT for request in requests]


def others_of(heads: Sequence[int], conflicts: Sequence[Iterable[int]]) -> list[set[int]]:
    """Return, for each head of a chain, the other heads that one of the chain conflicts with."""
    others: list[set[int]] = [set() for _ in heads]
    for i, head in enumerate(heads):
        others[head].update([heads[k] for k in conflicts[i] if heads[k] != head])
    return others


def conflicting_bytes(sizes: Sequence[int], heads: Sequence[int], conflicts: Sequence[Iterable[int]]) -> int:
    """Return the size of a set of requests of which any two conflict: the largest found by adding to each, greedily."""
    others = [{k for k in each if heads[k] != heads[i]} for i, each in enumerate(conflicts)]
    most = 0
    for i, near in enumerate(others):
        left, total = near, sizes[i]
        if total + sum(sizes[k] for k in near) > most:
            for k in sorted(near, key=lambda k: (-sizes[k], k)):
                if k in left:
                    left, total = left & others[k], total + sizes[k]
        most = max(most, total)
    return most


def heads_of(requests: Sequence[Request], ancestors: Sequence[int], in_place: Iterable[InPlace]) -> list[int]:
    """Return, for each request, the head of its chain.

    A chain is a request with memory of its own, its head, and those that continue its memory in place.
    """
    heads = list(range(len(requests)))
    given: set[int] = set()
    for node, source, target in sorted(in_place):
        read, made = requests[source], requests[target]
        if source in given or heads[target] != target or read.is_result or read.nbytes != made.nbytes:
            continue
        # What is overwritten must have been read by all others, and what is written must not have been used before.
        readers_are_done = all(user == node or ancestors[node] >> user & 1 for user in read.users)
        if readers_are_done and all(user == node or ancestors[user] >> node & 1 for user in made.users):
            heads[target] = heads[source]
            given.add(source)
    return heads


def merged(requests: Sequence[Request], heads: Sequence[int]) -> list[Request]:
    """Return requests in which the head of each chain stands for all of it, and the others ask for nothing."""
    chains: dict[int, list[Request]] = {}
    for request, head in zip(requests, heads):
        chains.setdefault(head, []).append(request)
    made = [Request(0, ())] * len(requests)
    for head, chain in chains.items():
        users = sorted({user for request in chain for user in request.users})
        made[head] = Request(chain[0].nbytes, tuple(users), any(request.is_result for request in chain))
    return made


def ancestors_of(dependencies: Sequence[Sequence[int]]) -> list[int]:
    """Return, for each node, the set of nodes ordered before it, as the bits of an integer."""
    ancestors: list[int] = []
    for earlier in dependencies:
        mask = 0
        for node in earlier:
            mask |= ancestors[node] | 1 << node
        ancestors.append(mask)
    return ancestors


def conflicts_of(requests: Sequence[Request], sizes: Sequence[int], ancestors: Sequence[int]) -> list[list[int]]:
    """Return, for each request, those that it conflicts with."""
    users = [sum(1 << node for node in request.users) for request in requests]
    # For each request, the nodes that are ordered before all of its users: an earlier request whose users are all among
    # them does not conflict with it.
    before = [reduce(and_, [ancestors[node] for node in request.users]) if request.users else 0 for request in requests]
    # For each node, the nodes that are ordered before it and before every later node: a request whose users are all
    # among them conflicts with no request that begins there or later, and is not compared any more.
    settled = list(accumulate(reversed(ancestors), and_))[::-1]
    order = sorted((i for i, r in enumerate(requests) if r.users and sizes[i]), key=lambda i: requests[i].users[0])
    conflicts: list[list[int]] = [[] for _ in requests]
    live: list[int] = []
    for later in order:
        is_past = settled[requests[later].users[0]]
        live = [i for i in live if requests[i].is_result or users[i] & ~is_past]
        for earlier in live:
            if requests[earlier].is_result or users[earlier] & ~before[later]:
                conflicts[later].append(earlier)
                conflicts[earlier].append(later)
        live.append(later)
    return conflicts
