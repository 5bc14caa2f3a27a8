"""Drafts: recordings of calls, of which recipes are made once two calls have given the same."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace import core
from hiprt.graphs.trace.recipes.pattern import ARRAY, PLAIN, Pattern

__all__ = ["Draft"]

Sum = tuple[int, int, tuple[tuple[int, int], ...]]  # a constant, how it compares with 0, slots and their factors
SMALL = 4096  # bytes of a constant that is compared by its contents


class Draft:
    """A recording of one call.

    Parameters
    ----------
    pattern : Pattern
    *parts : object
        What a `core.Recipe` is made of, where the sums have numbers of sizes behind those of integers.

    Attributes
    ----------
    integers : int
        How many integers there are.
    sizes, caches
        See `Pattern`.
    """

    def __init__(self, pattern: Pattern, *parts: Any) -> None:
        self.parts = parts
        self.integers, self.sizes, self.caches = len(pattern.integers), pattern.sizes, pattern.caches
        # Calls for caches of other lengths differ in little else, and far behind.
        self.forms = [node[1] for node in parts[0] if node[0] == ARRAY]

    def equals(self, other: Draft) -> bool:
        """Whether another call gave the same recording."""
        return (
            len(self.forms) == len(other.forms)
            and all(map(is_, self.forms, other.forms))
            and core.alike(self.parts, other.parts, same)
        )

    def recipe(self) -> core.Recipe:
        """Return the recipe."""
        nodes, sums, *rest = self.parts
        return core.Recipe(nodes, self.folded(sums, self.sizes), *rest)

    def folded(self, sums: Sequence[Sum], sizes: Sequence[int]) -> tuple[Sum, ...]:
        """Return sums with numbers in the place of sizes."""
        return tuple([self.with_sizes(each, sizes) for each in sums])

    def with_sizes(self, found: Sum, sizes: Sequence[int]) -> Sum:
        """Return a sum with numbers in the place of sizes."""
        constant, test, terms = found
        if all(slot < self.integers for slot, _ in terms):
            return found
        constant += sum(times * sizes[slot - self.integers] for slot, times in terms if slot >= self.integers)
        return constant, test, tuple([term for term in terms if term[0] < self.integers])


def same(a: Any, b: Any) -> bool:
    """Whether constants of two recordings, of one type and no tuples, mean the same."""
    if type(a) is float:
        return bool(a.hex() == b.hex())
    if isinstance(a, Array):
        return same_contents(a, b)
    return isinstance(a, PLAIN) and bool(a == b)


def same_contents(a: Array, b: Array) -> bool:
    """Whether two values hold small arrays of the same bytes."""
    first, second = (each.primitive for each in (a, b))
    if first is None or second is None or first.op is not None or second.op is not None or a.form is not b.form:
        return False
    if a.nbytes > SMALL:
        return False
    here, there = (each.arguments[0].numpy().tobytes() for each in (first, second))
    return bool(here == there)
