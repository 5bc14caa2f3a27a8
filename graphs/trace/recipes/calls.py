"""The calls of ops that made some values, in the form in which a recipe makes them again."""

from __future__ import annotations

from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace import core
from hiprt.graphs.trace.integer import Recording
from hiprt.graphs.trace.prefixes import positions
from hiprt.graphs.trace.recipes.pattern import Pattern, RefusedError, is_grown
from hiprt.graphs.trace.recipes.template import argument

__all__ = ["Calls"]

INPUT, FIXED, UNUSED = range(3)  # what an array is to the calls


class Calls:
    """The calls of ops that made some values.

    Parameters
    ----------
    values : list of Array
        Those that were given.
    recording : Recording
    first : int
        Values with smaller numbers were there before.

    Attributes
    ----------
    place : dict
        The places of values, by number.
    """

    def __init__(self, values: list[Array], recording: Recording, first: int) -> None:
        self.place, self.first = {value.number: i for i, value in enumerate(values)}, first
        self.positions = {id(value): key for key, value in recording.positions.items()}
        self.primitives: dict[int, core.Primitive] = {}
        self.leaves: dict[int, Array] = {}

    def follow(self, values: list[Array]) -> None:
        """Find the calls that make values, and what these depend on."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            maker: Any = value.primitive
            if value.number in self.place or id(value) in self.leaves:
                continue
            if maker is None or maker.number < self.first:
                if positions.get(id(value)) is not value:
                    raise RefusedError("an array is read that nothing leads to")
                self.leaves[id(value)] = value
            elif maker.op is None:
                self.leaves[id(value)] = value
            elif id(maker) not in self.primitives:
                self.primitives[id(maker)] = maker
                waiting += maker.inputs

    def leaves_in_order(self, given: int) -> tuple[list[Array], list[Any]]:
        """Give places to the leaves behind the values that were given; return the constants, and what positions are."""
        constants = [value for key, value in self.leaves.items() if key not in self.positions]
        counted = [value for key, value in self.leaves.items() if key in self.positions]
        for i, value in enumerate([*constants, *counted], given):
            self.place[value.number] = i
        return constants, [self.positions[id(value)] for value in counted]

    def in_order(self) -> list[tuple[Any, ...]]:
        """Give places to the results of all calls, and return these in order."""
        at, found = len(self.place), []
        hashes: dict[int, int] = {}
        for maker in sorted(self.primitives.values(), key=lambda each: each.number):
            inputs = tuple([self.place[value.number] for value in maker.inputs])
            following = iter(inputs)  # the arrays in the arguments, in order
            arguments = tuple([argument(part, following) for part in maker.arguments])
            # Calls that make the same values have one number.
            found.append((maker.op, maker.rule, hashes.setdefault(maker.hash, len(hashes)), arguments, inputs))
            for i in range(len(maker.rule[1])):
                self.place[maker.number + i] = at
                at += 1
        return found

    def roles(self, pattern: Pattern) -> tuple[int, ...]:
        """Return what each array that was given is to the calls."""
        used = {id(value) for maker in self.primitives.values() for value in maker.inputs}
        places = enumerate(pattern.values)
        return tuple([UNUSED if id(each) not in used else FIXED if i in pattern.fixed else INPUT for i, each in places])

    def joint(self, values: list[Array]) -> tuple[tuple[Any, ...] | None, tuple[int, ...]]:
        """Return the rule of one call that makes values as all calls do, None where there is none, and their places."""
        made = {self.place_of(value): value for value in values if id(value.primitive) in self.primitives}
        makers: list[Any] = [value.primitive for value in made.values()]
        if not makers or any(maker.prefix for maker in makers):
            return None, ()
        forms = [maker.rule[1][value.number - maker.number][0] for maker, value in zip(makers, made.values())]
        rule = 1, tuple([(form, -1, 0) for form in forms]), (), tuple(map(is_grown, made.values()))
        return rule, tuple(made)

    def place_of(self, value: Array) -> int:
        """Return the place of a value."""
        return self.place[value.number]
