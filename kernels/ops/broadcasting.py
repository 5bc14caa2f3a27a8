"""Broadcasting: common shapes, views of them, and layouts that walk several arrays together along few axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import index

import numpy as np

from hiprt.array import Array
from hiprt.op import op

__all__ = ["Layout", "broadcast_shapes", "broadcast_to", "layout_of", "period", "spread_strides"]


@dataclass(frozen=True)
class Layout:
    """The axes along which several arrays are walked.

    Attributes
    ----------
    shape : tuple of int
    strides : tuple of tuple of int
        The strides in elements, one tuple for each array.
    """

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def is_flat(self) -> bool:
        """Whether each array is walked element by element, or stays where it is."""
        return not self.shape or (len(self.shape) == 1 and all(steps[0] in (0, 1) for steps in self.strides))


def broadcast_shapes(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that arrays of `shapes` broadcast to.

    Raises
    ------
    ValueError
        The shapes do not fit.
    """
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(f"({','.join(map(str, shape))})" for shape in shapes)
        raise ValueError(f"[{op}] Shapes {listed} cannot be broadcast.") from None


@op
def broadcast_to(x: Array, shape: int | Sequence[int]) -> Array:
    """Return a view of another shape, in which the elements repeat along new axes and along axes of size 1.

    Parameters
    ----------
    x : Array
        An array of any strides and dtype.
    shape : int or sequence of int
        The new shape.

    Returns
    -------
    Array
        A view, with stride 0 along the axes where elements repeat.

    Raises
    ------
    ValueError
        The shape does not fit.
    """
    shape = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(map(index, shape))
    if x.shape == shape:
        return x
    if broadcast_shapes("broadcast_to", x.shape, shape) != shape:
        raise ValueError(f"[broadcast_to] Shape {x.shape} cannot be broadcast to {shape}.")
    return Array(x.buffer, shape, x.dtype, x.address, spread_strides(x.shape, x.strides, shape))


def spread_strides(shape: tuple[int, ...], strides: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array that is broadcast to a shape."""
    return (0,) * (len(full) - len(shape)) + tuple(0 if n == 1 else step for n, step in zip(shape, strides))


def layout_of(shape: tuple[int, ...], strides: Sequence[tuple[int, ...]]) -> Layout:
    """Return the layout of arrays of one shape; it drops axes of size 1 and joins axes that continue each other."""
    sizes: list[int] = []
    steps: list[list[int]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        here = [each[axis] for each in strides]
        if sizes and all(before == step * n for before, step in zip(steps[-1], here)):
            sizes[-1] *= n
            steps[-1] = here
        else:
            sizes.append(n)
            steps.append(here)
    return Layout(tuple(sizes), tuple(tuple(step[i] for step in steps) for i in range(len(strides))))


@lru_cache(4096)
def period(shape: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (divisor, modulus): element i of `full` is element ``i // divisor % modulus`` of a contiguous `shape`.

    Return None where broadcasting `shape` to `full` has no such form, because broadcast axes lie between others.
    """
    padded = (1,) * (len(full) - len(shape)) + shape
    moving = [axis for axis, n in enumerate(padded) if n > 1]
    if not moving:
        return 1, 1
    first, last = moving[0], moving[-1] + 1
    if padded[first:last] != full[first:last]:
        return None
    return int(np.prod(full[last:], dtype=np.int64)), int(np.prod(full[first:last], dtype=np.int64))
