"""Simplify: calls that do nothing are left out, and equal calls are made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Call, rebuild
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.value import ShapelessValue

__all__ = ["simplify"]

# What a call of these does is not known from its arguments, or is new memory that each caller has for itself.
NEVER_MERGED = {"metal_kernel", "hip_kernel", "empty", "zeros", "full"}


def simplify(program: Program) -> Program:
    """Return the program without views of a whole array as it is, and with equal calls merged.

    Calls are merged where nothing writes what they read or return. A result that the program returns is never merged:
    the caller gets memory of its own for each. In a program for other shapes a view may be of the whole array in one
    shape and not in another, so that views stay there.
    """
    is_shapeless = any(isinstance(value, ShapelessValue) for value in program.inputs)
    hashes = {primitive.hash for primitive in program.primitives}
    if len(hashes) == len(program) and (is_shapeless or not any(map(is_nothing, program.primitives))):
        return program
    memory = Memory(program)
    returned = {memory.root_of(value) for value in program.outputs}
    known: dict[Hashable, list[Any]] = {}
    same: dict[int, int] = {}  # which earlier value stands for a value, by number
    gone: dict[int, int] = {}  # primitives by number: the one whose results they have; -1: they return an operand
    for primitive in program.primitives:
        if not is_shapeless and is_nothing(primitive):
            gone[primitive.number] = -1
            same[primitive.number] = name_of(primitive.inputs[primitive.rule[1][0][1]], same)
        elif can_merge(primitive, memory, returned):
            key = (primitive.op, key_of(primitive.arguments, same))
            first = known.setdefault(key, [primitive.number])[0]
            if first != primitive.number:
                gone[primitive.number] = first
                same |= {primitive.number + i: first + i for i in range(len(primitive.rule[1]))}
    if not gone:
        return program
    made: dict[int, list[Any]] = {}

    def change(primitive: Primitive, call: Call, replaced: Callable[[Any], Any]) -> list[Any]:
        first = gone.get(primitive.number)
        if first is None:
            made[primitive.number] = call()
            return made[primitive.number]
        if first >= 0:
            return made[first]
        return [replaced(primitive.inputs[primitive.rule[1][0][1]])]

    return rebuild(program, change)


def is_nothing(primitive: Primitive) -> bool:
    """Whether a primitive returns one of its arguments as it is."""
    container, results, writes = primitive.rule
    if container or writes or len(results) != 1:
        return False
    ((pattern, operand, nbytes),) = results
    if pattern is None or operand < 0 or nbytes:
        return False
    assert primitive.op is not None
    value = primitive.inputs[operand]
    return not primitive.op.has_effect and value.primitive is not None and bool(value.form == pattern.form)


def can_merge(primitive: Primitive, memory: Memory, returned: set[int]) -> bool:
    """Whether a primitive may have the results of an equal one before it."""
    assert primitive.op is not None
    if primitive.rule[2] or primitive.op.name in NEVER_MERGED or primitive.op.has_effect:
        return False
    roots = {memory.root[number] for number in memory.made_by(primitive)}
    if roots & (returned | memory.written):
        return False
    return all(memory.is_constant(value) for value in primitive.inputs)


def name_of(value: Array, same: dict[int, int]) -> int:
    """Return the number of the value that stands for another; a negative one for a captured array."""
    if value.primitive is None:
        return -id(value)
    number = value.number
    return same.get(number, number)


def key_of(argument: Any, same: dict[int, int]) -> Hashable:
    """Return what two equal arguments share."""
    kind = type(argument)
    if isinstance(argument, Array):
        return (Array, name_of(argument, same))
    if kind in (tuple, list):
        return (kind, *[key_of(each, same) for each in argument])
    if kind is dict:
        return (kind, *[(name, key_of(each, same)) for name, each in argument.items()])
    if kind is slice:
        return (kind, *[key_of(each, same) for each in (argument.start, argument.stop, argument.step)])
    if kind is Size:
        text, a, b = argument.terms
        return (kind, text, same.get(a, a), b) if text == "axis" else (kind, text, key_of(a, same), key_of(b, same))
    if kind is float:
        return (kind, repr(argument))
    return (kind, id(argument) if kind is np.ndarray else argument)
