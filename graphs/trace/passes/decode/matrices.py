"""Matrices: constants of a program that are put together when it is compiled."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import fork, kernels
from hiprt.array import Array, array
from hiprt.buffer import Buffer
from hiprt.errors import HipError
from hiprt.graphs.trace.core import move
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.trace import Pause
from hiprt.stream import session_of_thread

__all__ = ["Joined", "joined", "moves"]

# What was put together and is in use: the buffers of the parts, which are still there, and the result, by `key_of`.
known: dict[Any, tuple[tuple[weakref.ref[Buffer], ...], weakref.ref[Array]]] = {}
lock = fork.lock()
NO_LEAVES: Mapping[int, Array] = MappingProxyType({})


class Moves:
    """How many leaves of lazy graphs have been moved: what was known of where they lie holds while this is the same."""

    count = 0


moves = Moves()


class Joined:
    """What a pass tells of the matrices that it has put together; it is text when it is read.

    Parameters
    ----------
    program : Program
    leaves : mapping of int to Array
        The values of a lazy graph that hold arrays which may be moved to where they are joined, by the arrays' ids.

    Attributes
    ----------
    written : set of int
        The buffers that the program captured and writes.
    count : int
        How many arrays became part of another one.
    copies, parts : dict
        Weak references to the buffers of the new ones and of the old ones, with their sizes, by number.
    """

    def __init__(self, program: Program, leaves: Mapping[int, Array] = NO_LEAVES) -> None:
        self.count, self.leaves = 0, leaves
        written = (primitive.inputs[i] for primitive in program.primitives for i in primitive.rule[2])
        self.written = {id(value.buffer) for value in written if value.primitive is None}
        self.copies: dict[int, tuple[weakref.ref[Buffer], int]] = {}
        self.parts: dict[int, tuple[weakref.ref[Buffer], int]] = {}

    def are_constants(self, parts: Sequence[Any]) -> bool:
        """Whether operands are arrays in memory, which the program captured and does not write, and can be copied."""
        return session_of_thread() is None and all(
            isinstance(part, Array)
            and part.primitive is None
            and part.buffer.device >= 0
            and id(part.buffer) not in self.written
            for part in parts
        )

    def note(self, parts: Sequence[Array], made: Array) -> None:
        """Count arrays that became one; where it shows their own memory, nothing was copied."""
        self.count += len(parts)
        if made.buffer is parts[0].buffer:
            return
        for known, arrays in ((self.copies, [made]), (self.parts, parts)):
            for each in arrays:
                buffer = each.buffer
                known[id(buffer)] = weakref.ref(buffer), buffer.nbytes

    def __str__(self) -> str:
        copies, held = (
            sum(nbytes for reference, nbytes in known.values() if reference() is not None)
            for known in ({key: each for key, each in self.copies.items() if key not in self.parts}, self.originals)
        )
        told = f"decode: {self.count} arrays of matrices are joined, as constants: {copies:,} bytes of copies"
        if held:
            return f"{told}; {held:,} bytes of the originals are held elsewhere as well"
        return told + (", and nothing holds the originals" if self.originals else "")

    @property
    def originals(self) -> dict[int, tuple[weakref.ref[Buffer], int]]:
        """The buffers that became part of another one and are no such copies themselves."""
        return {key: each for key, each in self.parts.items() if key not in self.copies}


def joined(parts: Sequence[Array], axis: int, order: NDArray[np.intp] | None, told: Joined) -> Array | None:
    """Return arrays joined along an axis, with its places in an order; None where there is no memory for it.

    Arrays that lie one behind the other in one buffer are not copied. The same arrays are joined into the same memory
    again, as long as it is in use. Where the parts may be moved, those that lie together in what is made are there
    afterwards, and their own memory is given back.

    Parameters
    ----------
    parts : sequence of Array
        Contiguous constants, of one dtype.
    axis : int
        Counted from the end.
    order : ndarray of int, optional
        Which places of the axis are taken; all by default.
    told : Joined
    """
    made = adjacent(parts, axis) if order is None else None
    if made is None:
        made = copied(parts, axis, order)
    if made is not None:
        told.note(parts, made)
        if told.leaves and made.buffer is not parts[0].buffer:
            move_parts(parts, axis, order, made, told.leaves)
    return made


def move_parts(
    parts: Sequence[Array], axis: int, order: NDArray[np.intp] | None, made: Array, leaves: Mapping[int, Array]
) -> None:
    """Let parts that lie together in an array, in their own order, show their elements there."""
    sizes = [part.shape[axis] for part in parts]
    places = np.arange(sum(sizes)) if order is None else order
    first = 0
    for part, size in zip(parts, sizes):
        (here,) = np.nonzero(places == first)
        if len(here) and np.array_equal(places[here[0] : here[0] + size], np.arange(first, first + size)):
            start = int(here[0])
            index: list[slice] = [slice(None)] * made.ndim
            index[axis] = slice(start, start + size)
            view = made[tuple(index)]
            if id(part) in leaves and move(leaves[id(part)], view):
                moves.count += 1
        first += size


def adjacent(parts: Sequence[Array], axis: int) -> Array | None:
    """Return the one array of which arrays are the parts, in memory; None where they are not."""
    first = parts[0]
    if any(size != 1 for size in first.shape[:axis]):
        return None
    end = first.address
    for part in parts:
        if part.buffer is not first.buffer or part.address != end:
            return None
        end += part.nbytes
    shape = list(first.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    return Array(first.buffer, tuple(shape), first.dtype, first.address)


def copied(parts: Sequence[Array], axis: int, order: NDArray[np.intp] | None) -> Array | None:
    """Return a copy of arrays that are joined; the one that is in use, with what the arrays hold now."""
    places = None if order is None else order.astype(np.int32)
    key = (
        tuple((part.address, part.shape, part.dtype) for part in parts),
        axis,
        places is not None and places.tobytes(),
    )
    with lock:
        buffers, reference = known.get(key, ((), None))
        made = None if reference is None else reference()
        if not all(each() is part.buffer for each, part in zip(buffers, parts)):
            made = None
        try:
            with Pause():
                if places is None:
                    made = kernels.concatenate(list(parts), axis=axis, out=made)
                else:
                    whole = parts[0] if len(parts) == 1 else kernels.concatenate(list(parts), axis=axis)
                    made = kernels.take(whole, array(places), axis=axis, out=made)
        except (HipError, MemoryError):
            return None
        for old in [old for old, (_, each) in known.items() if each() is None]:
            del known[old]
        known[key] = tuple(weakref.ref(part.buffer) for part in parts), weakref.ref(made)
    return made
