"""Stacks of matrices, and the choice of the matrix that each product of a batch takes from an operand's stack."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hiprt.array import Array
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.broadcasting import broadcast_to, period
from hiprt.kernels.ops.elementwise.arange import arange
from hiprt.kernels.ops.elementwise.copies import astype
from hiprt.kernels.ops.promotion import is_integer
from hiprt.stream import Stream

__all__ = ["ITEMS", "SCALARS", "Numbers", "Side", "index_array", "items", "named", "side_of"]

SCALARS = {
    "lines": "uint",
    "left_divisor": "uint",
    "left_modulus": "uint",
    "left_count": "uint",
    "right_divisor": "uint",
    "right_modulus": "uint",
    "right_count": "uint",
    "given": "uint",
    "start": "uint",
}
ITEMS = 65535  # rows of results that one launch takes: the largest y of a grid


Numbers = tuple[int, int, int]  # the divisor, the modulus and the count of a side


@dataclass(frozen=True)
class Side:
    """One operand of a batch of products: a stack of matrices, and which of them each product takes.

    Attributes
    ----------
    divisor, modulus : int
        Product i takes index ``i // divisor % modulus``.
    count : int
        The number of matrices of the stack.
    indices : Array or None
        uint32. The number of the matrix that each index stands for; None where an index is the matrix's number itself.
    """

    divisor: int
    modulus: int
    count: int
    indices: Array | None = None

    @property
    def numbers(self) -> Numbers:
        """The divisor, the modulus and the count."""
        return self.divisor, self.modulus, self.count


def side_of(shape: tuple[int, ...], full: tuple[int, ...], count: int, indices: Array | None, stream: Stream) -> Side:
    """Return the side of an operand whose indices, or whose leading axes, have a shape that broadcasts to `full`."""
    found = period(shape, full)
    if found is not None:
        return Side(max(1, found[0]), max(1, found[1]), count, None if indices is None else words_of(indices, stream))
    each = arange(size_of(shape), stream=stream).reshape(shape) if indices is None else indices
    return Side(1, max(1, size_of(full)), count, words_of(broadcast_to(each, full), stream))


def named(left: Numbers, right: Numbers) -> dict[str, int]:
    """Return the numbers of both sides by the names of a kernel's scalars."""
    names = ("divisor", "modulus", "count")
    sides = (("left", left), ("right", right))
    return {f"{side}_{name}": number for side, numbers in sides for name, number in zip(names, numbers)}


def words_of(indices: Array, stream: Stream) -> Array:
    """Return indices as uint32; a negative one becomes larger than any that names a matrix."""
    if indices.dtype.itemsize == 4 and indices.is_contiguous:
        return indices.view(UINT32)
    return astype(indices, UINT32, stream=stream)


def size_of(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape."""
    return math.prod(shape)


def index_array(op: str, indices: Array) -> Array:
    """Return indices after checking that they are integers.

    Raises
    ------
    ValueError
        The indices are not integers.
    """
    if not isinstance(indices, Array) or not is_integer(indices.dtype):
        raise ValueError(f"[{op}] Got indices with invalid dtype. Indices must be integral.")
    return indices


def items(count: int) -> range:
    """Return the first row of results of each launch."""
    return range(0, count, ITEMS)
