"""Matches: primitives that a kernel replaces, and the program with the kernels in their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.passes.decode.uses import Uses
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Call, rebuild

__all__ = ["Match", "Replaced", "replaced_by"]

Replaced = Callable[[Any], Any]


@dataclass(frozen=True)
class Match:
    """Primitives that kernels replace.

    Attributes
    ----------
    results : tuple of Primitive
        Those whose results the kernels' results stand for, in the order of what `make` returns. The kernels are called
        in the place of the first of them in the program.
    others : tuple of Primitive
        Those that nothing else uses.
    reads : tuple of Array
        What the kernels read.
    writes : tuple of Array
        What they write.
    make : callable
        Calls the kernels, given a function that returns what stands for a value; returns what stands for each result.
    copies : tuple of Primitive
        Those whose work the kernels do as well; they stay for other users, or go as dead code.
    readers : tuple of Primitive, optional
        Those that read what the kernels read, where the others only show what they have made, or `unwritten`.
    unwritten : tuple of Array
        What the kernels read that no primitive of the program may write.
    """

    results: tuple[Primitive, ...]
    others: tuple[Primitive, ...]
    reads: tuple[Array, ...]
    writes: tuple[Array, ...]
    make: Callable[[Replaced], Sequence[Any]]
    copies: tuple[Primitive, ...] = ()
    readers: tuple[Primitive, ...] = ()
    unwritten: tuple[Array, ...] = ()


def replaced_by(program: Program, matches: Sequence[Match], uses: Uses) -> Program:
    """Return the program with kernels in the place of the primitives that they stand for."""
    if not matches:
        return program
    memory = Memory(program)
    chosen: dict[int, Match] = {}
    gone: set[int] = set()
    for match in matches:
        inside = {each.number for each in (*match.results, *match.others)}
        if not inside & gone and can_move(program, memory, uses, match, inside):
            chosen[first_of(match, uses).number] = match
            gone |= inside
    if not chosen:
        return program
    made: dict[int, Any] = {}

    def change(primitive: Primitive, call: Call, replaced: Replaced) -> list[Any]:
        match = chosen.get(primitive.number)
        if match is not None:
            made.update(zip((each.number for each in match.results), match.make(replaced)))
        if primitive.number in made:
            return [made[primitive.number]]
        return [] if primitive.number in gone else call()

    return rebuild(program, change)


def first_of(match: Match, uses: Uses) -> Primitive:
    """Return the primitive in whose place the kernels are called."""
    return min(match.results, key=lambda each: uses.places[each.number])


def can_move(program: Program, memory: Memory, uses: Uses, match: Match, inside: set[int]) -> bool:
    """Whether the operands are there, and nothing in between writes what is read, or touches what is written."""
    if any(not memory.is_constant(value) for value in match.unwritten):
        return False
    first = uses.places[first_of(match, uses).number]
    for value in (*match.reads, *match.writes):
        maker = uses.maker(value)
        if maker is not None and maker.number not in inside and uses.places[maker.number] >= first:
            return False
    reading = {each.number for each in match.readers} or inside
    moved = {*reading, first_of(match, uses).number, *(each.number for each in match.copies)}
    places = [uses.places[number] for number in moved]
    for primitive in program.primitives[min(places) : max(places)]:
        if primitive.number in inside:
            continue
        written = [primitive.inputs[i] for i in primitive.rule[2]]
        if any(memory.may_share(a, b) for a in written for b in (*match.reads, *match.writes)):
            return False
        if any(memory.may_share(a, b) for a in primitive.inputs for b in match.writes):
            return False
    return True
