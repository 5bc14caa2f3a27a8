"""Dead code: primitives that nothing needs are left out."""

from __future__ import annotations

from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program, numbers_in
from hiprt.graphs.trace.rebuild import rebuild

__all__ = ["dead_code"]


def dead_code(program: Program) -> Program:
    """Return the program without primitives whose results are not used, and that write nothing that is.

    What a primitive writes is used where it is memory from outside, an argument's or captured, or where a primitive
    behind it or an output shows that memory. An op that has an effect is needed.
    """
    used = {value.number for primitive in program.primitives for value in primitive.inputs}
    used |= {value.number for value in program.outputs}
    if all(
        primitive.rule[1] and primitive.number in used and not primitive.rule[2] for primitive in program.primitives
    ):
        return program  # each has a first result that something uses: no end of a chain is dead
    memory = Memory(program)
    live = {number for value in program.outputs for number in memory.shown_by(value)}
    live |= {number for guard in program.guards for number in numbers_in((guard.size, guard.other))}
    needed: set[int] = set()
    for at in reversed(range(len(program.primitives))):
        primitive = program.primitives[at]
        made = memory.made_by(primitive)
        writes = [primitive.inputs[i] for i in primitive.rule[2]]
        assert primitive.op is not None
        is_needed = (
            primitive.op.has_effect
            or bool(made & live)
            or any(memory.is_outside(value) or memory.shown_by(value) & live for value in writes)
        )
        if is_needed:
            needed.add(primitive.number)
            live |= made | numbers_in(primitive.arguments)
            for value in primitive.inputs:
                live |= memory.shown_by(value)
    if len(needed) == len(program.primitives):
        return program
    return rebuild(program, lambda primitive, call, _: call() if primitive.number in needed else [])
