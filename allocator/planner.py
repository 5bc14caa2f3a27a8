"""Planner: where the intermediates of a kept step lie in one block of memory.

Two intermediates may share bytes only if every node that touches one is ordered, by edges, before every node that
touches the other. Sharing then adds no edge that the step does not have, so the order in which a device runs
independent nodes stays free. Requests are placed largest first, each into the tightest gap among those it conflicts
with; several orders are tried until one reaches the lower bound.

Requests come from a recording in which no two intermediates share memory: `requests_of`.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import and_

__all__ = ["Plan", "Request", "plan", "requests_of"]

ALIGNMENT = 256


@dataclass(frozen=True)
class Request:
    """An intermediate of a step.

    Attributes
    ----------
    nbytes : int
        Size.
    users : tuple of int
        The nodes that touch it, ascending; none: nobody ever does.
    is_result : bool
        Somebody reads it after the step, so nothing that is used later may share its memory.
    """

    nbytes: int
    users: tuple[int, ...]
    is_result: bool = False


@dataclass(frozen=True)
class Plan:
    """Offsets of intermediates in one block.

    Attributes
    ----------
    offsets : tuple of int
        One per request, in their order; multiples of 256.
    nbytes : int
        Size of the block.
    lower_bound : int
        Most bytes that are live at once in program order, sizes rounded up to 256: no plan is smaller.
    """

    offsets: tuple[int, ...]
    nbytes: int
    lower_bound: int


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
        Per node in program order, the memory it declares: (start, end, access).
    results : iterable of int
        Indices of the intermediates that are read after the step.

    Returns
    -------
    list of Request
        One per extent.
    """
    order = sorted((start, end, i) for i, (start, end) in enumerate(extents) if start < end)
    starts = [start for start, _, _ in order]
    users: list[list[int]] = [[] for _ in extents]
    for node, pieces in enumerate(touched):
        for start, end, _ in pieces:
            at = bisect.bisect_right(starts, start) - 1
            for low, high, i in order[max(at, 0) : bisect.bisect_left(starts, end)]:
                if max(start, low) < min(end, high) and users[i][-1:] != [node]:
                    users[i].append(node)
    kept = set(results)
    return [Request(end - start, tuple(users[i]), i in kept) for i, (start, end) in enumerate(extents)]


def plan(requests: Sequence[Request], dependencies: Sequence[Sequence[int]] | None = None) -> Plan:
    """Place intermediates in one block.

    Parameters
    ----------
    requests : sequence of Request
    dependencies : sequence of sequence of int, optional
        Per node, the earlier nodes that it waits for. By default each node waits for the one before it.

    Returns
    -------
    Plan
        Its size is the smallest that the orders tried led to.
    """
    sizes = [-(-request.nbytes // ALIGNMENT) * ALIGNMENT for request in requests]
    bound = lower_bound(requests, sizes)
    conflicts = conflicts_of(requests, sizes, dependencies)
    degree = [sum(sizes[k] for k in others) for others in conflicts]
    orders: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-sizes[i], -degree[i], i),
        lambda i: (-sizes[i], i),
        lambda i: (-degree[i], -sizes[i], i),
        lambda i: (requests[i].users[:1] or (0,)) + (-sizes[i], i),
    )
    best: Plan | None = None
    for order in orders:
        offsets = place(sorted(range(len(requests)), key=order), sizes, conflicts)
        nbytes = max((offset + size for offset, size in zip(offsets, sizes)), default=0)
        if best is None or nbytes < best.nbytes:
            best = Plan(tuple(offsets), nbytes, bound)
        if best.nbytes == bound:
            break
    assert best is not None
    return best


def lower_bound(requests: Sequence[Request], sizes: Sequence[int]) -> int:
    """Return the most bytes that are live at once in program order."""
    last = max((request.users[-1] for request in requests if request.users), default=0)
    change = [0] * (last + 2)
    for request, size in zip(requests, sizes):
        if request.users:
            change[request.users[0]] += size
            change[last + 1 if request.is_result else request.users[-1] + 1] -= size
    return max(accumulate(change))


def ancestors_of(dependencies: Sequence[Sequence[int]]) -> list[int]:
    """Return, per node, the set of nodes ordered before it, as the bits of an integer."""
    ancestors: list[int] = []
    for earlier in dependencies:
        mask = 0
        for node in earlier:
            mask |= ancestors[node] | 1 << node
        ancestors.append(mask)
    return ancestors


def conflicts_of(
    requests: Sequence[Request], sizes: Sequence[int], dependencies: Sequence[Sequence[int]] | None
) -> list[list[int]]:
    """Return, per request, those that may be live together with it."""
    if dependencies is None:
        last = max((request.users[-1] for request in requests if request.users), default=-1)
        dependencies = [[] if i == 0 else [i - 1] for i in range(last + 1)]
    ancestors = ancestors_of(dependencies)
    users = [sum(1 << node for node in request.users) for request in requests]
    # What a later request has to find its earlier neighbours' users in: the nodes ordered before all of its own.
    before = [reduce(and_, [ancestors[node] for node in request.users]) if request.users else 0 for request in requests]
    order = sorted((i for i, r in enumerate(requests) if r.users and sizes[i]), key=lambda i: requests[i].users[0])
    conflicts: list[list[int]] = [[] for _ in requests]
    for at, later in enumerate(order):
        not_before = ~before[later]
        for earlier in order[:at]:
            if requests[earlier].is_result or users[earlier] & not_before:
                conflicts[later].append(earlier)
                conflicts[earlier].append(later)
    return conflicts


def place(order: Sequence[int], sizes: Sequence[int], conflicts: Sequence[Sequence[int]]) -> list[int]:
    """Return offsets: each request in turn goes into the tightest gap between those it conflicts with."""
    offsets = [0] * len(sizes)
    placed = [False] * len(sizes)
    for i in order:
        best, tightest, end = -1, -1, 0
        for start, stop in sorted((offsets[k], offsets[k] + sizes[k]) for k in conflicts[i] if placed[k]):
            gap = start - end
            if gap >= sizes[i] and (best < 0 or gap < tightest):
                best, tightest = end, gap
            end = max(end, stop)
        offsets[i] = best if best >= 0 else end
        placed[i] = True
    return offsets
