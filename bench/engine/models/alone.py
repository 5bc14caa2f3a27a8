"""Rows alone: a call for several rows in which each has the bits that it has by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hiprt import Array, current_stream, kernels
from hiprt.kernels.tuning.target import target_of

__all__ = ["Each", "alone", "together"]

Each = Callable[..., Array]  # takes a call and the rows that it gets


def together(call: Callable[..., Array], *rows: Array) -> Array:
    """Return what a call makes of rows."""
    return call(*rows)


def alone(call: Callable[..., Array], *rows: Array, most: int = 1) -> Array:
    """Return what a call makes of rows, each with the bits that it has by itself.

    Some kernels of GPUs multiply several vectors in another order than one. There a call takes the `most` rows that
    have these bits side by side, or fewer, so that calls have about as many each.
    """
    count = len(rows[0])
    if count <= most or target_of(current_stream()).takes_loops:
        return call(*rows)
    calls = -(-count // most)
    ends = [count * i // calls for i in range(calls + 1)]
    return kernels.concatenate([call(*(part[start:end] for part in rows)) for start, end in pairwise(ends)])
