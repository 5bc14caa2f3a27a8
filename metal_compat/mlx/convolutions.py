"""Convolutions of rows of places with channels, as products of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, zeros
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.joins import pad
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import reshape

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_general", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolve",
]  # fmt: skip

Sizes = int | Sequence[int]


def numbers_for(value: Sizes, axes: int, name: str) -> tuple[int, ...]:
    """Return a number for each axis."""
    given = (int(value),) * axes if isinstance(value, int) else tuple(int(n) for n in value)
    if len(given) != axes:
        raise ValueError(f"[conv] {name} has {len(given)} numbers for {axes} axes.")
    return given


def conv_general(
    input: Any,  # noqa: A002
    weight: Any,
    /,
    stride: Sizes = 1,
    padding: Any = 0,
    kernel_dilation: Sizes = 1,
    input_dilation: Sizes = 1,
    groups: int = 1,
    flip: bool = False,
    *,
    stream: Any = None,
) -> array:
    """Return sums over windows.

    Parameters
    ----------
    input : array, [rows, ..., channels]
    weight : array, [outputs, ..., channels / groups]
    stride : int or sequence of int
        The distance of windows.
    padding : int, sequence of int, or a pair of sequences
        How many zeros stand before and behind each axis; a pair has both.
    kernel_dilation, input_dilation : int or sequence of int
        The distance of a window's places, and of the input's, between which zeros are put.
    groups : int
        How many groups the channels and the outputs have; each output sees the channels of its group.
    flip : bool
        Whether windows are reversed, as a convolution in the sense of mathematics has them.

    Raises
    ------
    ValueError
        The shapes do not fit each other, or numbers do not fit the axes.
    """
    x, w = as_array(input), as_array(weight)
    axes = x.ndim - 2
    if axes < 1 or w.ndim != x.ndim or x.shape[-1] != w.shape[-1] * groups or w.shape[0] % groups:
        raise ValueError(
            f"[conv] an input of shape {x.shape} does not fit a weight of shape {w.shape}, {groups} groups"
        )
    steps, spread = numbers_for(stride, axes, "stride"), numbers_for(kernel_dilation, axes, "kernel_dilation")
    apart = numbers_for(input_dilation, axes, "input_dilation")
    is_pair = not isinstance(padding, int) and len(padding) == 2 and not isinstance(padding[0], int)
    before, behind = (numbers_for(part, axes, "padding") for part in (padding if is_pair else (padding, padding)))
    x = dilated(x, apart)
    if any(before) or any(behind):
        x = cut(x, before, behind)
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(before, behind)]
        x = pad(x, [(0, 0), *widths, (0, 0)])
    if flip:
        w = w[(slice(None), *[slice(None, None, -1)] * axes)]
    sizes = w.shape[1:-1]
    counts = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(x.shape[1:-1], spread, sizes, steps)]
    if min(counts) < 1:
        raise ValueError(f"[conv] a window of {sizes} does not fit an input of {x.shape[1:-1]} places")
    made: array = apply(windows(sizes, counts, steps, spread, groups), x, w)
    return made


def windows(
    sizes: Sequence[int], counts: Sequence[int], steps: Sequence[int], spread: Sequence[int], groups: int
) -> Callable[[Array, Array], Array]:
    """Return the function of hiprt's arrays that sums over windows, without padding."""
    places = list(product(*map(range, sizes)))

    def part(x: Array, at: Sequence[int]) -> Array:
        starts = [d * j for d, j in zip(spread, at)]
        ends = [start + s * (n - 1) + 1 for start, s, n in zip(starts, steps, counts)]
        return x[(slice(None), *map(slice, starts, ends, steps))]

    def convolved(x: Array, w: Array) -> Array:
        outputs, depth = w.shape[0], w.shape[-1]
        parts = [part(x, at) for at in places]
        if depth == 1 and outputs == x.shape[-1]:
            wide = [kernels.astype(each, np.float32) for each in parts]
            lines = [kernels.astype(w[(slice(None), *at, 0)], np.float32) for at in places]
            total = kernels.multiply(wide[0], lines[0])
            for each, line in zip(wide[1:], lines[1:]):
                total = kernels.add(total, kernels.multiply(each, line))
            return kernels.astype(total, x.dtype)
        rows, made = outputs // groups, []
        for g in range(groups):
            window = kernels.concatenate([each[..., g * depth : (g + 1) * depth] for each in parts], x.ndim - 1)
            matrix = kernels.contiguous(w[g * rows : (g + 1) * rows]).reshape((rows, len(places) * depth))
            made.append(kernels.matmul(window, matrix.transpose(1, 0)))
        return made[0] if groups == 1 else kernels.concatenate(made, x.ndim - 1)

    return convolved


def dilated(x: array, apart: Sequence[int]) -> array:
    """Return an array with zeros between its places."""

    def spread(axis: int, distance: int) -> Callable[[Array], Array]:
        def wide(x: Array) -> Array:
            shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
            gaps = zeros((*x.shape[: axis + 1], distance - 1, *x.shape[axis + 1 :]), x.dtype)
            return kernels.concatenate([kernels.contiguous(x).reshape(shape), gaps], axis + 1)

        return wide

    for axis, distance in enumerate(apart, 1):
        if distance > 1:
            n = x.shape[axis]
            made: array = apply(spread(axis, distance), x)
            joined = reshape(made, *x.shape[:axis], n * distance, *x.shape[axis + 1 :])
            x = joined[(*[slice(None)] * axis, slice(0, (n - 1) * distance + 1))]
    return x


def cut(x: array, before: Sequence[int], behind: Sequence[int]) -> array:
    """Return an array without the places that negative padding takes away."""
    kept = [slice(max(-a, 0), n - max(-b, 0)) for n, a, b in zip(x.shape[1:-1], before, behind)]
    return x[(slice(None), *kept)] if min(*before, *behind) < 0 else x


def convolution(axes: int) -> Callable[..., array]:
    """Return the convolution along a number of axes."""

    def applied(
        input: Any,  # noqa: A002
        weight: Any,
        /,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        *,
        stream: Any = None,
    ) -> array:
        return conv_general(as_of(input, axes), weight, stride, padding, dilation, groups=groups)

    applied.__name__ = applied.__qualname__ = f"conv{axes}d"
    applied.__doc__ = f"Return sums over windows of {axes} axes; see `conv_general`."
    return applied


def transposed(axes: int) -> Callable[..., array]:
    """Return the transposed convolution along a number of axes."""

    def applied(
        input: Any,  # noqa: A002
        weight: Any,
        /,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        output_padding: Sizes = 0,
        groups: int = 1,
        *,
        stream: Any = None,
    ) -> array:
        x, w = as_of(input, axes), as_array(weight)
        spread, less = numbers_for(dilation, axes, "dilation"), numbers_for(padding, axes, "padding")
        before = [d * (k - 1) - p for d, k, p in zip(spread, w.shape[1:-1], less)]
        behind = [n + more for n, more in zip(before, numbers_for(output_padding, axes, "output_padding"))]
        return conv_general(x, w, 1, (before, behind), spread, stride, groups, True)

    applied.__name__ = applied.__qualname__ = f"conv_transpose{axes}d"
    applied.__doc__ = f"Return what a convolution of {axes} axes takes back to; see `conv_general`."
    return applied


def as_of(input: Any, axes: int) -> array:  # noqa: A002
    """Return an array of rows, a number of axes, and channels."""
    x = as_array(input)
    if x.ndim != axes + 2:
        raise ValueError(f"[conv] an input of shape {x.shape} does not have {axes} axes between rows and channels")
    return x


conv1d, conv2d, conv3d = (convolution(axes) for axes in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (transposed(axes) for axes in (1, 2, 3))


def convolve(a: Any, v: Any, /, mode: str = "full", *, stream: Any = None) -> array:
    """Return the convolution of two vectors: all of it, as much as the longer one has, or where they overlap."""
    a, v = as_array(a), as_array(v)
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ValueError("[convolve] Inputs must be vectors that are not empty.")
    if a.size < v.size:
        a, v = v, a
    n = v.size - 1
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"[convolve] mode must be 'full', 'same' or 'valid' but is '{mode}'.")
    padding = {"full": ([n], [n]), "same": ([n // 2 + n % 2], [n // 2]), "valid": ([0], [0])}[mode]
    made = conv_general(reshape(a, 1, -1, 1), reshape(v, 1, -1, 1), padding=padding, flip=True)
    return reshape(made, -1)
