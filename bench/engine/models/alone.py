"""Rows alone: a call for several rows in which each has the bits that it has by itself."""

from __future__ import annotations

from collections.abc import Callable

from hiprt import Array, current_stream, kernels
from hiprt.kernels.tuning.target import target_of

__all__ = ["Each", "alone", "together"]

Each = Callable[..., Array]  # takes a call and the rows that it gets


def together(call: Callable[..., Array], *rows: Array) -> Array:
    """Return what a call makes of rows."""
    return call(*rows)


def alone(call: Callable[..., Array], *rows: Array) -> Array:
    """Return what a call makes of rows, each with the bits that it has by itself.

    Kernels of GPUs multiply several vectors in another order than one, so that each row is a call there.
    """
    if target_of(current_stream()).takes_loops:
        return call(*rows)
    return kernels.concatenate([call(*(part[i : i + 1] for part in rows)) for i in range(len(rows[0]))])
