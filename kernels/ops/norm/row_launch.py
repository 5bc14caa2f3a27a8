"""Rows: ops that work along the last axis, one threadgroup a row."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.kernel import uses_loops
from hiprt.kernels.ops.operands import same
from hiprt.stream import Stream

__all__ = ["grid_of", "shared", "vector"]

THREADS = 256


def grid_of(stream: Stream, rows: int, width: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return threadgroups and threads of each."""
    return shared(uses_loops(stream), rows, width)


def shared(loops: bool, rows: int, width: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the same for plain loops, or for threads that share a row."""
    threads = 1 if loops else min(THREADS, max(1, -(-width // 32)) * 32)
    return (rows, 1, 1), (threads, 1, 1)


def vector(op: str, name: str, value: Array, x: Array) -> None:
    """Require an array of the width and dtype of the rows of `x`."""
    same(op, name, value, "x", x)
    if value.shape != x.shape[-1:]:
        raise ValueError(f"{op}: {name} has shape {value.shape}; {x.shape[-1:]} is needed")
