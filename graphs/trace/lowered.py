"""The programs of structures that came again, with the steps that run them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter

from hiprt.array import Array, empty
from hiprt.flags import flags
from hiprt.graphs.step import Step
from hiprt.graphs.trace.core import is_pinned
from hiprt.graphs.trace.growth import Outline, regrown
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.passes.in_place import in_place
from hiprt.graphs.trace.passes.states import states
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import rebuild
from hiprt.stream import Stream

__all__ = ["SMALL", "Lowered", "Name", "passed"]

SMALL = 64  # bytes of an input that is copied rather than patched
Name = tuple[bytes, Stream]  # the key of a structure, and the stream that runs it
address_of = attrgetter("address")


class Lowered:
    """The program of a structure, and the step that runs it.

    Parameters
    ----------
    outline : Outline
        Of the structure.
    program : Program
        What the passes made of it; its inputs are the leaves that are not constants, in order.
    name : tuple
        Its key, and the stream.
    leaves : list of Array
        Those of the cut.
    arrays : list of Array
        What they hold.
    constants : list of int
        The leaves that are taken to hold the same array each time, by place: the program captured what they hold.
    before : list of int
        The addresses of what the leaves held at an earlier call.
    is_gone : callable
        Is given the name when one of the constants has gone, from any thread.

    Attributes
    ----------
    cells : dict
        The small inputs that were another array at some call, by place: the step reads them from memory of its own,
        into which they are copied, so that it is replayed whatever they are.
    state : int
        The place of a large input that is written in place, such as a cache; -1 where there is none.
    state_address : int
        Where it was at the last call.
    """

    def __init__(
        self,
        outline: Outline,
        program: Program,
        name: Name,
        leaves: list[Array],
        arrays: list[Array],
        constants: list[int],
        before: list[int],
        is_gone: Callable[[Name], None],
    ) -> None:
        self.name, self.stream = name, name[1]
        self.outline, self.program, self.constants = outline, program, constants
        self.kept = kept_of(leaves, constants)
        self.pick = picker(constants)
        self.addresses = list(map(address_of, self.pick(arrays)))

        def note_gone(_: object) -> None:
            is_gone(name)

        self.alive = [weakref.ref(leaves[i], note_gone) for i in constants]
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
        # What an output shows stays where it is: a cell is written again by the next call.
        staying = roots.written | {roots.root_of(value) for value in self.program.outputs}
        self.small = [
            i
            for i, value in enumerate(self.program.inputs)
            if value.nbytes <= SMALL and value.number not in staying and value.is_contiguous
        ]
        self.latest = {i: before[self.kept[i]] for i in self.small}  # their addresses
        self.state = next((at for at in self.given if at >= 0 and self.program.inputs[at].nbytes > SMALL), -1)
        self.state_address = 0
        returned = [i for i, at in enumerate(self.given) if at < 0 or not self.is_plain]
        made = partial(run, self.program, returned)  # which does not hold the Lowered, so that both go at once
        captured = self.program.captured
        self.step: Step[..., tuple[Array, ...]] = Step(
            made, name="mlx.eval", stream=self.stream, moves=self.is_plain, captured=captured
        )

    def grown(self, outline: Outline, arrays: list[Array], constants: list[int]) -> Program | None:
        """Return the program of a structure that differs in the lengths of caches alone; None for another one."""
        if constants != self.constants or not self.fits(arrays) or not outline.is_grown(self.outline):
            return None
        if not outline.suits(self.program, self.kept):
            return None
        return regrown(self.program, [arrays[i] for i in self.kept])

    def fits(self, arrays: list[Array]) -> bool:
        """Whether the leaves hold the arrays that the program captured; what is captured is not freed meanwhile."""
        return list(map(address_of, self.pick(arrays))) == self.addresses

    def still(self, arrays: list[Array]) -> list[int]:
        """Return the constants of which that is true."""
        return [i for i, address in zip(self.constants, self.addresses) if arrays[i].address == address]

    def let_go(self) -> None:
        """Hold the memory of earlier calls no longer; the program is kept, and the next call makes a graph of it."""
        self.step.let_go()

    def run(self, arrays: list[Array]) -> list[Array]:
        """Return the outputs for what the leaves hold that are kept."""
        placed = list(arrays)
        if self.state >= 0:
            self.state_address = arrays[self.state].address
        for i in self.small:
            address = arrays[i].address
            if i not in self.cells and self.latest[i] != address:
                form = arrays[i].form
                self.cells[i] = empty(form.shape, form.dtype, self.stream)
            if i in self.cells:
                self.cells[i].copy_from(arrays[i], self.stream)
                placed[i] = self.cells[i]
            self.latest[i] = address
        rest = iter(self.step(*placed))
        return [arrays[at] if at >= 0 and self.is_plain else next(rest) for at in self.given]


def passed(program: Program, dead: bytes, arrays: list[Array], constants: list[int]) -> Program:
    """Return what the passes make of a cut's program, with constants in the place of leaves."""
    leaves = program.inputs
    names = set(flags.mlx_passes)
    simple, _ = improved(program, names & {"simplify"})
    fixed = {simple.inputs[i].number: arrays[i] for i in constants}
    copied = rebuild(simple, lambda _, call, __: call(), constants=fixed)
    written = {value.number for value, i in zip(copied.inputs, kept_of(leaves, constants)) if dead[i]}
    holders = {id(arrays[i]): leaves[i] for i in constants if not is_pinned(arrays[i])}
    placed = in_place(copied, written)
    numbered = {old.number: new.number for old, new in zip(copied.inputs, placed.inputs)}
    large = {numbered[value.number] for value in copied.inputs if value.number in written and value.nbytes > SMALL}
    made, _ = improved(states(placed, large), names - {"simplify"}, holders)
    return made


def kept_of(leaves: Sequence[Array], constants: list[int]) -> list[int]:
    """Return the places of the leaves that are no constants."""
    return sorted(set(range(len(leaves))) - set(constants))


def run(program: Program, returned: list[int], *arrays: Array) -> tuple[Array, ...]:
    """Run a program, and return some of its outputs."""
    found = program.run(*arrays)
    return tuple([found[i] for i in returned])


def picker(places: list[int]) -> Callable[[list[Array]], Sequence[Array]]:
    """Return what gives the items of a list at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: [items[i] for i in places]
