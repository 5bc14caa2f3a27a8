"""Ops on the diagonals of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, zeros as zeros_of
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import axis_in

__all__ = ["diag", "diagonal", "trace", "tril", "triu"]


def banded(a: Any, k: int, is_lower: bool) -> array:
    """Return a matrix with zeros on one side of a diagonal."""
    a = as_array(a)
    if a.ndim < 2:
        raise ValueError("[tril/triu] The array must have at least two dimensions.")
    rows, columns = a.shape[-2:]
    first = k if is_lower else k - 1

    def cut(x: Array) -> Array:
        below = kernels.greater_equal(kernels.arange(rows).reshape((rows, 1)), kernels.arange(-first, columns - first))
        zero = False if x.dtype == np.bool_ else 0
        return kernels.where(below, x, zero) if is_lower else kernels.where(below, zero, x)

    made: array = apply(cut, a)
    return made


def tril(x: Any, k: int = 0, *, stream: Any = None) -> array:
    """Return a matrix with zeros above a diagonal."""
    return banded(x, k, True)


def triu(x: Any, k: int = 0, *, stream: Any = None) -> array:
    """Return a matrix with zeros below a diagonal."""
    return banded(x, k, False)


def diagonal(a: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: Any = None) -> array:
    """Return the diagonal of two axes, as the last axis."""
    a = as_array(a)
    first, second = axis_in("diagonal", axis1, a.ndim), axis_in("diagonal", axis2, a.ndim)
    rest = [i for i in range(a.ndim) if i not in (first, second)]
    rows, columns = a.shape[first], a.shape[second]
    start = (max(0, -offset), max(0, offset))
    count = max(0, min(rows - start[0], columns - start[1]))

    def diagonal_of(x: Array) -> Array:
        turned = kernels.contiguous(x.transpose(*rest, first, second))
        flat = turned.reshape((*turned.shape[:-2], rows * columns))
        places = kernels.add(kernels.multiply(kernels.arange(count), columns + 1), start[0] * columns + start[1])
        return kernels.take(flat, places, flat.ndim - 1)

    made: array = apply(diagonal_of, a)
    return made


def diag(a: Any, /, k: int = 0, *, stream: Any = None) -> array:
    """Return the diagonal of a matrix, or the matrix that has a vector as a diagonal."""
    a = as_array(a)
    if a.ndim == 2:
        return diagonal(a, k)
    if a.ndim != 1:
        raise ValueError(f"[diag] array must be 1-D or 2-D, got array with {a.ndim} dimensions.")
    n = a.shape[0] + abs(k)
    if not a.shape[0]:
        empty: array = apply(zeros_of, (n, n), a.dtype.numpy)
        return empty
    first = max(0, k) + max(0, -k) * n

    def matrix_of(x: Array) -> Array:
        places = kernels.add(kernels.multiply(kernels.arange(x.shape[0]), n + 1), first)
        return kernels.scatter(zeros_of((n * n,), x.dtype), places, x, 0).reshape((n, n))

    made: array = apply(matrix_of, a)
    return made


def trace(
    a: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, *, stream: Any = None
) -> array:
    """Return the sum of a diagonal."""
    made: array = apply(kernels.sum, diagonal(a, offset, axis1, axis2), -1)
    return made if dtype is None else made.astype(dtype)
