"""Ops that join arrays, cut them, repeat them and continue them behind their edges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.metal_compat.mlx.array import INT32, array, as_array, checked
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import axis_in, broadcast_to, expand_dims, flatten, moveaxis, reshape

__all__ = ["concat", "concatenate", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]


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


def unstack(x: Any, /, *, axis: int = 0, stream: Any = None) -> tuple[array, ...]:
    """Return the arrays that lie along an axis."""
    x = as_array(x)
    if not x.ndim:
        raise ValueError("[unstack] Cannot unstack an array without axes.")
    front = moveaxis(x, axis_in("unstack", axis, x.ndim), 0)
    return tuple(front[i] for i in range(front.shape[0]))
