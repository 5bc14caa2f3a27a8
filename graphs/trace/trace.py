"""Trace: what records the ops that a thread calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.graphs.trace import core
from hiprt.graphs.trace.rehearsal import Rule, rehearse, stand_in, substitute
from hiprt.graphs.trace.size import Guard, Size
from hiprt.graphs.trace.value import ShapelessValue, Value
from hiprt.op import Op

__all__ = ["Pause", "Trace"]


class Trace(core.Trace):
    """Records ops as primitives, in their order, within `recording`.

    Parameters
    ----------
    shapeless : bool
        Whether the sizes in shapes of values are remembered as what they are, so that the program can be given arrays
        of other shapes.
    keeps : bool
        Whether `primitives` has all that were recorded. Otherwise a primitive lives as long as a value of its results,
        and programs are cut from the values (`hiprt.graphs.trace.cut`).

    Attributes
    ----------
    primitives : list of Primitive
    guards : list of Guard
        Which sizes the traced function has compared or used as numbers.
    """

    def __init__(self, *, shapeless: bool = False, keeps: bool = True) -> None:
        self.guards: list[Guard] = []
        self.prepare(Buffer(0, 0, -1), ShapelessValue if shapeless else Value, Size if shapeless else None, keeps)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what this thread calls within the block."""
        before = self.enter()
        try:
            yield
        finally:
            self.leave(before)

    def infer(self, op: Op, arguments: tuple[Any, ...]) -> Rule:
        """Return what an op does for operands of some form; the C core asks once for each."""
        operands: list[Array] = []
        same: dict[int, Array] = {}  # an array that is given twice, as `out` too, is one array

        def replaced(part: Any) -> Any:
            if not isinstance(part, Array):
                return part.value if type(part) is Size else part
            array = same.get(id(part))
            if array is None:
                array = stand_in(part, Buffer(0, 0, -1) if part.primitive is not None else part.buffer)
                same[id(part)] = array
            operands.append(array)
            return array

        with Pause():
            return rehearse(op, substitute(arguments, replaced), operands)


class Pause:
    """A block within which this thread's ops launch, although it traces."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = core.Trace.current()
        if self.before is not None:
            self.before.leave(None)

    def __exit__(self, *_: object) -> None:
        if self.before is not None:
            self.before.enter()
