"""Ops that change shapes, join arrays and cut them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, row_strides, zeros as zeros_of
from hiprt.graphs.trace.value import TRANSPOSE
from hiprt.metal_compat.mlx.array import INT32, array, as_array, checked, packed
from hiprt.metal_compat.mlx.dtypes import Dtype, given
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.op import op

__all__ = [
    "as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "concat", "concatenate", "contiguous", "diag", "diagonal", "diff", "expand_dims", "flatten", "flip",
    "matrix_transpose", "meshgrid", "moveaxis", "pad", "permute_dims", "repeat", "reshape", "roll", "split",
    "squeeze", "stack", "swapaxes", "tile", "trace", "transpose", "tril", "triu", "unflatten", "unstack", "view",
]  # fmt: skip


def axis_in(name: str, axis: int, ndim: int) -> int:
    """Return an axis counted from the front; an axis that is not there is a ValueError and an IndexError."""
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(f"[{name}] Invalid axis {axis} for array with {ndim} dimensions.")
    return axis % ndim


def numbers(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return integers that are given one by one, or as one sequence."""
    if len(given) == 1 and isinstance(given[0], (list, tuple)):
        given = tuple(given[0])
    return tuple([n if type(n) is int else index(n) for n in given])


def reshaped(x: Array, shape: tuple[int, ...]) -> Array:
    """Return a value of another shape; a copy where the elements do not lie in order."""
    if shape.count(-1) == 1 and x.size == 0:
        rest = math.prod(n for n in shape if n != -1)
        shape = tuple(0 if n == -1 and rest else n for n in shape)
    return packed(x).reshape(shape)


def reshape(a: Any, /, *shape: Any, stream: Any = None) -> array:
    """Return the elements in another shape; one size may be -1."""
    sizes = numbers(shape)
    if math.prod(sizes) not in INT32:
        checked(sizes)
    made: array = apply(reshaped, as_array(a), sizes)
    return made


def flatten(a: Any, /, start_axis: int = 0, end_axis: int = -1, *, stream: Any = None) -> array:
    """Return an array whose axes from one to another are joined."""
    a = as_array(a)
    if not a.ndim:
        return reshape(a, 1)
    first, last = axis_in("flatten", start_axis, a.ndim), axis_in("flatten", end_axis, a.ndim)
    return reshape(a, *a.shape[:first], math.prod(a.shape[first : last + 1]), *a.shape[last + 1 :])


def unflatten(a: Any, /, axis: int, shape: Sequence[int], *, stream: Any = None) -> array:
    """Return an array one of whose axes is several."""
    a = as_array(a)
    axis = axis_in("unflatten", axis, a.ndim)
    sizes = [int(n) for n in shape]
    if -1 in sizes:
        sizes[sizes.index(-1)] = a.shape[axis] // max(1, math.prod(n for n in sizes if n != -1))
    return reshape(a, *a.shape[:axis], *sizes, *a.shape[axis + 1 :])


def expand_dims(a: Any, /, axis: int | Sequence[int], *, stream: Any = None) -> array:
    """Return an array with new axes of size 1."""
    a = as_array(a)
    axes = [axis] if isinstance(axis, int) else list(axis)
    ndim = a.ndim + len(axes)
    new = {axis_in("expand_dims", each, ndim) for each in axes}
    made: array = a[tuple(None if i in new else slice(None) for i in range(ndim))]
    return made


def squeeze(a: Any, /, axis: int | Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Return an array without axes of size 1."""
    a = as_array(a)
    given_axes = [i for i, n in enumerate(a.shape) if n == 1] if axis is None else axis
    axes = [given_axes] if isinstance(given_axes, int) else list(given_axes)
    gone = {axis_in("squeeze", each, a.ndim) for each in axes}
    if any(a.shape[i] != 1 for i in gone):
        raise ValueError(f"[squeeze] Cannot squeeze axes of array with shape {a.shape}: their size is not 1.")
    made: array = a[tuple(0 if i in gone else slice(None) for i in range(a.ndim))] if gone else a
    return made


def transpose(a: Any, /, *order: Any, axes: Any = None, stream: Any = None) -> array:
    """Return an array with its axes in another order, reversed by default."""
    axes = order if axes is None else tuple(axes)
    a = as_array(a)
    if len(axes) == 1 and axes[0] is None:
        axes = ()
    ndim = a.ndim
    order = tuple([axis_in("transpose", each, ndim) for each in numbers(axes)]) or tuple(reversed(range(ndim)))
    made: array = apply(TRANSPOSE, a, order)
    return made


permute_dims = transpose


def swapaxes(a: Any, /, axis1: int, axis2: int, *, stream: Any = None) -> array:
    """Return an array with two axes exchanged."""
    a = as_array(a)
    first, second = axis_in("swapaxes", axis1, a.ndim), axis_in("swapaxes", axis2, a.ndim)
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return transpose(a, *order)


def moveaxis(a: Any, /, source: int, destination: int, *, stream: Any = None) -> array:
    """Return an array with one axis in another place."""
    a = as_array(a)
    first, to = axis_in("moveaxis", source, a.ndim), axis_in("moveaxis", destination, a.ndim)
    order = [i for i in range(a.ndim) if i != first]
    order.insert(to, first)
    return transpose(a, *order)


def broadcast_to(a: Any, /, shape: Sequence[int], *, stream: Any = None) -> array:
    """Return an array whose elements repeat along new axes and those of size 1."""
    sizes = numbers((shape,) if isinstance(shape, int) else (tuple(shape),))
    if math.prod(sizes) not in INT32:
        checked(sizes)
    made: array = apply(kernels.broadcast_to, as_array(a), sizes)
    return made


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to."""
    if not shapes:
        raise ValueError("[broadcast_shapes] Must provide at least one shape.")
    return tuple(np.broadcast_shapes(*(tuple(each) for each in shapes)))


def broadcast_arrays(*arrays: Any, stream: Any = None) -> list[array]:
    """Return arrays broadcast to one shape."""
    made = [
        as_array(each) for each in (arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays)
    ]
    shape = broadcast_shapes(*(each.shape for each in made))
    return [broadcast_to(each, shape) for each in made]


def concatenate(arrays: Sequence[Any], axis: int | None = 0, *, stream: Any = None) -> array:
    """Return arrays joined along an axis; None joins them flat."""
    made = [as_array(each) for each in arrays]
    if axis is None:
        made, axis = [flatten(each) for each in made], 0
    found: array = apply(kernels.concatenate, made, axis)
    if found.value.size not in INT32:
        checked(found.value.shape)
    return found


concat = concatenate


def stack(arrays: Sequence[Any], axis: int | None = 0, *, stream: Any = None) -> array:
    """Return arrays joined along a new axis."""
    made = [as_array(each) for each in arrays]
    if not made:
        raise ValueError("[stack] No arrays provided for stacking")
    if any(each.shape != made[0].shape for each in made):
        raise ValueError("[stack] All arrays must have the same shape")
    return concatenate([expand_dims(each, axis or 0) for each in made], axis or 0)


def split(a: Any, /, indices_or_sections: int | Sequence[int], axis: int = 0, *, stream: Any = None) -> list[array]:
    """Return the parts of an array: as many as a number says, or between places."""
    a = as_array(a)
    axis = axis_in("split", axis, a.ndim)
    n = a.shape[axis]
    if isinstance(indices_or_sections, int):
        if indices_or_sections <= 0 or n % indices_or_sections:
            raise ValueError(
                f"[split] Array split does not result in sub arrays with equal size: attempting "
                f"{indices_or_sections} splits along axis {axis} for shape {a.shape}"
            )
        step = n // indices_or_sections
        places = [step * i for i in range(1, indices_or_sections)]
    else:
        places = [int(each) for each in indices_or_sections]
    bounds = [0, *places, n]
    front = (slice(None),) * axis
    return [a[(*front, slice(start, end))] for start, end in pairwise(bounds)]


def pad(a: array, pad_width: Any, mode: str = "constant", constant_values: Any = 0, *, stream: Any = None) -> array:
    """Return an array with elements before and behind each axis: a number, or the edge's."""
    a = as_array(a)
    if isinstance(pad_width, int):
        widths = [(pad_width, pad_width)] * a.ndim
    elif pad_width and isinstance(pad_width[0], int):
        widths = [(pad_width[0], pad_width[-1])] * a.ndim
    else:
        widths = [(each[0], each[-1]) for each in pad_width]
        widths = widths * a.ndim if len(widths) == 1 else widths
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"Invalid padding mode ({mode}) passed to pad")
    if mode in ("reflect", "symmetric"):
        return mirrored(a, widths, mode == "reflect")
    if mode == "edge":
        for axis, (before, after) in enumerate(widths):
            front = (slice(None),) * axis
            first, last = a[(*front, slice(0, 1))], a[(*front, slice(a.shape[axis] - 1, a.shape[axis]))]
            if before or after:
                a = concatenate([*[first] * before, a, *[last] * after], axis)
        return a
    shape = tuple(n + before + after for n, (before, after) in zip(a.shape, widths))
    part = tuple(slice(before, before + n) for n, (before, _) in zip(a.shape, widths))
    value = as_array(constant_values, a.dtype)
    made: array = apply(
        lambda x, v: kernels.assign(kernels.contiguous(kernels.broadcast_to(v, shape)), part, x), a, value
    )
    return made


def mirrored(a: array, widths: Sequence[tuple[int, int]], is_reflected: bool) -> array:
    """Return an array continued by its mirror images, which hold the elements at the edges twice, or once."""
    for axis, (before, after) in enumerate(widths):
        n = a.shape[axis]
        if not before and not after:
            continue
        if not n:
            raise ValueError(f"[pad] Cannot extend axis {axis}, which is empty.")
        round_trip = max(1, 2 * n - 2) if is_reflected else 2 * n
        places = np.arange(-before, n + after) % round_trip
        places = np.where(places < n, places, round_trip - places - (0 if is_reflected else 1))
        made: array = apply(kernels.take, a, array(places.astype(np.int32)), axis)
        a = made
    return a


def tile(a: Any, reps: int | Sequence[int], /, *, stream: Any = None) -> array:
    """Return an array repeated as a whole along each axis."""
    a = as_array(a)
    times = [reps] if isinstance(reps, int) else list(reps)
    ndim = max(len(times), a.ndim)
    times = [1] * (ndim - len(times)) + times
    shape = [1] * (ndim - a.ndim) + list(a.shape)
    wide = broadcast_to(
        reshape(a, *[n for size in shape for n in (1, size)]), [m for p in zip(times, shape) for m in p]
    )
    return reshape(wide, *[n * size for n, size in zip(times, shape)])


def repeat(a: Any, /, repeats: int, axis: int | None = None, *, stream: Any = None) -> array:
    """Return an array whose elements along an axis each come several times."""
    a = as_array(a)
    if axis is None:
        a, axis = flatten(a), 0
    axis = axis_in("repeat", axis, a.ndim)
    checked([a.shape[axis] * repeats])
    if repeats < 0:
        raise ValueError("[repeat] Number of repeats cannot be negative")
    shape = (*a.shape[: axis + 1], repeats, *a.shape[axis + 1 :])
    wide = broadcast_to(expand_dims(a, axis + 1), shape)
    return reshape(wide, *a.shape[:axis], a.shape[axis] * repeats, *a.shape[axis + 1 :])


def roll(a: array, shift: Any, axis: Any = None, *, stream: Any = None) -> array:
    """Return an array whose elements move along axes; what leaves comes in at the other end."""
    a = as_array(a)
    if axis is None:
        total = sum(shift) if isinstance(shift, (list, tuple)) else shift
        return reshape(roll(flatten(a), total, 0), *a.shape)
    axes = [axis] if isinstance(axis, int) else list(axis)
    shifts = [shift] if isinstance(shift, int) else list(shift)
    axes, shifts = (each * max(1, n // len(each)) for each, n in ((axes, len(shifts)), (shifts, len(axes))))
    for each, n in zip(axes, shifts):
        at = axis_in("roll", each, a.ndim)
        size = a.shape[at]
        cut = (-n) % size if size else 0
        if cut:
            first, second = split(a, [cut], at)
            a = concatenate([second, first], at)
    return a


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
    places = tuple([first + i * (n + 1) for i in range(a.shape[0])])
    made: array = apply(
        lambda x: kernels.scatter(
            kernels.contiguous(kernels.broadcast_to(kernels.multiply(x[:1], 0), (n * n,))),
            kernels.add(kernels.multiply(kernels.arange(len(places)), n + 1), first),
            x,
            0,
        ).reshape((n, n)),
        a,
    )
    return made


def trace(
    a: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, *, stream: Any = None
) -> array:
    """Return the sum of a diagonal."""
    made: array = apply(kernels.sum, diagonal(a, offset, axis1, axis2), -1)
    return made if dtype is None else made.astype(dtype)


def as_strided(
    a: Any,
    /,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    *,
    stream: Any = None,
) -> array:
    """Return a view of a contiguous array's elements with any strides."""
    a = as_array(a)
    sizes = tuple(a.shape if shape is None else shape)
    steps = tuple(row_strides(sizes) if strides is None else strides)

    def gathered(x: Array) -> Array:
        places: Array | None = None
        for axis, (n, step) in enumerate(zip(sizes, steps)):
            here = kernels.multiply(kernels.arange(n), step).reshape((n, *[1] * (len(sizes) - axis - 1)))
            places = here if places is None else kernels.add(places, here)
        flat = kernels.contiguous(x).reshape((x.size,))
        at = kernels.arange(offset, offset + 1).reshape(()) if places is None else kernels.add(places, offset)
        return kernels.take(flat, at, 0)

    made: array = apply(gathered, a)
    return made


def flip(a: Any, /, axis: int | Sequence[int] | None = None, *, stream: Any = None) -> array:
    """Return an array whose elements along axes, all by default, are in the reverse order."""
    made = as_array(a)
    axes = range(made.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    turned = {axis_in("flip", each, made.ndim) for each in axes}
    return made[tuple(slice(None, None, -1 if i in turned else 1) for i in range(made.ndim))] if turned else made


def unstack(x: Any, /, *, axis: int = 0, stream: Any = None) -> tuple[array, ...]:
    """Return the arrays that lie along an axis."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("[unstack] Cannot unstack an array without axes.")
    front = moveaxis(x, axis_in("unstack", axis, x.ndim), 0)
    return tuple(front[i] for i in range(front.shape[0]))


def matrix_transpose(a: Any, /, *, stream: Any = None) -> array:
    """Return matrices with their two axes exchanged."""
    a = as_array(a)
    if a.ndim < 2:
        raise ValueError("[matrix_transpose] Matrices must have at least two dimensions.")
    return swapaxes(a, -1, -2)


def diff(a: Any, /, n: int = 1, axis: int = -1, *, stream: Any = None) -> array:
    """Return differences of neighbours along an axis, `n` times."""
    made = as_array(a)
    if n < 0:
        raise ValueError(f"[diff] n must be non-negative but got {n}.")
    front = (slice(None),) * axis_in("diff", axis, made.ndim)
    for _ in range(n):
        after, before = made[(*front, slice(1, None))], made[(*front, slice(None, -1))]
        made = apply(kernels.not_equal if made.dtype.numpy == np.bool_ else kernels.subtract, after, before)
    return made


def contiguous(a: Any, /, allow_col_major: bool = False, *, stream: Any = None) -> array:
    """Return an array whose elements lie in row order."""
    made: array = apply(kernels.contiguous, as_array(a))
    return made


def view(a: Any, dtype: Dtype, stream: Any = None) -> array:
    """Return the bytes of an array as another dtype."""
    a, new = as_array(a), given(dtype)
    old = a.dtype.numpy
    if old.itemsize == new.itemsize:
        same: array = apply(lambda x: x.view(new), a)
        return same
    made: array = apply(viewed, contiguous(a), new)
    return made


@op
def viewed(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return the bytes of a contiguous array as a dtype of another width; the last axis is longer or shorter."""
    nbytes = x.shape[-1] * x.dtype.itemsize
    if nbytes % dtype.itemsize:
        raise ValueError("[view] The last axis of the array must be divisible by the new itemsize.")
    return Array(x.buffer, (*x.shape[:-1], nbytes // dtype.itemsize), dtype, x.address)


def meshgrid(*arrays: Any, sparse: bool = False, indexing: str = "xy", stream: Any = None) -> tuple[array, ...]:
    """Return the coordinates of a grid, one array for each axis."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] Invalid indexing value {indexing}. Valid values are 'xy' and 'ij'.")
    given_arrays = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays
    flat = [flatten(as_array(each)) for each in given_arrays]
    count = len(flat)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = [1, 0]
    wide = [reshape(each, *[each.size if i == at else 1 for i in range(count)]) for each, at in zip(flat, places)]
    return tuple(wide if sparse else broadcast_arrays(*wide))


def atleast(arrays: tuple[Any, ...], ndim: int) -> Any:
    """Return arrays of at least so many axes; new ones as MLX places them."""
    found = []
    for each in arrays:
        a = as_array(each)
        if ndim == 3 and a.ndim < 3:
            a = reshape(a, *((1, a.size, 1) if a.ndim < 2 else (*a.shape, 1)))
        elif a.ndim < ndim:
            a = reshape(a, *[1] * (ndim - a.ndim), *a.shape)
        found.append(a)
    return found[0] if len(found) == 1 else found


def atleast_1d(*arrays: Any, stream: Any = None) -> Any:
    """Return arrays of at least one axis."""
    return atleast(arrays, 1)


def atleast_2d(*arrays: Any, stream: Any = None) -> Any:
    """Return arrays of at least two axes."""
    return atleast(arrays, 2)


def atleast_3d(*arrays: Any, stream: Any = None) -> Any:
    """Return arrays of at least three axes."""
    return atleast(arrays, 3)
