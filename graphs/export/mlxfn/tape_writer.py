"""A tape while it is written: the primitives of a function, each with its state, in MLX's layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hiprt.array import Array
from hiprt.graphs.export.host_stream import host_values
from hiprt.graphs.export.mlxfn.layout import Target, Version, layout_of

__all__ = ["VERSION", "DType", "Ref", "Shape", "TapeWriter", "refuse"]

VERSION: Version = (0, 32, 4)
# Number, type and device of a stream: MLX takes the first CPU stream that it has.
CPU_STREAM = (0, 0, 0)
Shape = tuple[int, ...]
DType = np.dtype[Any]


@dataclass(frozen=True)
class Ref:
    """An array of a tape."""

    number: int
    shape: Shape
    dtype: DType


class TapeWriter:
    """What a function computes, as MLX writes it, while it is made.

    Parameters
    ----------
    first : int
        The number of its first array: no other function of the file has it.
    saved : dict
        The numbers of the file's constants, by identity.
    is_general : bool
        Whether the function is for all shapes, so that broadcasts name what they broadcast to by arrays.
    """

    def __init__(self, first: int, saved: dict[int, Ref], is_general: bool) -> None:
        self.next, self.saved, self.is_general = first, saved, is_general
        self.entries: list[bytes] = []
        self.here: set[int] = set()

    def ref(self, shape: Sequence[int], dtype: DType) -> Ref:
        """Return a new array."""
        self.next += 1
        return Ref(self.next - 1, tuple(shape), dtype)

    def input(self, shape: Shape, dtype: DType) -> Ref:
        """Add an input."""
        made = self.ref(shape, dtype)
        target = Target()
        target.number("Q", made.number)
        target.content += b"\0\0"
        self.entries.append(bytes(target.content))
        return made

    def constant(self, array: Array | np.ndarray[Any, DType]) -> Ref:
        """Add a constant, whose bytes are written where the file first has it."""
        known = self.saved.get(id(array)) if isinstance(array, Array) else None
        made = known or self.ref(array.shape, array.dtype)
        if made.number in self.here:
            return made
        self.here.add(made.number)
        target = Target()
        target.number("Q", made.number)
        target.content += b"\0\1"
        if known is None:
            target.form(made.shape, made.dtype)
            target.content += (host_values(array) if isinstance(array, Array) else array).tobytes()
            if isinstance(array, Array):
                self.saved[id(array)] = made
        self.entries.append(bytes(target.content))
        return made

    def number(self, value: Any, dtype: DType) -> Ref:
        """Add a constant without axes."""
        return self.constant(np.asarray(value).astype(dtype))

    def add(self, name: str, inputs: Sequence[Ref], state: Sequence[Any], shape: Sequence[int], dtype: DType) -> Ref:
        """Add a primitive, and return what it makes."""
        return self.add_several(name, inputs, state, [(shape, dtype)], CPU_STREAM)[0]

    def add_several(
        self,
        name: str,
        inputs: Sequence[Ref],
        state: Sequence[Any],
        forms: Sequence[tuple[Sequence[int], DType]],
        stream: tuple[int, int, int],
    ) -> list[Ref]:
        """Add a primitive that makes several arrays, on a stream."""
        made = [self.ref(shape, dtype) for shape, dtype in forms]
        target = Target()
        target.number("Q", made[0].number)
        target.content += b"\1"
        target.numbers("Q", [each.number for each in inputs])
        for part in stream:
            target.number("i", part)
        target.text(name)
        for kind, part in zip(layout_of(name, VERSION), state, strict=True):
            target.part(kind, part)
        target.number("Q", len(made) - 1)
        if len(made) == 1:
            target.form(made[0].shape, made[0].dtype)
        else:
            target.numbers("Q", [each.number for each in made])
            target.number("Q", len(made))
            for each in made:
                target.numbers("i", each.shape)
            target.number("Q", len(made))
            for each in made:
                target.dtype(each.dtype)
        self.entries.append(bytes(target.content))
        return made

    def cast(self, x: Ref, dtype: DType) -> Ref:
        """Return an array in another dtype."""
        return x if x.dtype == dtype else self.add("AsType", [x], [dtype], x.shape, dtype)

    def broadcast(self, x: Ref, shape: Shape, others: Sequence[Ref] = ()) -> Ref:
        """Return an array that is repeated to a shape, which it has together with others."""
        if x.shape == shape and not self.is_general:
            return x
        if self.is_general and not others:
            refuse("its shape is a number in the file")
        inputs = [x, *(each for each in others if each is not x)] if self.is_general else [x]
        return self.add("Broadcast", inputs, [shape], shape, x.dtype)

    def apply(self, name: str, operands: Sequence[Ref], dtype: DType, *state: Any) -> Ref:
        """Add a primitive of arrays that broadcast."""
        shape = np.broadcast_shapes(*(each.shape for each in operands))
        if len(operands) > 1:
            operands = [self.broadcast(each, shape, operands) for each in operands]
        return self.add(name, operands, state, shape, dtype)

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """Return an array in another shape."""
        if self.is_general and tuple(shape) != x.shape:
            refuse("its shape is a number in the file")
        return x if tuple(shape) == x.shape else self.add("Reshape", [x], [shape], shape, x.dtype)

    def transpose(self, x: Ref, order: Sequence[int]) -> Ref:
        """Return an array with the axes in another order."""
        if list(order) == sorted(order):
            return x
        return self.add("Transpose", [x], [order], [x.shape[i] for i in order], x.dtype)

    def squeeze(self, x: Ref, axes: Sequence[int]) -> Ref:
        """Return an array without axes of one element."""
        shape = [n for i, n in enumerate(x.shape) if i not in axes]
        return self.add("Squeeze", [x], [sorted(axes)], shape, x.dtype) if axes else x

    def reduce(self, kind: int, x: Ref, axes: Sequence[int], keeps: bool) -> Ref:
        """Return a reduction: all, any, sum, product, minimum, maximum."""
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        # MLX makes no such primitive where nothing is joined, and its kernels read beyond such arrays.
        is_same = not self.is_general and shape == list(x.shape)
        made = x if is_same else self.add("Reduce", [x], [kind, sorted(axes)], shape, x.dtype)
        return made if keeps else self.squeeze(made, axes)


def refuse(why: str) -> NoReturn:
    """Raise the error of an op that MLX has nothing for."""
    raise ValueError(why)
