"""Copies: conversions to other dtypes, contiguous arrays, and joined arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, array, dtype_of, empty, make
from hiprt.kernels.lang.operands import result
from hiprt.kernels.ops.broadcasting import broadcast_shapes, broadcast_to
from hiprt.kernels.ops.elementwise.expression import Expression, evaluate, fits, target
from hiprt.kernels.ops.promotion import BOOL, WORDS, as_number, promote, strided
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["along", "astype", "axis_of", "concatenate", "contiguous", "copy", "copy_into", "copyto"]

COPY = Expression("copy", "a")


def copy_into(to: Array, x: Array, stream: Stream, *, is_whole: bool = False) -> None:
    """Write `x`, broadcast to the shape of `to` and converted to its dtype, into a view."""
    evaluate(COPY, (x,), (x.dtype,), to, stream, is_whole=is_whole)


@op
def astype(x: Array, dtype: DTypeLike, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return the values of an array in another dtype.

    Parameters
    ----------
    x : Array
        An array of any strides.
    dtype : dtype
        The new dtype; ``"bfloat16"`` names the one that numpy lacks. Floating dtypes round to nearest even. Integers
        drop the fraction, and the result is undefined where they do not hold the value. bool tells whether a number is
        not zero.

    Returns
    -------
    Array
        A contiguous array; `x` itself if it is contiguous and of `dtype`, and `out` is not given.

    Raises
    ------
    TypeError
        A dtype has no kernels.
    ValueError
        `out` overlaps `x`.
    """
    new = dtype_of(dtype)
    strided("astype", "x", x)
    if new not in WORDS:
        raise TypeError(f"astype: {new}: no kernel supports it")
    if out is None and new == x.dtype and x.is_contiguous:
        return x
    stream = stream or current_stream()
    out = target("astype", out, x.shape, new, stream, [x])
    copy_into(out, x, stream, is_whole=True)
    return out


@op
def copy(x: Array, *, stream: Stream | None = None) -> Array:
    """Return a contiguous array of the same elements, with memory of its own.

    Parameters
    ----------
    x : Array
        An array of any strides and dtype.

    Returns
    -------
    Array
    """
    stream = stream or current_stream()
    made = make(x.shape, x.dtype, stream)
    if x.is_contiguous:
        made.copy_from(x, stream)
    else:
        copy_into(words_of(made), strided("copy", "x", words_of(x)), stream, is_whole=True)
    return made


def words_of(x: Array) -> Array:
    """Return an array of a dtype that kernels lack as unsigned integers, several where an element is wide."""
    item = x.dtype.itemsize
    if x.dtype in WORDS or item % 8:
        return x if x.dtype in WORDS else x.view(f"u{item}")
    count = item // 8
    steps = tuple(step * count for step in x.strides)
    return Array(x.buffer, (*x.shape, count), np.dtype(np.uint64), x.address, (*steps, 1))


def without_front(x: Any, ndim: int) -> Any:
    """Return an array of ours or numpy's without the axes that it has more than `ndim`, if each has one element."""
    more = x.ndim - ndim
    return x[(0,) * more] if more > 0 and all(size == 1 for size in x.shape[:more]) else x


@op
def copyto(to: Array, x: Any, *, stream: Stream | None = None) -> Array:
    """Write values into an array, as ``to[...] = x`` does.

    Parameters
    ----------
    to : Array
        An array of any strides: a view of the array that changes, say.
    x : Array, number or array_like
        The values, which are broadcast to the shape of `to`, with axes of one element in front left out, as numpy does,
        and converted to its dtype as in `astype`. They may overlap
        `to`, as in ``a[1:] = a[:-1]``. A number is an argument of a kernel. Values of the host are copied to the
        device; a step that records is split around that.

    Returns
    -------
    Array
        `to`.

    Raises
    ------
    TypeError
        No kernel has the dtypes.
    ValueError
        The shape does not fit, or the memory is read-only.
    OverflowError
        A Python integer does not fit the dtype.
    """
    stream = stream or current_stream()
    x = as_number(x)
    if isinstance(x, (bool, int, float)):
        if to.dtype in WORDS and (isinstance(x, float) or abs(x) < 2**31):
            x = bool(x) if to.dtype == BOOL else x
            fits("copyto", x, to.dtype)
            evaluate(COPY, (x,), (to.dtype,), to, stream, is_whole=to.is_contiguous)
            return to
        x = np.asarray(x, to.dtype)
    if not isinstance(x, Array):
        host = np.broadcast_to(without_front(np.asarray(x).astype(to.dtype), to.ndim), to.shape)
        if to.is_contiguous:
            to.set(host, stream)
            return to
        x = array(host, stream=stream)
    x = without_front(x, to.ndim)
    if broadcast_shapes("copyto", x.shape, to.shape) != to.shape:
        raise ValueError(f"[copyto] Shape {x.shape} cannot be broadcast to {to.shape}.")
    if x.address == to.address and x.form is to.form:
        return to
    (start, end), (first, last) = to.extent, x.extent
    if start < last and first < end:
        x = copy(x, stream=stream)
    written, read = (words_of(to), words_of(broadcast_to(x, to.shape))) if x.dtype == to.dtype else (to, x)
    copy_into(strided("copyto", "to", written), strided("copyto", "x", read), stream, is_whole=to.is_contiguous)
    return to


@op
def contiguous(x: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return an array of the same elements that is contiguous: `x` itself if it is, and `out` is not given.

    Parameters
    ----------
    x : Array
        An array of any strides.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        The dtype has no kernels.
    ValueError
        `out` overlaps `x`.
    """
    strided("contiguous", "x", x)
    return astype(x, x.dtype, stream=stream, out=out)


def axis_of(op: str, axis: int, ndim: int) -> int:
    """Return an axis counted from the front.

    Raises
    ------
    numpy.exceptions.AxisError
        There is no such axis. It is a ValueError and an IndexError.
    """
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(f"[{op}] Invalid axis {axis} for array with {ndim} dimensions.")
    return axis % ndim


def along(
    op: str, a: Array, axis: int | None, work: Callable[[Array], Array], stream: Stream, out: Array | None
) -> Array:
    """Call `work` on the rows along an axis, made contiguous, and return its result with the axis back in its place."""
    strided(op, "a", a)
    if axis is None:
        a, axis = contiguous(a, stream=stream).reshape(a.size), 0
    axis = axis_of(op, axis, a.ndim)
    turn = [each for each in range(a.ndim) if each != axis] + [axis]
    turned = work(contiguous(a.transpose(*turn), stream=stream))
    turned = turned.transpose(*(turn.index(each) for each in range(a.ndim)))
    if out is None:
        return contiguous(turned, stream=stream)
    result(op, out, turned.shape, turned.dtype, stream, {"a": turned})
    return astype(turned, turned.dtype, stream=stream, out=out)


@op
def concatenate(
    arrays: Sequence[Array], axis: int = 0, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return arrays joined one behind the other.

    Parameters
    ----------
    arrays : sequence of Array
        At least one array, of any strides. Their shapes agree except along `axis`, and their dtypes are promoted.
    axis : int
        The axis along which the arrays are joined.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        A dtype has no kernels.
    ValueError
        There are no arrays, the shapes do not fit, or `out` overlaps one of them.
    """
    if not arrays:
        raise ValueError("[concatenate] No arrays provided for concatenation")
    for i, x in enumerate(arrays):
        strided("concatenate", f"arrays[{i}]", x)
    axis = axis_of("concatenate", axis, arrays[0].ndim)
    others = {(x.shape[:axis], x.shape[axis + 1 :], x.ndim) for x in arrays}
    if len({x.ndim for x in arrays}) > 1:
        raise ValueError(
            "[concatenate] All the input arrays must have the same number of dimensions. However, got arrays with "
            f"dimensions {' and '.join(str(n) for n in dict.fromkeys(x.ndim for x in arrays))}."
        )
    if len(others) > 1:
        listed = ", ".join(str(x.shape) for x in arrays)
        raise ValueError(f"[concatenate] All the input array dimensions must match but along axis {axis}: {listed}.")
    stream = stream or current_stream()
    shape = list(arrays[0].shape)
    shape[axis] = sum(x.shape[axis] for x in arrays)
    operands = {f"arrays[{i}]": x for i, x in enumerate(arrays)}
    out = result("concatenate", out, tuple(shape), promote(*(x.dtype for x in arrays)), stream, operands)
    start = 0
    for x in arrays:
        end = start + x.shape[axis]
        copy_into(out[(slice(None),) * axis + (slice(start, end),)], x, stream)
        start = end
    return out


def fresh(x: Array, stream: Stream) -> Array:
    """Return a contiguous copy, which is always a new array."""
    out = empty(x.shape, x.dtype, stream)
    copy_into(out, x, stream, is_whole=True)
    return out
