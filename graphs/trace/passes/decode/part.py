"""Parts: values that are some columns of a result, cut out, copied and given other shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.uses import Uses
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.value import GETITEM, RESHAPE

__all__ = ["Part", "is_view", "part_of"]

MOST_ELEMENTS = 1 << 20  # of a source: decode steps have few rows


class Part(NamedTuple):
    """Some elements of an array.

    Attributes
    ----------
    source : Array
        What the value is made of; the value itself where it is no part of anything.
    places : ndarray of int
        Which element of the source each of the value is, of the value's shape.
    inside : list of Primitive
        The primitives that cut them out and copy them.
    """

    source: Array
    places: NDArray[np.intp]
    inside: list[Primitive]

    @property
    def width(self) -> int:
        """How many columns the source has."""
        return int(self.source.form.shape[-1])

    @property
    def columns(self) -> NDArray[np.intp] | None:
        """Which columns of the source the value is, the same of each row, row by row; None where it is not that."""
        shape = self.source.form.shape
        rows = int(np.prod(shape[:-1]))
        if not rows or not shape[-1] or self.places.size % rows:
            return None
        by_row = self.places.reshape(rows, -1)
        first = by_row[0]
        if not (by_row == first + np.arange(rows)[:, None] * shape[-1]).all() or (first >= shape[-1]).any():
            return None
        found: NDArray[np.intp] = first
        return found

    def is_columns(self, start: int, stop: int) -> bool:
        """Whether the value is these columns of each row of the source."""
        columns = self.columns
        return columns is not None and np.array_equal(columns, np.arange(start, stop))

    @property
    def is_whole(self) -> bool:
        """Whether the value is all of the source, in its order."""
        return self.is_columns(0, self.width)


def part_of(uses: Uses, value: Any) -> Part | None:
    """Return of which array a value is a part; None where that has too many elements, or the value is no array."""
    inside: list[Primitive] = []
    while True:
        maker = uses.maker(value)
        if maker is None or not is_view(maker):
            break
        inside.append(maker)
        value = maker.inputs[0]
    if not isinstance(value, Array) or value.form.size > MOST_ELEMENTS:
        return None
    places = np.arange(value.form.size).reshape(value.form.shape)
    for primitive in reversed(inside):
        if primitive.op is GETITEM:
            index = substitute(primitive.arguments[1], plain)
            places = places[tuple(index) if isinstance(index, list) else index]
        elif primitive.op is RESHAPE:
            places = places.reshape(substitute(primitive.arguments[1], plain))
    return Part(value, places, inside)


def is_view(primitive: Primitive) -> bool:
    """Whether a primitive cuts elements out of an array or copies them, without an index on the device or `out`.

    In a program for other shapes a number of rows may be the first axis of a reshape only: the others are what the
    kernels were told when it was traced.
    """
    op = primitive.op
    if op is RESHAPE and any(type(size) is Size and is_number_of_rows(size) for size in primitive.arguments[1][1:]):
        return False
    return (op is GETITEM or op is RESHAPE or op is kernels.contiguous) and len(primitive.inputs) == 1


def is_number_of_rows(size: Size) -> bool:
    """Whether a size is the first axis of a value, or computed."""
    return bool(size.terms[0] != "axis" or size.terms[2] == 0)


def plain(part: Any) -> Any:
    """Return the number that a size is in the trace."""
    return part.value if type(part) is Size else part
