"""Ops that take elements by indices from an array, put them into one, or add to one."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import result
from hiprt.kernels.ops.broadcasting import broadcast_shapes, broadcast_to
from hiprt.kernels.ops.elementwise.copies import astype, axis_of, contiguous, copy_into
from hiprt.kernels.ops.promotion import WORDS, is_integer, strided
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["put_along_axis", "scatter", "scatter_add", "take", "take_along_axis"]

THREADS = 256
# Kernels move elements as integers of their width.
MOVED = {np.dtype(kind).itemsize: np.dtype(kind) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)}
# a is [outer][length][inner]. The indices are [count], or [outer][count][inner] where each element has its own.
PLACE = """
long at = long(indices[is_along ? (o * count + j) * inner + n : j]);
if (at < 0) at += long(length);
bool exists = at >= 0 && at < long(length);
"""
TAKE = f"""
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint n = i % inner, j = i / inner % count, o = i / inner / count;
{PLACE}
out[i] = exists ? a[(o * length + uint(at)) * inner + n] : a_word(0);
"""
# A thread takes a whole column, so that indices that name a place twice are taken in their order.
PUT = f"""
uint i = thread_position_in_grid.x;
if (i >= size) return;
uint n = i % inner, o = i / inner;
for (uint j = 0; j < count; j++) {{
  {PLACE}
  if (!exists) continue;
  uint to = (o * length + uint(at)) * inner + n;
  a_word value = values[(o * count + j) * inner + n];
  out[to] = adds ? a_word(sum_word(out[to]) + sum_word(value)) : value;
}}
"""
SCALARS = {"size": "uint", "inner": "uint", "count": "uint", "length": "uint", "is_along": "uint"}


@cache
def taker(word: str, index: str) -> Kernel:
    """Return the kernel that takes elements of a width."""
    source = f"typedef {word} a_word;" + TAKE
    name = f"take_{word}_{index}"
    return Kernel(name, inputs={"a": word, "indices": index}, outputs={"out": word}, scalars=SCALARS, source=source)


@cache
def putter(word: str, index: str, is_adding: bool) -> Kernel:
    """Return the kernel that puts elements of a width, or that adds numbers of a dtype."""
    wide = "float" if word in ("half", "bfloat16_t") else word
    source = f"typedef {word} a_word;\ntypedef {wide} sum_word;\nconstexpr bool adds = {str(is_adding).lower()};" + PUT
    name = f"{'scatter_add' if is_adding else 'scatter'}_{word}_{index}"
    inputs = {"values": word, "indices": index}
    return Kernel(name, inputs=inputs, updates={"out": word}, scalars=SCALARS, source=source)


def check_indices(op: str, indices: Array) -> None:
    """Refuse indices that are not integers."""
    strided(op, "indices", indices)
    if not is_integer(indices.dtype):
        raise ValueError(f"[{op}] Got indices with invalid dtype. Indices must be integral.")


def gathered(
    op: str,
    a: Array,
    indices: Array,
    axis: int,
    shape: tuple[int, ...],
    is_along: bool,
    stream: Stream,
    out: Array | None,
) -> Array:
    """Return the elements of an array that indices name along an axis."""
    a, indices = contiguous(a, stream=stream), contiguous(indices, stream=stream)
    out = result(op, out, shape, a.dtype, stream, {"a": a, "indices": indices})
    moved = MOVED[a.dtype.itemsize]
    take_of(a, indices, axis, is_along, out.size)(stream, a=a.view(moved), indices=indices, out=out.view(moved))
    return out


@Planned
def take_of(a: Form, indices: Form, axis: int, is_along: bool, size: int) -> Launch:
    """Return the launch that takes `size` elements."""
    kernel = taker(WORDS[MOVED[a.dtype.itemsize]], WORDS[indices.dtype])
    scalars = {"size": size, "inner": math.prod(a.shape[axis + 1 :]), "length": a.shape[axis], "is_along": is_along}
    count = indices.shape[axis] if is_along else indices.size
    return Launch(kernel, (-(-size // THREADS), 1, 1), (THREADS, 1, 1), count=count, **scalars)


@op
def take(
    a: Array,
    indices: Array,
    axis: int | None = None,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the slices of an array that indices name.

    Parameters
    ----------
    a : Array
        An array of any strides and dtype.
    indices : Array
        Indices of any integer dtype. Negative ones count from the end; one that names nothing gives zeros.
    axis : int, optional
        The axis that indices count along; by default `a` is taken as one row.

    Returns
    -------
    Array
        The shape of `a` with that of `indices` in the place of `axis`.

    Raises
    ------
    TypeError
        An argument is not an array.
    ValueError
        There is no such axis, the indices are not integers, or `out` overlaps an input.
    """
    strided("take", "a", a)
    check_indices("take", indices)
    stream = stream or current_stream()
    if axis is None:
        a, axis = contiguous(a, stream=stream).reshape(a.size), 0
    axis = axis_of("take", axis, a.ndim)
    shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
    return gathered("take", a, indices, axis, shape, False, stream, out)


def along(op: str, a: Array, indices: Array, axis: int) -> tuple[int, tuple[int, ...]]:
    """Return the axis, and the shape that the indices broadcast to; it fits the array in every other axis."""
    strided(op, "a", a)
    check_indices(op, indices)
    axis = axis_of(op, axis, a.ndim)
    if indices.ndim != a.ndim:
        raise ValueError(f"[{op}] Indices of dimension {indices.ndim} does not match array of dimension {a.ndim}.")
    others = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    shape = broadcast_shapes(op, others, indices.shape)
    if any(n != m for i, (n, m) in enumerate(zip(shape, a.shape)) if i != axis):
        raise ValueError(f"[{op}] Indices of shape {indices.shape} do not fit an array of shape {a.shape}.")
    return axis, shape


@op
def take_along_axis(
    a: Array, indices: Array, axis: int, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return, for each place of `indices`, the element of its row that the index names.

    Parameters
    ----------
    a : Array
        An array of any strides and dtype.
    indices : Array
        Indices of any integer dtype, with as many axes as `a`. Axes other than `axis` broadcast to those of `a`.
        Negative indices count from the end; one that names nothing gives zero.
    axis : int
        The axis that indices count along.

    Returns
    -------
    Array
        The shape of `a`, with the size of `indices` along `axis`.

    Raises
    ------
    TypeError
        An argument is not an array.
    ValueError
        The axis or a shape does not fit, the indices are not integers, or `out` overlaps an input.
    """
    op = "take_along_axis"
    axis, shape = along(op, a, indices, axis)
    return gathered(op, a, broadcast_to(indices, shape), axis, shape, True, stream or current_stream(), out)


def put(
    op: str,
    a: Array,
    indices: Array,
    values: Array,
    axis: int,
    is_along: bool,
    stream: Stream,
    out: Array | None,
    *,
    is_adding: bool = False,
) -> Array:
    """Return a copy of `a` with values put or added. If `out` is `a`, it is changed in place and returned."""
    indices, values = contiguous(indices, stream=stream), contiguous(values, stream=stream)
    apart = {"indices": indices, "values": values} | ({} if out is a else {"a": a})
    into = result(op, out, a.shape, a.dtype, stream, apart)
    if out is not a:
        copy_into(into, a, stream, is_whole=True)
    launch = put_of(a, indices, axis, is_along, is_adding)
    if launch is not None:
        moved = a.dtype if is_adding else MOVED[a.dtype.itemsize]
        launch(stream, values=values.view(moved), indices=indices, out=into.view(moved))
    return into


@Planned
def put_of(a: Form, indices: Form, axis: int, is_along: bool, is_adding: bool) -> Launch | None:
    """Return the launch that puts or adds values; None where there is nothing to put."""
    inner = math.prod(a.shape[axis + 1 :])
    size = math.prod(a.shape[:axis]) * inner
    count = indices.shape[axis] if is_along else indices.size
    if not (count and size):
        return None
    word = WORDS[a.dtype if is_adding else MOVED[a.dtype.itemsize]]
    scalars = {"size": size, "inner": inner, "count": count, "length": a.shape[axis], "is_along": is_along}
    grid = (-(-size // THREADS), 1, 1)
    return Launch(putter(word, WORDS[indices.dtype], is_adding), grid, (THREADS, 1, 1), **scalars)


@op
def put_along_axis(
    a: Array, indices: Array, values: Array, axis: int, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return `a` with the elements that `indices` names in each row replaced by `values`.

    Parameters
    ----------
    a : Array
        An array of any dtype.
    indices : Array
        Indices as in `take_along_axis`. One that names nothing is ignored, and the last of equal ones wins.
    values : Array
        The new values. They are converted to the dtype of `a` and broadcast to the shape of `indices`.
    axis : int
        The axis that indices count along.

    Returns
    -------
    Array
        The shape and dtype of `a`. `out` may be `a`, which is then changed in place.

    Raises
    ------
    TypeError
        An argument is not an array.
    ValueError
        The axis or a shape does not fit, the indices are not integers, or `out` overlaps an input that it is not.
    """
    op = "put_along_axis"
    axis, shape = along(op, a, indices, axis)
    stream = stream or current_stream()
    spread = broadcast_to(astype(strided(op, "values", values), a.dtype, stream=stream), shape)
    return put(op, a, broadcast_to(indices, shape), spread, axis, True, stream, out)


def rows(
    op: str,
    a: Array,
    indices: Array,
    updates: Array,
    axis: int,
    stream: Stream | None,
    out: Array | None,
    is_adding: bool,
) -> Array:
    """Return `a` with whole slices put or added."""
    strided(op, "a", a)
    check_indices(op, indices)
    axis = axis_of(op, axis, a.ndim)
    stream = stream or current_stream()
    shape = (*a.shape[:axis], *indices.shape, *a.shape[axis + 1 :])
    if broadcast_shapes(op, strided(op, "updates", updates).shape, shape) != shape:
        raise ValueError(f"[{op}] Updates of shape {updates.shape} do not fit slices of shape {shape}.")
    spread = broadcast_to(astype(updates, a.dtype, stream=stream), shape)
    return put(op, a, indices, spread, axis, False, stream, out, is_adding=is_adding)


@op
def scatter(
    a: Array,
    indices: Array,
    updates: Array,
    axis: int = 0,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `a` with the slices that `indices` names replaced by `updates`.

    Parameters
    ----------
    a : Array
        An array of any dtype.
    indices : Array
        Indices of any integer dtype. Negative ones count from the end, one that names nothing is ignored, and the last
        of equal ones wins.
    updates : Array
        The new slices. They are converted to the dtype of `a` and broadcast to the shape of ``take(a, indices, axis)``.
    axis : int
        The axis that indices count along.

    Returns
    -------
    Array
        The shape and dtype of `a`; `out` may be `a`.

    Raises
    ------
    TypeError, ValueError
        What `put_along_axis` raises.
    """
    return rows("scatter", a, indices, updates, axis, stream, out, False)


@op
def scatter_add(
    a: Array,
    indices: Array,
    updates: Array,
    axis: int = 0,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `a` with `updates` added to the slices that `indices` names.

    The arguments are those of `scatter`. A slice that is named more than once gets every update, one after the other in
    the order of the indices. Each sum is rounded to the dtype of `a`, so that the bits do not depend on how the kernel
    runs.
    """
    return rows("scatter_add", a, indices, updates, axis, stream, out, True)
