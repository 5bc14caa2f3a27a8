"""Row launches, for kernels that work along the last axis and take one row with each threadgroup."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.launch import Three
from hiprt.kernels.lang.operands import floating, same
from hiprt.kernels.tuning.target import Target

__all__ = ["THREADS", "row_launch", "rows_of", "vector"]

THREADS = 256


def row_launch(target: Target, rows: int, width: int, most: int = THREADS) -> tuple[Three, Three]:
    """Return the grid, which has a threadgroup for each row, and the threads that share a row; a plain loop has one."""
    threads = 1 if target.takes_loops else min(most, max(1, -(-width // 32)) * 32)
    return (rows, 1, 1), (threads, 1, 1)


def rows_of(op: str, x: Array | Form) -> tuple[int, int]:
    """Return the number of rows of an array, and their width.

    Raises
    ------
    TypeError, ValueError
        The array is not contiguous, has no axis, or is not of float16, bfloat16 or float32.
    """
    floating(op, "x", x)
    if not x.ndim:
        raise ValueError(f"{op}: x has no axis")
    width = x.shape[-1]
    return x.size // max(width, 1), width


def vector(op: str, name: str, value: Array | Form, x: Array | Form) -> None:
    """Require an array of the width and dtype of the rows of `x`."""
    same(op, name, value, "x", x)
    if value.shape != x.shape[-1:]:
        raise ValueError(f"{op}: {name} has shape {value.shape}; {x.shape[-1:]} is needed")
