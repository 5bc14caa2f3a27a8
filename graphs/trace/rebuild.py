"""Rebuilding: a program traced again from its primitives, with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program, call
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.trace import Trace
from hiprt.graphs.trace.value import ShapelessValue

__all__ = ["Call", "Change", "rebuild"]

Call = Callable[[], list[Any]]
# What becomes of a primitive: its results in the new program; none where nothing uses them. It is given the primitive,
# a function that adds the same call to the new program and returns its results, and one that returns what stands there
# for a value.
Change = Callable[[Primitive, Call, Callable[[Any], Any]], list[Any]]


def rebuild(program: Program, change: Change) -> Program:
    """Return a program of the same inputs and outputs, of what `change` makes of each primitive."""
    trace = Trace(shapeless=any(isinstance(value, ShapelessValue) for value in program.inputs))
    values = [trace.given(value) for value in program.inputs]
    found: dict[int, Array] = {old.number: new for old, new in zip(program.inputs, values)}

    def replaced(part: Any) -> Any:
        if isinstance(part, Array):
            return part if part.primitive is None else found[part.number]
        return moved(part) if type(part) is Size else part

    def moved(size: Any) -> Any:
        if type(size) is not Size:
            return size
        text, a, b = size.terms
        if text == "axis":
            return Size(size.value, (text, found[a].number, b))
        return Size(size.value, (text, moved(a), moved(b)))

    places: list[int] = []
    with trace.recording():
        for primitive in program.primitives:
            places.append(len(trace.primitives))
            for i, made in enumerate(change(primitive, partial(call, primitive, replaced), replaced)):
                if primitive.rule[1][i][0] is not None:
                    found[primitive.number + i] = made
    places.append(len(trace.primitives))
    guards = [
        replace(guard, at=places[guard.at], size=moved(guard.size), other=moved(guard.other))
        for guard in program.guards
    ]
    guards += trace.guards
    guards.sort(key=lambda guard: guard.at)
    return Program(values, trace.primitives, [replaced(value) for value in program.outputs], guards)
