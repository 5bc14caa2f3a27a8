"""Copies: several arrays that are copied to arrays from outside are copied by one kernel."""

from __future__ import annotations

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes.decode.uses import argument
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Rebuilding
from hiprt.kernels.ops.elementwise.fused import fused
from hiprt.kernels.ops.promotion import WORDS

__all__ = ["copies"]

MOST_COPIES = 8  # by a kernel, which reads and writes 16 arrays
MOST_BYTES = 32 << 20  # that wait to be copied, in memory that nothing else can have meanwhile


def copies(program: Program) -> Program:
    """Return the program with calls of `copyto` that wait for later ones of the same shape and dtype.

    They are made before something else uses what they write, or writes what they read, and at the end. That arguments
    lie apart from each other, and from what the program captured, is taken for granted: the program as it was runs
    where they do not.
    """
    if sum(primitive.op is kernels.copyto for primitive in program.primitives) < 2:
        return program
    memory = Memory(program, is_apart=True)
    order: list[list[Primitive]] = []
    places: list[int] = []
    waiting: list[Primitive] = []

    def flush() -> None:
        groups: dict[object, list[Primitive]] = {}
        for each in waiting:
            to = argument(each, "to")
            groups.setdefault((to.form.shape, to.dtype), []).append(each)
        order.extend(groups.values())
        waiting.clear()

    for primitive in program.primitives:
        written = [primitive.inputs[i] for i in primitive.rule[2]]
        is_near = any(
            any(memory.may_share(value, argument(each, "to")) for value in primitive.inputs)
            or any(memory.may_share(value, argument(each, "x")) for value in written)
            for each in waiting
        )
        if is_near or len(waiting) == MOST_COPIES:
            flush()
        places.append(len(order))
        if not can_wait(primitive):
            order.append([primitive])
        else:
            waiting.append(primitive)
            if sum(argument(each, "x").nbytes for each in waiting) > MOST_BYTES:
                flush()
    flush()
    places.append(len(order))
    if len(order) == len(program):
        return program
    new = Rebuilding(program)
    with new.trace.recording():
        for group in order:
            if len(group) == 1:
                new.put(group[0], new.call(group[0]))
                continue
            to, x = ([new.replaced(argument(each, name)) for each in group] for name in ("to", "x"))
            lines = [f"v{i} = contiguous(x{i})" for i in range(len(group))]
            results = ", ".join(f"v{i}" for i in range(len(group)))
            fused(x, f"{'; '.join(lines)}; return {results}", out=to)
    made = new.finished(places)
    made.otherwise = program
    return made


def can_wait(primitive: Primitive) -> bool:
    """Whether a primitive copies an array of numbers to a contiguous one of its shape and dtype."""
    if primitive.op is not kernels.copyto:
        return False
    to, x = argument(primitive, "to"), argument(primitive, "x")
    return (
        isinstance(x, Array)
        and to.form.shape == x.form.shape
        and to.dtype == x.dtype
        and to.dtype in WORDS
        and bool(to.form.is_contiguous)
    )
