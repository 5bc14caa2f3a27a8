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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import and_
from typing import NamedTuple

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
    requests : tuple of Request
        The intermediates.
    heads : tuple of int
        For each request the one whose memory it continues in place, or itself.
    """

    offsets: tuple[int, ...]
    nbytes: int
    lower_bound: int
    requests: tuple[Request, ...] = ()
    heads: tuple[int, ...] = ()


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
    return Structure(requests, dependencies, in_place).plan(requests)


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
        chains = merged(requests, self.heads)
        self.spans = [(i, *live) for i, chain in enumerate(chains) if (live := live_nodes(chain)) is not None]
        self.first = [request.users[:1] or (0,) for request in requests]
        apart = list(range(len(requests)))
        # Long chains in place may leave gaps that requests with memory of their own fill.
        tried = [self.heads] if self.heads == apart else [self.heads, apart]
        self.tried = [(heads, others_of(heads, self.conflicts)) for heads in tried]

    def plan(self, requests: Sequence[Request]) -> Plan:
        """Place requests that differ from those of the structure in sizes only, and in none of what counts there."""
        sizes = sizes_of(requests)
        bound = lower_bound(self.spans, sizes)
        best: Plan | None = None
        for heads, others in self.tried:
            for offsets in self.arrangements(sizes, heads, others):
                nbytes = max((offset + size for offset, size in zip(offsets, sizes)), default=0)
                if best is None and nbytes > bound:
                    bound = max(bound, conflicting_bytes(sizes, self.heads, self.conflicts))
                if best is None or nbytes < best.nbytes:
                    best = Plan(offsets, nbytes, bound, tuple(requests), tuple(heads))
                if nbytes == bound:
                    return best
        assert best is not None
        return best

    def arrangements(
        self, sizes: Sequence[int], heads: Sequence[int], others: Sequence[Collection[int]]
    ) -> Iterator[tuple[int, ...]]:
        """Yield the offsets that one order of placing after the other leads to; a chain lies where its head does."""
        first = self.first
        placed = [i for i, head in enumerate(heads) if i == head]
        degree = [sum([sizes[k] for k in each]) for each in others]
        orders: tuple[Callable[[int], tuple[int, ...]], ...] = (
            lambda i: (-sizes[i], -degree[i], i),
            lambda i: (-sizes[i], i),
            lambda i: (-degree[i], -sizes[i], i),
            lambda i: first[i] + (-sizes[i], i),
        )
        for order in orders:
            offsets = place(sorted(placed, key=order), sizes, others)
            yield tuple([offsets[head] for head in heads])


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


def live_nodes(request: Request) -> tuple[int, int | None] | None:
    """Return the first node for which a request is live, and the one behind the last, None for the end; or None."""
    if not request.users:
        return None
    return request.users[0], None if request.is_result else request.users[-1] + 1


def lower_bound(spans: Sequence[tuple[int, int, int | None]], sizes: Sequence[int]) -> int:
    """Return the most bytes that are live at once in program order; a span is a request and its `live_nodes`."""
    last = max((end or begin + 1 for _, begin, end in spans), default=1)
    change = [0] * (last + 1)
    for i, begin, end in spans:
        change[begin] += sizes[i]
        change[last if end is None else end] -= sizes[i]
    return max(accumulate(change))


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


def place(order: Sequence[int], sizes: Sequence[int], conflicts: Sequence[Collection[int]]) -> list[int]:
    """Return offsets, for which each request in turn went into the tightest gap between those it conflicts with."""
    offsets = [0] * len(sizes)
    placed = [False] * len(sizes)
    for i in order:
        best, tightest, end = -1, -1, 0
        for start, stop in sorted([(offsets[k], offsets[k] + sizes[k]) for k in conflicts[i] if placed[k]]):
            gap = start - end
            if gap >= sizes[i] and (best < 0 or gap < tightest):
                best, tightest = end, gap
            end = max(end, stop)
        offsets[i] = best if best >= 0 else end
        placed[i] = True
    return offsets
