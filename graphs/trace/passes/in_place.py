"""In place: ops that change a part of an array write it where it lies, if nothing reads what was there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.graphs.trace.rehearsal import substitute

__all__ = ["in_place"]

# Ops that take `out`, which may be their first operand, and then write nothing but the part.
UPDATES = {"assign", "put_along_axis", "scatter", "scatter_add", "slice_update"}


def in_place(program: Program, dead: Collection[int]) -> Program:
    """Return the program with updates in place where that changes no result.

    Parameters
    ----------
    program : Program
    dead : collection of int
        The numbers of the inputs whose memory the program may write over; nobody reads it afterwards.
    """
    memory = Memory(program)
    last: dict[int, int] = {}  # the last primitive that reads a root
    for at, primitive in enumerate(program.primitives):
        for value in primitive.inputs:
            last[memory.root_of(value)] = at
    shown = {memory.root_of(value) for value in program.outputs}
    chosen: set[int] = set()
    for at, primitive in enumerate(program.primitives):
        if primitive.op is None or primitive.op.name not in UPDATES or "out" not in primitive.op.names:
            continue
        root = memory.root_of(primitive.inputs[0])
        others = {memory.root_of(value) for value in primitive.inputs[1:]}
        is_ours = root in dead or (root != -1 and root not in memory.outside)
        is_last = last[root] == at and root not in shown and root not in others
        if is_ours and is_last and primitive.inputs[0].number == root:
            chosen.add(primitive.number)
    if not chosen:
        return program

    def change(primitive: Primitive, call: Callable[[], list[Any]], replaced: Callable[[Any], Any]) -> list[Any]:
        if primitive.number not in chosen:
            return call()
        op = primitive.op
        assert op is not None
        arguments = list(substitute(primitive.arguments, replaced))
        arguments[op.names.index("out")] = arguments[0]
        named = dict(zip(op.names[op.positional :], arguments[op.positional :]))
        return [op(*arguments[: op.positional], **named)]

    return rebuild(program, change)
