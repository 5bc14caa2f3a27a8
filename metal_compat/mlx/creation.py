"""Ops that make arrays of nothing, and the numbers that ``mlx.core`` names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, array as on_device, full as full_of, zeros as zeros_of
from hiprt.graphs.trace.integer import is_recorded
from hiprt.graphs.trace.prefixes import prefixed
from hiprt.metal_compat.mlx import places
from hiprt.metal_compat.mlx.array import array, as_array, checked, held, host_from, host_of
from hiprt.metal_compat.mlx.dtypes import Dtype, bool_, float32, given, int32, int64, of
from hiprt.metal_compat.mlx.lazy import apply

__all__ = [
    "arange", "asarray", "bartlett", "blackman", "e", "empty", "empty_like", "euler_gamma", "eye", "from_dlpack",
    "full", "full_like", "hamming", "hanning", "identity", "inf", "linspace", "nan", "newaxis", "ones", "ones_like",
    "pi", "tri", "zeros", "zeros_like",
]  # fmt: skip

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
euler_gamma = 0.5772156649015329
newaxis = None
FEW, STEP = 4, 256  # caches grow by the second


def sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as integers.

    Raises
    ------
    ValueError
        A size is negative.
    """
    found = checked([index(n) for n in shape] if isinstance(shape, Sequence) else [index(shape)])
    if any(n < 0 for n in found):
        raise ValueError("[full] Negative dimensions not allowed.")
    return found


def zeros(shape: int | Sequence[int], dtype: Any = float32, *, stream: Any = None) -> array:
    """Return zeros."""
    made: array = apply(zeros_of, sizes(shape), float32.numpy if dtype is None else given(dtype))
    return made


def ones(shape: int | Sequence[int], dtype: Any = float32, *, stream: Any = None) -> array:
    """Return ones."""
    return full(shape, 1, float32 if dtype is None else dtype)


def full(shape: int | Sequence[int], vals: Any, dtype: Any = None, *, stream: Any = None) -> array:
    """Return an array of one value, or of values that broadcast to its shape."""
    if not isinstance(vals, (bool, int, float)):
        values = as_array(vals) if dtype is None else as_array(vals).astype(of(given(dtype)))
        spread: array = apply(lambda v: kernels.copy(kernels.broadcast_to(v, sizes(shape))), values)
        return spread
    if dtype is None:
        dtype = bool_ if isinstance(vals, bool) else int32 if isinstance(vals, int) else float32
    new = given(dtype)
    if new.itemsize > 4:
        return full(shape, array(np.asarray(vals, new)), of(new))
    value = bool(vals) if new == np.bool_ else int(vals) if new.kind in "iu" else float(vals)
    made: array = apply(full_of, sizes(shape), value, new)
    return made


empty = zeros


def asarray(a: Any, dtype: Any = None, *, copy: bool | None = None) -> array:
    """Return an array of what `array` takes, the same one where nothing is to be changed.

    Raises
    ------
    ValueError
        `copy` is False: memory is not shared with other libraries, nor with another array, as in MLX.
    """
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if isinstance(a, array) and (dtype is None or of(given(dtype)) is a.dtype) and not copy:
        return a
    return array(a, None if dtype is None else of(given(dtype)))


def from_dlpack(x: Any, /, *, copy: bool | None = None) -> array:
    """Return a copy of another library's array, with its strides.

    Raises
    ------
    ValueError
        `copy` is False: memory is not shared with other libraries. Or the array is reversed along an axis.
    """
    if copy is False and not isinstance(x, array):
        raise ValueError("[from_dlpack] copy=False, and a copy is needed.")
    if isinstance(x, array):
        return array(x)
    host = x if isinstance(x, np.ndarray) else host_of(x)
    if any(step < 0 for step in host.strides):
        raise ValueError("[from_dlpack] Negative strides are not supported.")
    host = host_from(host, None)
    if host.flags.c_contiguous or any(step % host.itemsize for step in host.strides):
        return array(host)
    steps = tuple(step // host.itemsize for step in host.strides)
    extent = 1 + sum((n - 1) * step for n, step in zip(host.shape, steps))
    row = on_device(np.lib.stride_tricks.as_strided(host, (extent,), (host.itemsize,)).copy())
    return held(Array(row.buffer, host.shape, host.dtype, row.address, steps))


def window(m: int, terms: Sequence[float]) -> array:
    """Return a window of cosines, whose terms alternate in sign."""
    if m < 1:
        return zeros((0,))
    angles = [[2 * math.pi * k * i / max(m - 1, 1) for i in range(m)] for k in range(len(terms))]
    values = sum((-1) ** k * term * np.cos(angles[k]) for k, term in enumerate(terms)) if m > 1 else np.ones(1)
    return array(np.asarray(values, np.float32))


def hanning(M: int, *, stream: Any = None) -> array:  # noqa: N803
    """Return the Hann window of M points."""
    return window(M, (0.5, 0.5))


def hamming(M: int, *, stream: Any = None) -> array:  # noqa: N803
    """Return the Hamming window of M points."""
    return window(M, (0.54, 0.46))


def blackman(M: int, *, stream: Any = None) -> array:  # noqa: N803
    """Return the Blackman window of M points."""
    return window(M, (0.42, 0.5, 0.08))


def bartlett(M: int, *, stream: Any = None) -> array:  # noqa: N803
    """Return the triangular window of M points, which begins and ends with 0."""
    return array(np.bartlett(M).astype(np.float32)) if M > 0 else zeros((0,))


def zeros_like(a: Any, /, dtype: Any = None, *, stream: Any = None) -> array:
    """Return zeros of an array's shape, and of its dtype where none is given."""
    return zeros(as_array(a).shape, as_array(a).dtype if dtype is None else dtype)


def ones_like(a: Any, /, dtype: Any = None, *, stream: Any = None) -> array:
    """Return ones of an array's shape, and of its dtype where none is given."""
    return ones(as_array(a).shape, as_array(a).dtype if dtype is None else dtype)


empty_like = zeros_like


def full_like(a: Any, vals: Any, dtype: Any = None, *, stream: Any = None) -> array:
    """Return an array of one value, of an array's shape."""
    return full(as_array(a).shape, vals, as_array(a).dtype if dtype is None else dtype)


def numbers_from(first: Array | None, step: int, count: int) -> Array:
    """Return integers at equal distances, from 0 or from an integer in device memory."""
    if first is None and step == 1 and count > FEW:
        # As many as there are tokens so far: a mask of them comes again as one of all places of a cache.
        places = -(-(count.value if is_recorded(count) else count) // STEP) * STEP
        if places - STEP < count < places:
            return prefixed(kernels.arange(places), 0, count)
    found: Array = kernels.arange(0, step * count, step)
    return found if first is None else kernels.add(found, first)


def arange(*bounds: Any, dtype: Any = None, stream: Any = None, **named: Any) -> array:
    """Return numbers at equal distances: ``arange(stop)``, ``arange(start, stop, step)``."""
    if len(bounds) == 4:
        *bounds, dtype = bounds  # type: ignore[assignment]
    elif len(bounds) in (2, 3) and isinstance(bounds[-1], Dtype):
        *bounds, dtype = bounds  # type: ignore[assignment]
    parts: list[Any] = [*bounds]
    if len(parts) == 1 and "stop" not in named:
        parts = [0, *parts]
    start = parts[0] if parts else named.get("start", 0)
    if len(parts) < 2 and "stop" not in named:
        raise TypeError("arange() needs an end: arange(stop), arange(start, stop, step)")
    stop = parts[1] if len(parts) > 1 else named["stop"]
    if stop is None:
        start, stop = 0, start
    step = parts[2] if len(parts) > 2 and parts[2] is not None else named.get("step", 1)
    start = 0 if start is None else start
    start, stop, step = (x.item() if isinstance(x, (array, np.generic)) else x for x in (start, stop, step))
    is_whole = all(isinstance(x, int) for x in (start, stop, step))
    if dtype is None:
        is_wide = is_whole and not all(-(2**31) <= x < 2**31 for x in (start, stop, step))
        dtype = int64 if is_wide else int32 if is_whole else float32
    if not step:
        raise ValueError("[arange] Cannot compute length: the step is 0.")
    if not is_whole and math.isinf(step) and not any(math.isnan(x) or math.isinf(x) for x in (start, stop)):
        is_ahead = (stop - start) * math.copysign(1, step) > 0
        return full((int(is_ahead),), start, of(given(dtype)))
    if not is_whole and (any(map(math.isnan, (start, stop, step))) or any(map(math.isinf, (start, step)))):
        raise ValueError("[arange] Cannot compute length.")
    if is_whole and step == 1:
        count = max(0, stop - start)
    else:
        count = max(0, math.ceil((stop - start) / step)) if is_whole or not math.isinf(stop) else -1
    if not 0 <= count < 2**31:
        raise ValueError("[arange] Maximum size exceeded.")
    new = given(dtype)
    if new == np.bool_ and count > 1:
        raise ValueError("[arange] bool is not supported as dtype.")
    if is_whole and all(abs(x) < 2**31 for x in (start, start + step * count, step, step * count)):
        # A start may be a position, which is another one at the next token.
        first = places.counted(start) if start and count else None
        whole: array = apply(numbers_from, first, step, count)
        return whole.astype(of(new))
    if new.kind in "iu":
        # As MLX does: the distance of the first two numbers in the dtype.
        start, step = int(start), int(start + step) - int(start)
        first, distance = array(start, int64), array(step, int64)
        made: array = apply(
            lambda a, d: kernels.astype(
                kernels.add(kernels.multiply(kernels.astype(kernels.arange(count), int64.numpy), d), a), new
            ),
            first,
            distance,
        )
        return made
    # MLX counts in the dtype itself.
    counted: array = apply(
        lambda: kernels.add(
            kernels.multiply(kernels.astype(kernels.arange(count), float32.numpy), float(step)), float(start)
        )
    )
    return counted.astype(of(new))


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: Any = True, dtype: Any = float32, *, stream: Any = None
) -> array:
    """Return numbers at equal distances from `start` to `stop`, the latter included if `endpoint` says so."""
    if isinstance(endpoint, Dtype):  # where the dtype stood before MLX 0.32.3
        endpoint, dtype = True, endpoint
    if num < 0:
        raise ValueError(f"[linspace] number of samples, {num}, must be non-negative.")
    if num == 1:
        return full((1,), start, dtype)

    def spread() -> Array:
        t = kernels.divide(kernels.astype(kernels.arange(num), float32.numpy), float(num - 1 if endpoint else num))
        return kernels.add(kernels.multiply(kernels.subtract(1.0, t), float(start)), kernels.multiply(t, float(stop)))

    made: array = apply(spread)
    return made.astype(of(given(dtype)))


def tri(n: int, m: int | None = None, k: int = 0, dtype: Any = None, *, stream: Any = None) -> array:
    """Return a matrix of ones at and below a diagonal, and zeros above."""
    rows, columns = n, n if m is None else m
    made: array = apply(
        lambda: kernels.greater_equal(kernels.arange(rows).reshape((rows, 1)), kernels.arange(-k, columns - k))
    )
    return made.astype(of(given(float32 if dtype is None else dtype)))


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = float32, *, stream: Any = None) -> array:
    """Return a matrix of ones on a diagonal."""
    rows, columns = n, n if m is None else m
    if rows < 0 or columns < 0:
        raise ValueError("[eye] N and M must be positive integers.")
    made: array = apply(lambda: kernels.equal(kernels.arange(rows).reshape((rows, 1)), kernels.arange(-k, columns - k)))
    return made.astype(of(given(float32 if dtype is None else dtype)))


def identity(n: int, dtype: Any = float32, *, stream: Any = None) -> array:
    """Return the matrix of ones on the diagonal."""
    return eye(n, dtype=dtype)
