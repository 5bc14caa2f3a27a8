"""What the operators and methods of arrays do, which `hiprt.operators` declares: the ops, with numpy's operands taken.

A number of numpy's is taken as a Python number, which adapts to the array's dtype. An array of numpy's is copied to the
device; one of float64 becomes float32, since no kernel has float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt import kernels
from hiprt.array import Array, array, dtype_of
from hiprt.kernels.ops.broadcasting import broadcast_to
from hiprt.kernels.ops.elementwise import binary as binary_ops
from hiprt.kernels.ops.elementwise.copies import copy, copyto as assign
from hiprt.kernels.ops.promotion import as_number, is_float
from hiprt.stream import Stream

__all__ = ["assign", "astype", "binary", "broadcast_to", "copy", "in_place", "reduced", "rows", "unary"]

RANKS = {"b": 0, "u": 1, "i": 1}  # floating dtypes come behind


def operand(value: Any) -> Any:
    """Return an operand as ops take it; NotImplemented for what is no operand."""
    value = as_number(value)
    if isinstance(value, (Array, bool, int, float)):
        return value
    if isinstance(value, np.ndarray) or (isinstance(value, np.generic) and value.dtype.kind != "O"):
        return array(value, np.float32 if value.dtype == np.float64 else None)
    return NotImplemented


def binary(op: str, a: Any, b: Any) -> Any:
    """Return the op of two operands, or NotImplemented where the other one is nothing that ops take."""
    a, b = operand(a), operand(b)
    if a is NotImplemented or b is NotImplemented:
        return NotImplemented
    return getattr(kernels, op)(a, b)


def unary(op: str, a: Array) -> Array:
    """Return the op of an array."""
    made: Array = getattr(kernels, op)(a)
    return made


def reduced(op: str, a: Array, axis: int | Sequence[int] | None, keepdims: bool) -> Array:
    """Return the reduction of an array over axes."""
    made: Array = getattr(kernels, op)(a, axis, keepdims)
    return made


def in_place(op: str, a: Array, b: Any) -> Any:
    """Write the op of two operands over the first one.

    Raises
    ------
    TypeError
        The result is of a kind that the first operand's dtype cannot hold: a float for an integer.
    ValueError
        The result has another shape.
    """
    b = operand(b)
    if b is NotImplemented:
        return NotImplemented
    dtype, shape = getattr(binary_ops, op).declared.result_of(a, b)
    if rank(dtype) > rank(a.dtype):
        raise TypeError(f"{op}: the result is {dtype}, which does not go into an array of {a.dtype} in place")
    if shape != a.form.shape:
        raise ValueError(f"{op}: the result of shape {shape} does not go into an array of shape {a.shape} in place")
    if dtype == a.dtype and a.is_contiguous and (not isinstance(b, Array) or lies_right(a, b)):
        return getattr(kernels, op)(a, b, out=a)
    return assign(a, getattr(kernels, op)(a, b))


def rank(dtype: np.dtype[Any]) -> int:
    """Return the place of a dtype's kind in the order in which kinds hold each other: bool, integers, floats."""
    return 2 if is_float(dtype) else RANKS.get(dtype.kind, 2)


def lies_right(a: Array, b: Array) -> bool:
    """Whether an operand may be read while the result is written over the other one.

    Either they share no memory, or each element lies where the other's does. Values of a trace have extents as well,
    and share some where they are views of one value.
    """
    is_apart = a.extent[1] <= b.extent[0] or b.extent[1] <= a.extent[0]
    return is_apart or (a.extent == b.extent and a.form is b.form)


def rows(a: Array, indices: Array) -> Array:
    """Return the rows of an array that integers on the device name, as ``a[indices]`` does."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices are {indices.dtype}, not integers; kernels.where chooses by bool")
    return kernels.take(a, indices, 0)


def astype(a: Array, dtype: DTypeLike, is_copy: bool, stream: Stream | None) -> Array:
    """Return an array in another dtype; itself where it has that one and no copy is asked for."""
    if dtype_of(dtype) == a.dtype:
        return copy(a, stream=stream) if is_copy else a
    return kernels.astype(a, dtype, stream=stream)
