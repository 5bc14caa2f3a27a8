"""Argument checks shared by the ops: each names the op, the argument and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hiprt.array import Array, Form, bfloat16, make
from hiprt.stream import Stream

__all__ = ["FLOATS", "aligned", "buffer", "disjoint", "floating", "result", "row_stride", "same"]

FLOATS = frozenset((np.dtype(np.float16), bfloat16, np.dtype(np.float32)))
INT32 = np.dtype(np.int32)
UINT32 = np.dtype(np.uint32)
FLOAT32 = np.dtype(np.float32)
LARGEST = 2**31 - 1  # indices inside a kernel are 32 bits wide


def contiguous(op: str, name: str, value: Any) -> None:
    """Refuse anything but a contiguous array of a size that kernels can index."""
    if not isinstance(value, (Array, Form)):
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, not a hiprt.Array")
    if not value.is_contiguous:
        raise ValueError(f"{op}: {name} is not contiguous (shape {value.shape}, strides {value.strides})")
    if value.size > LARGEST:
        raise ValueError(f"{op}: {name} has {value.size} elements; kernels index at most {LARGEST}")


def floating(op: str, name: str, value: Array | Form, ndim: int | None = None) -> None:
    """Require a contiguous float16, bfloat16 or float32 array, of `ndim` axes where that is given."""
    contiguous(op, name, value)
    if value.dtype not in FLOATS:
        raise TypeError(f"{op}: {name} is {value.dtype}; float16, bfloat16 or float32 is needed")
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{op}: {name} has shape {value.shape}; {ndim} axes are needed")


def buffer(op: str, name: str, value: Array | Form, dtype: np.dtype[Any], shape: tuple[int, ...] | None = None) -> None:
    """Require a contiguous array of one dtype, and of one shape where that is given."""
    contiguous(op, name, value)
    if value.dtype != dtype:
        raise TypeError(f"{op}: {name} is {value.dtype}; {dtype} is needed")
    if shape is not None and value.shape != shape:
        raise ValueError(f"{op}: {name} has shape {value.shape}; {shape} is needed")


def same(op: str, name: str, value: Array | Form, other_name: str, other: Array | Form) -> None:
    """Require a contiguous array with the dtype of another."""
    contiguous(op, name, value)
    if value.dtype != other.dtype:
        raise TypeError(f"{op}: {name} is {value.dtype} and {other_name} {other.dtype}; they must be the same")


def row_stride(op: str, name: str, value: Form, shape: tuple[int, int], other_name: str, other: Form) -> int:
    """Require rows of one shape with the dtype of another array, which may lie apart.

    Returns
    -------
    int
        The elements from one row to the next.
    """
    if not isinstance(value, (Array, Form)) or value.dtype != other.dtype:
        raise TypeError(f"{op}: {name} is not an array of {other.dtype}, which {other_name} is")
    strides = value.strides or (shape[1], 1)
    if value.shape != shape or (value.size > 1 and strides[-1] != 1):
        raise ValueError(
            f"{op}: {name} has shape {value.shape} and strides {value.strides}; [{shape[0]}, {shape[1]}] is needed"
        )
    return strides[0]


def aligned(op: str, name: str, value: Array | Form) -> None:
    """Require an address that 128-bit loads can use."""
    if not (value if isinstance(value, Form) else value.form).is_aligned:
        raise ValueError(f"{op}: {name} does not start at a multiple of 16 bytes: copy it")


def disjoint(op: str, written: Mapping[str, Array], inputs: Sequence[Array | None]) -> None:
    """Refuse arrays that a kernel writes if they overlap an input or each other."""
    taken = [value.extent for value in inputs if value is not None]
    for name, value in written.items():
        start, end = value.extent
        if any(start < last and first < end for first, last in taken):
            raise ValueError(f"{op}: {name} overlaps another array")
        taken.append((start, end))


def result(
    op: str,
    out: Array | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stream: Stream,
    inputs: Mapping[str, Any],
    over: Sequence[str] = (),
) -> Array:
    """Return the array that an op writes: a new one, or `out` after checking it.

    Parameters
    ----------
    op : str
    out : Array or None
    shape, dtype
        The result's shape and dtype.
    stream : Stream
        The stream that uses a new array first.
    inputs : mapping of str to object
        The op's operands by name; values that are no arrays are ignored.
    over : sequence of str
        The operands that `out` may be. `out` must not be a shifted view of these, nor overlap any other.

    Raises
    ------
    TypeError, ValueError
        `out` has another dtype or shape, is not contiguous, or overlaps an operand.
    """
    if out is None:
        return make(shape, dtype, stream)
    buffer(op, "out", out, dtype, shape)
    start, end = out.extent
    for name, value in inputs.items():
        if not isinstance(value, Array):
            continue
        first, last = value.extent
        if start < last and first < end and not (name in over and (start, end) == (first, last)):
            raise ValueError(f"{op}: out overlaps an input")
    return out
