"""Lazy graphs: values that are computed when they are asked for, as a program that runs as one graph.

Ops that are called within `recording` make values and nothing else. `evaluate` cuts the program of what is asked for
out of the graph of values and runs it. Each value that something still needs then holds its array. A structure that
comes again runs as a `hiprt.graphs.Step`, with the passes of `compile`, and without Python for each primitive.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from hiprt import fork
from hiprt.array import Array, empty
from hiprt.graphs.step import Step
from hiprt.graphs.trace.core import cut, hold
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.passes.in_place import in_place
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.graphs.trace.trace import Trace
from hiprt.stream import Stream, current_stream

__all__ = ["evaluate", "held", "recording", "value_of"]

MOST_PROGRAMS = 512  # that are kept
SMALL = 64  # bytes of an input that is copied rather than patched

trace = Trace(keeps=False)
recording = trace.recording
lock = fork.rlock()
known: OrderedDict[tuple[bytes, Stream], Lowered] = OrderedDict()
seen: OrderedDict[bytes, None] = OrderedDict()


class Lowered:
    """The program of a structure, and the step that runs it.

    Parameters
    ----------
    program : Program
        Its inputs are the leaves of a cut, in order.
    dead : bytes
        Which of them the program may write over.
    stream : Stream
    rules : list
        Those of the cut's primitives, which the key of the structure names by address.

    Attributes
    ----------
    cells : dict
        The small inputs that were another array at some call, by place: the step reads them from memory of its own,
        into which they are copied, so that it is replayed whatever they are.
    """

    def __init__(self, program: Program, dead: bytes, stream: Stream, rules: list[Any]) -> None:
        copied = rebuild(program, lambda _, call, __: call())
        better, _ = improved(copied)
        self.program = in_place(better, {value.number for value, flag in zip(better.inputs, dead) if flag})
        self.rules, self.stream = rules, stream
        numbers = [value.number for value in self.program.inputs]
        roots = Memory(self.program)
        # An output that is an input, written in place, is returned as it is given.
        self.given = [
            numbers.index(roots.root_of(value)) if roots.root_of(value) in roots.outside else -1
            for value in self.program.outputs
        ]
        self.is_plain = all(
            at < 0 or value.number == numbers[at] for at, value in zip(self.given, self.program.outputs)
        )
        self.cells: dict[int, Array] = {}
        self.latest: list[Array] = []
        self.small = [
            i
            for i, value in enumerate(self.program.inputs)
            if value.nbytes <= SMALL and not dead[i] and value.is_contiguous
        ]
        self.step: Step[..., tuple[Array, ...]] = Step(self.made, name="mlx.eval", stream=stream, moves=self.is_plain)

    def made(self, *arrays: Array) -> tuple[Array, ...]:
        """Run the program, and return the outputs that are no inputs."""
        found = self.program.run(*arrays)
        return tuple(each for each, at in zip(found, self.given) if at < 0 or not self.is_plain)

    def run(self, arrays: list[Array]) -> list[Array]:
        """Return the outputs for some leaves."""
        placed = list(arrays)
        for i in self.small:
            if i not in self.cells and self.latest and self.latest[i].address != arrays[i].address:
                form = arrays[i].form
                self.cells[i] = empty(form.shape, form.dtype, self.stream)
            if i in self.cells:
                self.cells[i].copy_from(arrays[i], self.stream)
                placed[i] = self.cells[i]
        self.latest = arrays
        rest = iter(self.step(*placed))
        return [arrays[at] if at >= 0 and self.is_plain else next(rest) for at in self.given]


def value_of(array: Array) -> Array:
    """Return a value that holds an array in memory."""
    value: Array = trace.given(array)
    hold([value], (array,))
    return value


def held(value: Array) -> Array | None:
    """Return the array that a value holds; None for one that is not computed yet."""
    maker = value.primitive
    if maker is None:
        return value
    return maker.arguments[0] if maker.op is None else None


def evaluate(values: Sequence[Array]) -> None:
    """Let each value hold its array.

    What is launched runs on this thread's stream, and the call does not wait for it.

    Raises
    ------
    ValueError, TypeError
        An op refuses its arguments when it runs.
    """
    with lock:
        wanted = [value for value in values if held(value) is None]
        if not wanted:
            return
        key, primitives, leaves, dead, results = cut(wanted)
        arrays = [leaf.primitive.arguments[0] for leaf in leaves]
        stream = current_stream()
        lowered = known.get((key, stream))
        if lowered is not None:
            made = tuple(lowered.run(arrays))
        elif key not in seen:
            # Most structures come once: their ops are launched one by one.
            seen[key] = None
            while len(seen) > MOST_PROGRAMS:
                seen.popitem(last=False)
            made = Program(leaves, primitives, results).run(*arrays)
        else:
            rules = [primitive.rule for primitive in primitives]
            lowered = known[key, stream] = Lowered(Program(leaves, primitives, results), dead, stream, rules)
            while len(known) > MOST_PROGRAMS:
                known.popitem(last=False)
            made = tuple(lowered.run(arrays))
        hold(results, made)
