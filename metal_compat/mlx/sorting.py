"""Ops that order elements, and that take and put them by places."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import flatten, reshape

__all__ = [
    "argpartition", "argsort", "partition", "put_along_axis", "searchsorted", "slice", "slice_update", "sort", "take",
    "take_along_axis", "topk",
]  # fmt: skip


def sorting(name: str) -> Callable[..., array]:
    """Return the op of an array and an axis that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, /, axis: int | None = -1, *, stream: Any = None) -> array:
        made: array = apply(op, as_array(a), axis)
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


def choosing(name: str) -> Callable[..., array]:
    """Return the op of an array, a number and an axis that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, /, kth: int, axis: int | None = -1, *, stream: Any = None) -> array:
        made: array = apply(op, as_array(a), index(kth), axis)
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


sort, argsort = sorting("sort"), sorting("argsort")
partition, argpartition = choosing("partition"), choosing("argpartition")


def topk(a: Any, /, k: int, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return the `k` largest elements along an axis."""
    made: array = apply(kernels.topk, as_array(a), index(k), axis)
    return made


def searchsorted(sorted_sequence: Any, values: Any, /, side: str = "left", *, stream: Any = None) -> array:
    """Return where values would be put into a sorted vector, before or behind (`side`) their equals, as uint32."""
    from hiprt.metal_compat.mlx.dtypes import uint32

    line, values = as_array(sorted_sequence), as_array(values)
    if line.ndim != 1:
        raise ValueError(f"[searchsorted] The sorted sequence must have one dimension but has {line.ndim}.")
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] side must be 'left' or 'right' but is '{side}'.")

    def counted(line: Array, values: Array) -> Array:
        columns = kernels.contiguous(values).reshape((*values.shape, 1))
        # NaN is behind everything, as when sorting: what counts is what is not less, seen from the other side.
        if side == "left":
            found = kernels.logical_not(kernels.greater_equal(line, columns))
            found = kernels.logical_and(found, kernels.equal(line, line))
        else:
            found = kernels.logical_or(kernels.less_equal(line, columns), kernels.not_equal(columns, columns))
        return kernels.sum(kernels.astype(found, np.int32), -1)

    made: array = apply(counted, line, values)
    return made.astype(uint32)


def take(a: Any, /, indices: Any, axis: int | None = None, *, stream: Any = None) -> array:
    """Return the slices of an array that indices name; of all elements where no axis is given."""
    a = as_array(a)
    if isinstance(indices, int):
        from hiprt.metal_compat.mlx.indexing import taken

        whole = flatten(a) if axis is None else a
        at = (0 if axis is None else axis) % whole.ndim
        return taken(whole, (*[builtins.slice(None)] * at, indices))
    indices = as_array(indices)
    if indices.size and not (a.size if axis is None else a.shape[axis]):
        raise ValueError("[take] Cannot do a non-empty take from an array with zero elements.")
    made: array = apply(kernels.take, a, indices, axis)
    return made


def take_along_axis(a: Any, /, indices: Any, axis: int | None = -1, *, stream: Any = None) -> array:
    """Return the element of each row that an index names."""
    a, indices = as_array(a), as_array(indices)
    if axis is None:
        a, indices, axis = flatten(a), flatten(indices), 0
    made: array = apply(kernels.take_along_axis, a, indices, axis)
    return made


def put_along_axis(a: Any, /, indices: Any, values: Any, axis: int | None = None, *, stream: Any = None) -> array:
    """Return an array with the elements of each row that indices name replaced."""
    a, indices, values = as_array(a), as_array(indices), as_array(values)
    if not indices.size:
        unchanged: array = a
        return unchanged
    if axis is None:
        made: array = apply(kernels.put_along_axis, flatten(a), flatten(indices), flatten(values), 0)
        return reshape(made, *a.shape)
    found: array = apply(kernels.put_along_axis, a, indices, values, axis)
    return found


def starts_of(start_indices: Any) -> array:
    """Return starts on the device as int32."""
    from hiprt.metal_compat.mlx.dtypes import int32

    return flatten(as_array(start_indices).astype(int32))


def slice(a: Any, start_indices: Any, axes: Any, slice_size: Any, *, stream: Any = None) -> array:  # noqa: A001
    """Return a part of an array whose first element is named by numbers on the device."""
    made: array = apply(kernels.slice, as_array(a), starts_of(start_indices), tuple(axes), tuple(slice_size))
    return made


def slice_update(a: Any, update: Any, start_indices: Any, axes: Any, *, stream: Any = None) -> array:
    """Return an array with a part replaced whose first element is named by numbers on the device."""
    a = as_array(a)
    update = as_array(update, None if isinstance(update, array) else a.dtype)
    made: array = apply(kernels.slice_update, a, update, starts_of(start_indices), tuple(axes))
    return made
