"""Indexing of arrays, with all that MLX takes: integers, slices, None, ``...`` and arrays, mixed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.integer import Integer
from hiprt.graphs.trace.prefixes import general, varying, written
from hiprt.graphs.trace.value import GETITEM
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.metal_compat.mlx.array import array, as_array, packed
from hiprt.metal_compat.mlx.elementwise import where
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.places import counted

__all__ = ["At", "assigned", "taken"]

PLAIN = {int, type(None), Integer}  # types of bounds that are as they should be
EVERY = slice(None)
LAST = 2**31 - 1  # the largest index that MLX takes
WIDE = "Slice indices must be 32-bit integers."
MISSING = object()


def normal(index: Any) -> list[Any]:
    """Return the items of an index: integers, slices of integers, None, ``...`` and arrays of integers or bool."""
    return [normal_item(item) for item in (index if isinstance(index, tuple) else (index,))]


def normal_item(item: Any) -> Any:
    """Return one item of an index in its plain form."""
    if item is None or item is Ellipsis or type(item) is int:
        return item
    if isinstance(item, slice):
        if type(item.start) in PLAIN and type(item.stop) in PLAIN and type(item.step) in PLAIN:
            return item
        bounds = [None if bound is None else operator.index(bound) for bound in (item.start, item.stop, item.step)]
        return slice(*bounds)
    if isinstance(item, (bool, np.bool_)):
        raise ValueError("Cannot index mlx array using the given type.")
    if isinstance(item, (list, np.ndarray, array)):
        made = as_array(item)
        if made.value.dtype.kind not in "iub":
            raise ValueError("Cannot index mlx array using the given type.")
        return made
    if hasattr(item, "__index__"):
        return operator.index(item)
    raise ValueError("Cannot index mlx array using the given type.")


def expanded(items: list[Any], ndim: int) -> list[Any]:
    """Return the items with full slices for ``...`` and for the axes behind."""
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise ValueError("An index can only have a single ellipsis (...).")
    used = len(items) - len(places) - len([None for item in items if item is None])
    if used > ndim:
        raise ValueError(f"Too many indices for array with {ndim} dimensions.")
    at = places[0] if places else len(items)
    return [*items[:at], *[EVERY] * (ndim - used), *items[at + 1 :]]


def plain(index: Any, ndim: int) -> tuple[Any, ...] | None:
    """Return the items of an index with full slices for ``...`` and the axes behind; None where one is an array.

    It does at once for numbers and slices what `normal` and `expanded` do for all.
    """
    items: list[Any] = []
    at, used = -1, 0
    for item in index if type(index) is tuple else (index,):
        kind = type(item)
        if kind is slice:
            start, stop = item.start, item.stop
            if not (type(start) in PLAIN and type(stop) in PLAIN and type(item.step) in PLAIN):
                return None
            if (stop is not None and stop > LAST) or (start is not None and start > LAST):
                raise ValueError(WIDE)
            used += 1
        elif kind is int:
            if item > LAST:
                raise ValueError(WIDE)
            used += 1
        elif item is Ellipsis and at < 0:
            at = len(items)
            continue
        elif item is not None:
            return None
        items.append(item)
    if used > ndim:
        return None
    if used < ndim:
        at = len(items) if at < 0 else at
        items[at:at] = [EVERY] * (ndim - used)
    return tuple(items)


def linear(parts: list[Array], sizes: list[int]) -> Array:
    """Return places along axes that are taken as one, of the places along each."""
    found: Array | None = None
    for part, n in zip(parts, sizes):
        here = kernels.astype(part, np.int32)
        here = kernels.where(kernels.less(here, 0), kernels.add(here, n), here)
        found = here if found is None else kernels.add(kernels.multiply(found, n), here)
    assert found is not None
    return found


def gathered(a: Array, items: list[Any], arrays: list[Array]) -> Array:
    """Return the elements of a value that items name; ``arrays`` are those among the items, in order."""
    marks = ["array" if isinstance(item, str) else "number" if isinstance(item, int) else "" for item in items]
    view = a[tuple(slice(None) if mark else item for item, mark in zip(items, marks))]
    places = [i for i, mark in enumerate(marks) if mark]
    if len(places) == 1:
        return kernels.take(view, arrays[0], places[0])
    rest = iter(arrays)
    parts = [next(rest) if mark == "array" else item for item, mark in zip(items, marks) if mark]
    shape = broadcast_shapes("index", *(part.shape for part in parts if isinstance(part, Array)))
    spread = [
        kernels.broadcast_to(part, shape) if isinstance(part, Array) else kernels.broadcast_to(number(part), shape)
        for part in parts
    ]
    others = [i for i in range(view.ndim) if i not in places]
    front = kernels.contiguous(view.transpose(*places, *others))
    sizes = [view.shape[i] for i in places]
    flat = front.reshape((math.prod(sizes), *(view.shape[i] for i in others)))
    found = kernels.take(flat, linear(spread, sizes), 0)
    if places != list(range(places[0], places[-1] + 1)):
        return found
    # Neighbouring arrays put their axes in the place of the first one.
    n, before = len(shape), places[0]
    order = [*range(n, n + before), *range(n), *range(n + before, found.ndim)]
    return found.transpose(*order)


def number(value: int) -> Array:
    """Return an integer as a value without axes."""
    made: Array = kernels.arange(value, value + 1).reshape(())
    return made


def taken(a: array, index: Any) -> array:
    """Return ``a[index]``.

    Raises
    ------
    ValueError
        There are too many indices, or one is of another type; bool masks choose nothing here, as in MLX.
    """
    view = plain(index, a.value.ndim)
    if view is not None:
        length = varying_length(a, view)
        made: array = apply(GETITEM, a, view) if length is None else apply(beginning, a, *length)
        return made
    items = normal(index)
    arrays = [item for item in items if isinstance(item, array)]
    if not arrays:
        made = apply(GETITEM, a, tuple(expanded(items, a.ndim)))
        return made
    if any(each.value.dtype.kind == "b" for each in arrays):
        raise ValueError("boolean indices are not yet supported")
    marked = ["array" if isinstance(item, array) else item for item in expanded(items, a.ndim)]
    found: array = apply(gathered, a, marked, arrays)
    return found


def varying_length(a: array, items: tuple[Any, ...]) -> tuple[int, Integer] | None:
    """Return the axis of which items name the first elements, where their number is recorded, and that number."""
    found = None
    for axis, item in enumerate(items):
        if type(item) is not slice or item.step is not None or item.start not in (None, 0):
            return None
        if type(item.stop) is Integer and found is None:
            found = axis, item.stop
        elif item.stop is not None:
            return None
    if found is None or len(items) != a.ndim or not 0 < found[1] <= a.shape[found[0]]:
        return None
    return found


def beginning(x: Array, axis: int, length: Integer) -> Array:
    """Return the first elements along an axis, whose number is recorded."""
    index = tuple([slice(None, length.value if i == axis else None) for i in range(x.ndim)])
    return varying(general(x.__getitem__, index), axis, length)


def fitted(update: Any, a: array, shape: tuple[int, ...]) -> array:
    """Return what is assigned as an array whose shape broadcasts to that of the part."""
    made = as_array(update, None if isinstance(update, array) else a.dtype)
    while made.ndim > len(shape) and made.shape[0] == 1:
        made = made[0]
    return made


def places_of(a: array, items: list[Any]) -> array:
    """Return the places, counted along all elements, of the part that items name."""
    arrays = [item for item in items if isinstance(item, array)]
    marked = ["array" if isinstance(item, array) else item for item in expanded(items, a.ndim)]
    shape, size = a.shape, a.size

    def places(*parts: Array) -> Array:
        every = kernels.arange(size).reshape(shape)
        return gathered(every, marked, list(parts)) if parts else every[tuple(marked)]

    found: array = apply(places, *arrays)
    return found


def masked(a: array, mask: array, x: Any) -> array:
    """Return an array in which the elements that a mask of leading axes names are replaced."""
    if mask.shape != a.shape[: mask.ndim]:
        raise ValueError(f"boolean index of shape {mask.shape} does not fit an array of shape {a.shape}")
    wide = mask.reshape(*mask.shape, *[1] * (a.ndim - mask.ndim))
    values = as_array(x, a.dtype)
    if values.ndim <= a.ndim - mask.ndim:
        return where(wide, values, a)
    order = apply(
        lambda m: kernels.subtract(kernels.cumsum(kernels.astype(packed(m).reshape(m.size), np.int32), 0), 1), mask
    )
    spread = apply(lambda v, i: kernels.take(v, kernels.maximum(i, 0), 0), values, order)
    return where(wide, spread.reshape(*mask.shape, *spread.shape[1:]), a)


def changed(a: array, index: Any, x: Any, put: Callable[..., Any]) -> array:
    """Return an array with a part changed by an op that scatters, of which the last update or the sum counts."""
    if index is MISSING:
        raise ValueError("Must give indices to array.at (e.g. `x.at[0].add(4)`).")
    items = normal(index)
    places = places_of(a, items)
    update = fitted(x, a, places.shape)

    def scattered(whole: Array, at: Array, new: Array) -> Array:
        spread = kernels.broadcast_to(kernels.astype(new, whole.dtype), at.shape)
        flat = kernels.contiguous(whole).reshape((whole.size,))
        rows = kernels.contiguous(spread).reshape((at.size,))
        made: Array = put(flat, kernels.contiguous(at).reshape((at.size,)), rows)
        return made.reshape(whole.shape)

    made: array = apply(scattered, a, places, update)
    return made


def assigned(a: array, index: Any, x: Any) -> array:
    """Return what ``a[index] = x`` leaves in `a`."""
    if isinstance(index, (bool, np.bool_)):
        index = array(bool(index))
    view = plain(index, a.value.ndim)
    items = normal(index) if view is None else list(view)
    arrays = [item for item in items if isinstance(item, array)] if view is None else []
    if not arrays:
        whole = expanded(items, a.ndim) if view is None else items
        moving = one_slice(a, whole)
        if moving is not None:
            axis, start, count = moving
            shape = a.shape
            part = (*shape[:axis], count, *shape[axis + 1 :])
            update = fitted(x, a, part)
            if update.shape == part:
                found: array = apply(written, a, update, counted(start), (axis,))
                return found
        else:
            part_of: array = apply(GETITEM, a, tuple(whole))
            update = fitted(x, a, part_of.shape)
        made: array = apply(kernels.assign, a, tuple(whole), update)
        return made
    if len(items) == 1 and arrays[0].value.dtype.kind == "b":
        return masked(a, arrays[0], x)
    whole = expanded(items, a.ndim)
    axes = [axis for axis, item in enumerate(whole) if isinstance(item, array)]
    if (
        len(arrays) == 1
        and len(whole) == a.ndim
        and all(i in axes or item == slice(None) for i, item in enumerate(whole))
    ):
        axis = axes[0]
        shape = (*a.shape[:axis], *arrays[0].shape, *a.shape[axis + 1 :])
        scattered: array = apply(kernels.scatter, a, arrays[0], fitted(x, a, shape), axis)
        return scattered
    return changed(a, index, x, kernels.scatter)


def is_every(index: Any, shape: tuple[int, ...]) -> bool:
    """Whether an index names all elements of an array, in order."""
    items = plain(index, len(shape))
    return items is not None and all(
        isinstance(item, slice) and item.indices(n) == (0, n, 1) for item, n in zip(items, shape)
    )


def one_slice(a: array, items: list[Any]) -> tuple[int, int, int] | None:
    """Return the only axis of which items name a part without gaps, where it begins, and its length.

    None is returned for other items. Where the part begins then is a number in device memory, so that writing behind
    what a cache holds is one program.
    """
    shape = a.shape
    if len(items) != len(shape):
        return None
    found = None
    for axis, (item, n) in enumerate(zip(items, shape)):
        if item is EVERY:
            continue
        if type(item) is not slice:
            return None
        if item.step not in (None, 1):
            return None
        start, stop = (place(x, n, otherwise) for x, otherwise in ((item.start, 0), (item.stop, n)))
        if start == 0 and stop == n:
            continue
        if found is not None:
            return None
        found = axis, start, max(0, stop - start)
    return found


def place(bound: int | None, n: int, otherwise: int) -> int:
    """Return a bound of a slice along an axis of n elements as a number from 0 to n."""
    if bound is None:
        return otherwise
    bound = bound + n if bound < 0 else bound
    return 0 if bound < 0 else min(bound, n)


class At:
    """``a.at``: changed copies of an array, in which each index that comes again counts again."""

    def __init__(self, a: array) -> None:
        self.a = a
        self.index: Any = MISSING

    def __getitem__(self, index: Any) -> At:
        made = At(self.a)
        made.index = index
        return made

    def add(self, x: Any) -> array:
        """Return the array with `x` added to the part."""
        return changed(self.a, self.index, x, kernels.scatter_add)

    def subtract(self, x: Any) -> array:
        """Return the array with `x` subtracted from the part."""
        return changed(self.a, self.index, -as_array(x), kernels.scatter_add)

    def multiply(self, x: Any) -> array:
        """Return the array with the part multiplied by `x`."""
        return self.one_by_one(x, kernels.multiply)

    def divide(self, x: Any) -> array:
        """Return the array with the part divided by `x`."""
        return self.one_by_one(x, kernels.divide)

    def maximum(self, x: Any) -> array:
        """Return the array with the larger of the part and `x`."""
        return self.one_by_one(x, kernels.maximum)

    def minimum(self, x: Any) -> array:
        """Return the array with the smaller of the part and `x`."""
        return self.one_by_one(x, kernels.minimum)

    def one_by_one(self, x: Any, combine: Callable[..., Any]) -> array:
        """Return the array with updates combined in the order of their places, one launch for each.

        Without arrays in the index no place comes twice, and all are combined at once.
        """
        if not any(isinstance(item, array) for item in normal(self.index)):
            new: array = apply(combine, taken(self.a, self.index), as_array(x, self.a.dtype))
            is_whole = new.dtype is self.a.dtype and new.shape == self.a.shape and is_every(self.index, new.shape)
            return new if is_whole else assigned(self.a, self.index, new)

        def put(flat: Array, at: Array, new: Array) -> Array:
            for i in range(at.shape[0]):
                here = at[i : i + 1]
                flat = kernels.scatter(flat, here, combine(kernels.take(flat, here, 0), new[i : i + 1]), 0)
            return flat

        return changed(self.a, self.index, x, put)
