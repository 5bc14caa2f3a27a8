"""Reductions, running sums and softmax."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.kernels.ops.promotion import is_complex, is_float
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.dtypes import float32, given, of, uint32
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import axis_in, expand_dims, flatten, reshape

__all__ = [
    "all", "allclose", "any", "argmax", "argmin", "array_equal", "count_nonzero", "cummax", "cummin", "cumprod",
    "cumsum", "cumulative_prod", "cumulative_sum", "isclose", "logcumsumexp", "logsumexp", "max", "mean", "median",
    "min", "minmax", "prod", "softmax", "std", "sum", "var",
]  # fmt: skip

Axis = int | Sequence[int] | None


def axes_of(axis: Axis) -> Any:
    """Return axes as ops take them, hashable."""
    return axis if axis is None or isinstance(axis, int) else tuple(int(each) for each in axis)


def reduction(name: str) -> Callable[..., array]:
    """Return the reduction that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, /, axis: Axis = None, keepdims: bool = False, *, stream: Any = None, out: None = None) -> array:
        # numpy's functions call the methods of arrays with `out`.
        if out is not None:
            raise ValueError(f"[{name}] out must be None: arrays are never written")
        made: array = apply(op, as_array(a), axes_of(axis), keepdims)
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


sum, prod, mean = reduction("sum"), reduction("prod"), reduction("mean")  # noqa: A001
max, min, all, any = (reduction(name) for name in ("max", "min", "all", "any"))  # noqa: A001
logsumexp = reduction("logsumexp")


def place(name: str) -> Callable[..., array]:
    """Return argmax or argmin."""
    op = getattr(kernels, name)

    def applied(a: Any, /, axis: int | None = None, keepdims: bool = False, *, stream: Any = None) -> array:
        a = as_array(a)
        if axis is None:
            found: array = apply(op, flatten(a), -1, False)
            return (reshape(found, *[1] * a.ndim) if keepdims else found).astype(uint32)
        made: array = apply(op, a, axis, keepdims)
        return made.astype(uint32)

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


argmax, argmin = place("argmax"), place("argmin")


def minmax(a: Any, /, axis: Axis = None, keepdims: bool = False, *, stream: Any = None) -> tuple[array, array]:
    """Return the smallest and the largest elements over axes."""
    return min(a, axis, keepdims), max(a, axis, keepdims)


def count_nonzero(a: Any, /, *, axis: Axis = None, keepdims: bool = False, stream: Any = None) -> array:
    """Return how many elements over axes are not zero, as int32."""
    found: array = apply(kernels.not_equal, as_array(a), 0)
    return sum(found.astype(of(np.dtype(np.int32))), axis, keepdims)


def count_of(a: array, axis: Axis) -> int:
    """Return how many elements a reduction joins."""
    if axis is None:
        return a.size
    axes = [axis] if isinstance(axis, int) else list(axis)
    return math.prod(a.shape[axis_in("var", each, a.ndim)] for each in axes)


def var(a: Any, /, axis: Axis = None, keepdims: bool = False, ddof: int = 0, *, stream: Any = None) -> array:
    """Return the variance over axes."""
    a = as_array(a)
    axes, n = axes_of(axis), count_of(a, axis)

    def variance(x: Array) -> Array:
        if is_complex(x.dtype):
            return kernels.add(variance(kernels.real(x)), variance(kernels.imag(x)))
        x = x if is_float(x.dtype) else kernels.astype(x, np.float32)
        centred = kernels.subtract(x, kernels.mean(x, axes, True))
        total = kernels.sum(kernels.square(centred), axes, keepdims)
        return kernels.divide(total, float(builtins.max(n - ddof, 0)))

    made: array = apply(variance, a)
    return made


def std(a: Any, /, axis: Axis = None, keepdims: bool = False, ddof: int = 0, *, stream: Any = None) -> array:
    """Return the standard deviation over axes."""
    made: array = apply(kernels.sqrt, var(a, axis, keepdims, ddof))
    return made


def median(a: Any, /, axis: Axis = None, keepdims: bool = False, *, stream: Any = None) -> array:
    """Return the element in the middle of the order, or the mean of the two there."""
    a = as_array(a)
    axes = list(range(a.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    gone = [axis_in("median", each, a.ndim) for each in axes]
    kept = [i for i in range(a.ndim) if i not in gone]
    order = (*kept, *gone)
    n = count_of(a, gone)
    shape = tuple(a.shape[i] for i in kept)
    if not n:
        raise ValueError("[median] Cannot take the median of no elements.")

    def middle(x: Array) -> Array:
        rows = kernels.sort(kernels.contiguous(x.transpose(*order)).reshape((*shape, n)), -1)
        rows = rows if is_float(x.dtype) or is_complex(x.dtype) else kernels.astype(rows, np.float32)
        found = kernels.mean(rows[..., (n - 1) // 2 : n // 2 + 1], -1)
        last = rows[..., n - 1]  # NaN is sorted to the end
        return kernels.where(kernels.isnan(last), last, found)

    made: array = apply(middle, a)
    return expand_dims(made, sorted(gone)) if keepdims else made


def softmax(a: Any, /, axis: Axis = None, *, precise: bool = False, stream: Any = None) -> array:
    """Return exp(a) divided by its sum over axes; sums are taken in float32."""
    a = as_array(a)
    axes = list(range(a.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
    if len(axes) == 1:
        made: array = apply(kernels.softmax, a, axes[0])
        return made
    gone = [axis_in("softmax", each, a.ndim) for each in axes]
    if not gone:
        return kernels_one(a)

    def joined(x: Array) -> Array:
        powers = kernels.exp(kernels.subtract(x, kernels.max(x, tuple(gone), True)))
        return kernels.divide(powers, kernels.sum(powers, tuple(gone), True))

    found: array = apply(joined, a)
    return found


def kernels_one(a: array) -> array:
    """Return ones of an array without axes: the softmax of a single number."""
    made: array = apply(lambda x: kernels.softmax(x.reshape((1,)), 0).reshape(()), a)
    return made


def cumsum(
    a: Any,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Any = None,
    stream: Any = None,
) -> array:
    """Return running sums along an axis, of a dtype or of the array's."""
    a = as_array(a) if dtype is None else as_array(a).astype(of(given(dtype)))
    a = a.astype(of(np.dtype(np.int32))) if a.dtype.numpy == np.bool_ else a
    made: array = apply(kernels.cumsum, a, axis, reverse=reverse, inclusive=inclusive)
    return made


def running(a: Any, axis: int | None, reverse: bool, inclusive: bool, combine: Callable[..., Any], first: Any) -> array:
    """Return running results of an op along an axis, by doubling the distance (Hillis and Steele, 1986)."""
    a = as_array(a)
    if axis is None:
        a, axis = flatten(a), 0
    axis = axis_in("cumulative", axis, a.ndim)
    n = a.shape[axis]

    def part(start: int, end: int) -> tuple[slice, ...]:
        return (*[slice(None)] * axis, slice(start, end))

    def scanned(x: Array) -> Array:
        back = (*[slice(None)] * axis, slice(None, None, -1))
        x = kernels.contiguous(x[back]) if reverse else x
        step = 1
        while step < n:
            x = kernels.concatenate([x[part(0, step)], combine(x[part(step, n)], x[part(0, n - step)])], axis)
            step *= 2
        if not inclusive and n:
            edge = kernels.contiguous(x[part(0, 1)])
            edge = kernels.where(kernels.equal(edge, edge), first, first)
            x = kernels.concatenate([kernels.astype(edge, x.dtype), x[part(0, n - 1)]], axis)
        return kernels.contiguous(x[back]) if reverse else x

    made: array = apply(scanned, a)
    return made


def lowest(a: Any, sign: int) -> Any:
    """Return the smallest (or largest) number of an array's dtype."""
    dtype = as_array(a).dtype.numpy
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min if sign < 0 else np.iinfo(dtype).max)
    return sign * math.inf


def cumprod(
    a: Any,
    /,
    axis: int | None = None,
    *,
    reverse: bool = False,
    inclusive: bool = True,
    dtype: Any = None,
    stream: Any = None,
) -> array:
    """Return running products along an axis, of a dtype or of the array's."""
    a = as_array(a) if dtype is None else as_array(a).astype(of(given(dtype)))
    return running(a, axis, reverse, inclusive, kernels.multiply, 1)


cumulative_sum, cumulative_prod = cumsum, cumprod


def cummax(
    a: Any, /, axis: int | None = None, *, reverse: bool = False, inclusive: bool = True, stream: Any = None
) -> array:
    """Return the largest elements so far along an axis."""
    return running(a, axis, reverse, inclusive, kernels.maximum, lowest(a, -1))


def cummin(
    a: Any, /, axis: int | None = None, *, reverse: bool = False, inclusive: bool = True, stream: Any = None
) -> array:
    """Return the smallest elements so far along an axis."""
    return running(a, axis, reverse, inclusive, kernels.minimum, lowest(a, 1))


def logcumsumexp(
    a: Any, /, axis: int | None = None, *, reverse: bool = False, inclusive: bool = True, stream: Any = None
) -> array:
    """Return logarithms of running sums of exp(a) along an axis."""
    return running(a, axis, reverse, inclusive, kernels.logaddexp, -math.inf)


def isclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False, stream: Any = None
) -> array:
    """Return whether elements differ by at most ``atol + rtol * abs(b)``; infinities are close to themselves."""

    def close(x: Array, y: Array) -> Array:
        near = kernels.less_equal(
            kernels.abs(kernels.subtract(x, y)), kernels.add(kernels.multiply(kernels.abs(y), rtol), atol)
        )
        finite = kernels.logical_and(kernels.isfinite(x), kernels.isfinite(y))
        same = kernels.logical_or(kernels.logical_and(near, finite), kernels.equal(x, y))
        if equal_nan:
            same = kernels.logical_or(same, kernels.logical_and(kernels.isnan(x), kernels.isnan(y)))
        return same

    made: array = apply(close, floats(a), floats(b))
    return made


def floats(a: Any) -> array:
    """Return an array as a floating one."""
    made = as_array(a)
    return made.astype(float32) if made.dtype.numpy.kind in "biu" else made


def allclose(
    a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, *, equal_nan: bool = False, stream: Any = None
) -> array:
    """Return whether all elements are close; see `isclose`."""
    return all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def array_equal(a: Any, b: Any, equal_nan: bool = False, stream: Any = None) -> array:
    """Return whether two arrays have one shape and equal elements."""
    a, b = as_array(a), as_array(b)
    if a.shape != b.shape:
        return array(False)

    def same(x: Array, y: Array) -> Array:
        found = kernels.equal(x, y)
        if equal_nan:
            found = kernels.logical_or(found, kernels.logical_and(kernels.not_equal(x, x), kernels.not_equal(y, y)))
        return kernels.all(found)

    made: array = apply(same, a, b)
    return made
