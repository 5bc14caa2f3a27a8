"""States: results that take the place of inputs that nobody reads afterwards are left in their memory.

A recurrent model makes its states anew with each token. Left where the last ones lay, they have one address for all
tokens, so that the graph is replayed as it is.
"""

from __future__ import annotations

from collections.abc import Collection

from hiprt.array import Array
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Rebuilding

__all__ = ["states"]


def states(program: Program, dead: Collection[int]) -> Program:
    """Return the program with results copied to dead inputs of their form, which they are computed from.

    Parameters
    ----------
    program : Program
    dead : collection of int
        The numbers of the inputs whose memory the program may write over; nobody reads it afterwards.
    """
    memory = Memory(program)
    shown = {memory.root_of(value) for value in program.outputs}
    free = [value for value in program.inputs if value.number in dead and value.number not in memory.written | shown]
    pairs = pairs_of(program, memory, free)
    if not pairs:
        return program
    new = Rebuilding(program)
    with new.trace.recording():
        for primitive in program.primitives:
            new.put(primitive, new.call(primitive))
        outputs = []
        for value in program.outputs:
            place = pairs.get(value.number) if value.primitive is not None else None
            if place is not None:
                new.replaced(place).copy_from(new.replaced(value))
            outputs.append(new.replaced(value if place is None else place))
    return Program(new.values, new.trace.primitives, outputs)


def pairs_of(program: Program, memory: Memory, free: list[Array]) -> dict[int, Array]:
    """Return the input whose memory an output takes, by the output's number.

    Of the inputs of its form that an output depends on, it is the one that was used last for the first time: a layer's
    own state, and not that of a layer before it.
    """
    bits = {value.number: 1 << i for i, value in enumerate(free)}
    first: dict[int, int] = {}
    needs: dict[int, int] = dict(bits)
    for at, primitive in enumerate(program.primitives):
        mask = 0
        for value in primitive.inputs:
            if value.primitive is not None:
                mask |= needs.get(value.number, 0)
                first.setdefault(value.number, at)
        for i in range(len(primitive.rule[1])):
            needs[primitive.number + i] = mask
    made = {value.number: value for value in program.outputs if value.primitive is not None}
    pairs: dict[int, Array] = {}
    for number, value in sorted(made.items()):
        is_new = memory.root_of(value) not in memory.outside and value.form.is_contiguous
        own = [each for each in free if is_new and needs.get(number, 0) & bits[each.number]]
        fitting = [each for each in own if each.form == value.form]
        if fitting:
            pairs[number] = max(fitting, key=lambda each: first.get(each.number, -1))
            free = [each for each in free if each is not pairs[number]]
    return pairs
