"""Rebuilding: a program traced again from its primitives, with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.trace import Trace
from hiprt.graphs.trace.value import ShapelessValue

__all__ = ["Call", "Change", "Rebuilding", "rebuild"]

NO_ARRAYS: Mapping[int, Array] = MappingProxyType({})
Call = Callable[[], list[Any]]
# What becomes of a primitive: its results in the new program; none where nothing uses them. It is given the primitive,
# a function that adds the same call to the new program and returns its results, and one that returns what stands there
# for a value.
Change = Callable[[Primitive, Call, Callable[[Any], Any]], list[Any]]


class Rebuilding:
    """A program that is being made from another one.

    Within ``trace.recording()``, ops that are called on what `replaced` returns become its primitives.

    Parameters
    ----------
    program : Program
        The old one.
    fixed : bool
        Whether sizes become the numbers that they are, so that the new one has no guards.
    constants : mapping of int to Array
        Arrays that take the place of inputs, by the input's number: the new program captures them.
    forms : mapping of int to Array
        Arrays of other forms that inputs have in the new program, by the input's number.

    Attributes
    ----------
    trace : Trace
    found : dict
        What stands for each value of the old program, by number.
    """

    def __init__(
        self,
        program: Program,
        *,
        fixed: bool = False,
        constants: Mapping[int, Array] = NO_ARRAYS,
        forms: Mapping[int, Array] = NO_ARRAYS,
    ) -> None:
        self.program, self.fixed = program, fixed
        self.trace = Trace(shapeless=not fixed and any(isinstance(value, ShapelessValue) for value in program.inputs))
        inputs = [value for value in program.inputs if value.number not in constants]
        self.values = [self.trace.given(forms.get(value.number, value)) for value in inputs]
        self.found: dict[int, Array] = {old.number: new for old, new in zip(inputs, self.values)} | dict(constants)

    def replaced(self, part: Any) -> Any:
        """Return what stands for a value or a size of the old program; other parts of arguments as they are."""
        if isinstance(part, Array):
            return part if part.primitive is None else self.found[part.number]
        return self.moved(part) if type(part) is Size else part

    def moved(self, size: Any) -> Any:
        """Return a size of the old program as one of the new one."""
        if type(size) is not Size:
            return size
        if self.fixed:
            return size.value
        text, a, b = size.terms
        if text == "axis":
            return Size(size.value, (text, self.found[a].number, b))
        return Size(size.value, (text, self.moved(a), self.moved(b)))

    def call(self, primitive: Primitive) -> list[Any]:
        """Add the call of a primitive, and return its results."""
        return self.trace.repeat(primitive, self.found, self.moved, Size)

    def put(self, primitive: Primitive, results: Sequence[Any]) -> None:
        """Let results stand for those of a primitive."""
        for i, made in enumerate(results):
            if primitive.rule[1][i][0] is not None:
                self.found[primitive.number + i] = made

    def finished(self, places: Sequence[int]) -> Program:
        """Return the program; `places` has how many primitives it had before each one of the old, and at the end."""
        guards = [
            replace(guard, at=places[guard.at], size=self.moved(guard.size), other=self.moved(guard.other))
            for guard in self.program.guards
            if not self.fixed
        ]
        guards += self.trace.guards
        guards.sort(key=lambda guard: guard.at)
        outputs = [self.replaced(value) for value in self.program.outputs]
        return Program(self.values, self.trace.primitives, outputs, guards)


def rebuild(
    program: Program,
    change: Change,
    *,
    fixed: bool = False,
    constants: Mapping[int, Array] = NO_ARRAYS,
    forms: Mapping[int, Array] = NO_ARRAYS,
) -> Program:
    """Return a program of the same outputs, of what `change` makes of each primitive; see `Rebuilding`."""
    new = Rebuilding(program, fixed=fixed, constants=constants, forms=forms)
    places: list[int] = []
    with new.trace.recording():
        for primitive in program.primitives:
            places.append(len(new.trace.primitives))
            new.put(primitive, change(primitive, partial(new.call, primitive), new.replaced))
    places.append(len(new.trace.primitives))
    return new.finished(places)
