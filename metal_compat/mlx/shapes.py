"""Ops that show the elements of arrays in other shapes, orders and dtypes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, row_strides
from hiprt.graphs.trace.value import TRANSPOSE
from hiprt.metal_compat.mlx.array import INT32, array, as_array, checked, packed
from hiprt.metal_compat.mlx.dtypes import Dtype, given
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.op import op

__all__ = [
    "as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "contiguous", "diff", "expand_dims", "flatten", "flip", "matrix_transpose", "meshgrid", "moveaxis",
    "permute_dims", "reshape", "squeeze", "swapaxes", "transpose", "unflatten", "view",
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
