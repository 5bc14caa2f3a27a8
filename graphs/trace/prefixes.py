"""Prefixes: views of the first elements of what a cache holds, whose number grows with each token.

An op that treats the elements along an axis apart makes of the first of them the first of what it makes of all. So it
is called with all, and a view of its result has the number: the primitive is the same for each token. Where an op joins
the elements, those behind the number are given a value that changes nothing, by a mask that is made from the number as
an array in device memory. A call that no rule here is for is made with the view as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from hiprt import kernels
from hiprt.array import Array, array as on_device
from hiprt.graphs.trace.core import hold, pin
from hiprt.graphs.trace.integer import Integer, Recording, current_recording, is_recorded
from hiprt.graphs.trace.masking_rules import ELEMENTWISE
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.graphs.trace.trace import Trace
from hiprt.graphs.trace.value import GETITEM, TRANSPOSE, VaryingValue
from hiprt.op import Op

__all__ = [
    "LazyTrace", "Prefix", "cache_of", "called", "counted", "general", "position", "positions", "prefix_of", "prefixed",
    "varying", "written",
]  # fmt: skip

EVERY = slice(None)
MANY, ROW = 256, 16
positions: WeakValueDictionary[int, Array] = WeakValueDictionary()  # what `position` has returned, by id


class Prefix(NamedTuple):
    """What a view of the first elements along an axis is a view of.

    Attributes
    ----------
    whole : Array
    axis : int
    length : int
        How many elements the view has along the axis.
    """

    whole: Array
    axis: int
    length: int

    @property
    def capacity(self) -> int:
        """How many elements there are along the axis."""
        return int(self.whole.shape[self.axis])


class LazyTrace(Trace):
    """The trace of lazy graphs, in which ops that are given prefixes are called with what these are views of."""

    def __init__(self) -> None:
        super().__init__(keeps=False)
        self.see_prefixes(GETITEM, kernels.slice_update)
        self.see_integers(Integer, VaryingValue)

    def of_prefixes(self, op: Op, arguments: tuple[Any, ...]) -> Any:
        """Return what a call returns, by a primitive that other lengths have as well; None where there is none."""
        rule = RULES.get(op)
        return None if rule is None else rule(op, arguments)


def counted(n: Any) -> Array:
    """Return a value that holds an integer as an int32 array of one element, the same one each time.

    A graph that is given the number so, and not as a constant of its ops, is the same graph for another number.
    """
    if is_recorded(n) and n.recording.is_open:
        return n.recording.position(n, position, position.__wrapped__)
    return position(int(n))


@lru_cache(64)
def numbers(first: int) -> Array:
    """Return many numbers from one on, a row for each: an upload waits for the device, and they come one by one."""
    host = np.zeros((MANY, ROW), np.int32)
    host[:, 0] = np.arange(first, first + MANY).astype(np.int32)
    memory = on_device(host)
    pin(memory)
    return memory


@lru_cache(4096)
def position(n: int) -> Array:
    """Return the value that holds a number."""
    np.asarray(n, np.int32)  # raises where it does not fit
    memory = numbers(n - n % MANY)[n % MANY, :1]
    value: Array = TRACE.given(memory)
    hold([value], (memory,))
    positions[id(value)] = value
    return value


def prefix_of(value: Any) -> Prefix | None:
    """Return what a value is a prefix of; None for other values, and for what is no array."""
    maker = value.primitive if isinstance(value, Array) else None
    if maker is None or not maker.prefix:
        return None
    return Prefix(maker.arguments[0], maker.prefix - 1, value.shape[maker.prefix - 1])


def prefixed(whole: Array, axis: int, length: int) -> Array:
    """Return the first elements of a value along an axis, as a prefix."""
    if is_recorded(length):
        return varying(prefixed(whole, axis, length.value), axis, length)
    index = tuple([slice(0, length) if each == axis else EVERY for each in range(whole.ndim)])
    made = whole[index]
    made.primitive.prefix = axis + 1
    return made


def general(function: Callable[..., Array], *arguments: Any) -> Array:
    """Return what a function makes of caches, where it makes the same calls for caches of other sizes."""
    recording = current_recording()
    if recording is None:
        return function(*arguments)
    with recording.general():
        return function(*arguments)


def written(cache: Array, update: Array, start: Array, axes: tuple[int, ...]) -> Array:
    """Return a cache with a part that is written; its sizes are the cache's."""
    made = general(kernels.slice_update, cache, update, start, axes)
    recording = current_recording()
    if recording is not None and type(cache) is VaryingValue and cache.number in recording.caches:
        cache_of(made, recording.shapes[cache.number], recording)
    return made


def cache_of(value: Array, shape: tuple[Any, ...], recording: Recording) -> None:
    """Let a value be a cache with integers among its sizes."""
    recording.shapes[value.number] = shape
    recording.caches.add(value.number)
    value.__class__ = VaryingValue


def varying(view: Array, axis: int, length: Integer) -> Array:
    """Return a view whose length along an axis is an integer that is recorded."""
    recording = current_recording()
    assert recording is not None
    recording.shapes[view.number] = tuple([length if i == axis else n for i, n in enumerate(view.shape)])
    view.__class__ = VaryingValue
    return view


def valid(length: int, capacity: int, axis: int, ndim: int) -> Array:
    """Return a mask of one axis of several that is true for the first elements."""
    mask: Array = kernels.less(kernels.arange(capacity), counted(length))
    return mask.reshape([capacity if each == axis else 1 for each in range(ndim)])


def hidden(found: Prefix, fill: float) -> Array:
    """Return all elements, with a number in the place of those behind the prefix."""
    whole, axis, length = found
    made: Array = kernels.where(valid(length, found.capacity, axis, whole.ndim), whole, fill)
    return made


def called(op: Op, arguments: tuple[Any, ...]) -> Array:
    """Call an op with an argument for each of its parameters."""
    named = dict(zip(op.names[op.positional :], arguments[op.positional :]))
    made: Array = op(*arguments[: op.positional], **named)
    return made


def shortest(found: list[Prefix]) -> int | None:
    """Return the least capacity of prefixes of one length; None for others."""
    lengths = [each.length for each in found]
    if not lengths or any(n != lengths[0] for n in lengths):
        return None
    return min(each.capacity for each in found)


def cut_to(found: Prefix, capacity: int) -> Array:
    """Return the elements up to a capacity."""
    if found.capacity == capacity:
        return found.whole
    return found.whole[(*(EVERY,) * found.axis, slice(0, capacity))]


def apart(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """Element by element: axes are counted from the end, as shapes broadcast."""
    given = [each for each in arguments if isinstance(each, Array)]
    found = {id(each): prefix for each in given if (prefix := prefix_of(each)) is not None}
    places = {prefix.axis - prefix.whole.ndim for prefix in found.values()}
    capacity = shortest(list(found.values()))
    if capacity is None or len(places) > 1:
        return None
    (place,) = places
    if any(each.ndim >= -place and each.shape[place] != 1 for each in given if id(each) not in found):
        return None

    def replaced(part: Any) -> Any:
        return cut_to(found[id(part)], capacity) if id(part) in found else part

    made = called(op, substitute(arguments, replaced))
    return prefixed(made, made.ndim + place, next(iter(found.values())).length)


def transpose(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """The axes in another order."""
    array, axes = arguments
    found = prefix_of(array)
    if found is None:
        return None
    order = [axis % array.ndim for axis in axes] or list(reversed(range(array.ndim)))
    return prefixed(op(found.whole, axes), order.index(found.axis), found.length)


def getitem(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """A part along other axes, or new ones."""
    array, index = arguments
    found = prefix_of(array)
    if found is None or not isinstance(index, tuple) or any(item is ... for item in index):
        return None
    axis = made = 0
    place = None
    for item in index:
        if item is None:
            made += 1
            continue
        if axis == found.axis:
            if item != EVERY:
                return None
            place = made
        elif not isinstance(item, (int, slice)):
            return None
        made += isinstance(item, slice)
        axis += 1
    place = made + found.axis - axis if place is None else place
    return prefixed(op(found.whole, index), place, found.length)


def matmul(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """Rows and columns are apart; what is summed over is hidden in both operands."""
    a, b, out = arguments
    left, right = prefix_of(a), prefix_of(b)
    if a.ndim < 2 or b.ndim < 2 or out is not None:
        return None
    if left is not None and right is not None:
        capacity = shortest([left, right])
        if left.axis != a.ndim - 1 or right.axis != b.ndim - 2 or capacity is None:
            return None
        left, right = (Prefix(cut_to(each, capacity), each.axis, each.length) for each in (left, right))
        made: Array = op(hidden(left, 0.0), hidden(right, 0.0))
        return made
    if left is not None and left.axis == a.ndim - 2:
        made = op(left.whole, b)
        return prefixed(made, made.ndim - 2, left.length)
    if right is not None and right.axis == b.ndim - 1:
        made = op(a, right.whole)
        return prefixed(made, made.ndim - 1, right.length)
    return None


def quantized_matmul(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """A product with what a quantised cache holds: its rows are apart; where they are summed over they are hidden."""
    x, w, scales, biases, transpose, *form = arguments
    matrix = [each for each in (w, scales, biases) if each is not None]
    found = [each for part in matrix if (each := prefix_of(part)) is not None]
    rows = prefix_of(x)
    if len(found) < len(matrix) or any(each.axis != each.whole.ndim - 2 for each in found):
        return None
    capacity = shortest(found if rows is None else [rows, *found])
    if capacity is None:
        return None
    parts = [Prefix(cut_to(each, capacity), each.axis, each.length) for each in found]
    codes, *steps = [each.whole for each in parts]
    if transpose and rows is None:
        made = called(op, (x, codes, steps[0], steps[1] if len(steps) > 1 else None, transpose, *form))
        return prefixed(made, made.ndim - 1, parts[0].length)
    if transpose or rows is None or rows.axis != x.ndim - 1 or scales.dtype.kind in "iub":
        return None
    seen = hidden(Prefix(cut_to(rows, capacity), rows.axis, rows.length), 0.0)
    steps = [hidden(each, 0.0) for each in parts[1:]]
    return called(op, (seen, codes, steps[0], steps[1] if len(steps) > 1 else None, transpose, *form))


def softmax(op: Op, arguments: tuple[Any, ...]) -> Array | None:
    """Rows along an axis, of which those elements are hidden that are not there."""
    x, axis, out = arguments
    found = prefix_of(x)
    if found is None or out is not None or x.dtype.kind in "iub":
        return None
    whole = found.whole if axis % x.ndim != found.axis else hidden(found, -math.inf)
    return prefixed(op(whole, axis), found.axis, found.length)


RULES: dict[Any, Callable[[Op, tuple[Any, ...]], Array | None]] = {
    # A copy without gaps is one of the elements that are there.
    **{getattr(kernels, name): apart for name in ELEMENTWISE if name not in ("contiguous", "copy")},
    TRANSPOSE: transpose,
    GETITEM: getitem,
    kernels.matmul: matmul,
    kernels.quantized_matmul: quantized_matmul,
    kernels.softmax: softmax,
}
TRACE = LazyTrace()
