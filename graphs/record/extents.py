"""Extents: pieces of device memory, as (first address, one past the last)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["Extent", "are_apart", "coalesce", "subtract"]

Extent = tuple[int, int]


def coalesce(extents: Iterable[Extent]) -> list[Extent]:
    """Return disjoint sorted extents that cover the same bytes.

    Neighbours stay apart: they may be two allocations, and a copy must not span those.
    """
    merged: list[Extent] = []
    for start, end in sorted(extents):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def subtract(extents: Iterable[Extent], others: Iterable[Extent]) -> list[Extent]:
    """Return the parts of `extents` that none of `others` covers."""
    left = coalesce(extents)
    for low, high in coalesce(others):
        cut: list[Extent] = []
        for start, end in left:
            cut += [(a, b) for a, b in ((start, min(end, low)), (max(start, high), end)) if a < b]
        left = cut
    return left


def are_apart(extents: Iterable[Extent]) -> bool:
    """Whether no two extents share a byte."""
    return all(first[1] <= second[0] for first, second in pairwise(sorted(extents)))
