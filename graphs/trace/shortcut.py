"""Shortcuts: programs that are found by a cut in which calls stand for those of recipes."""

from __future__ import annotations

import weakref
from collections import Counter

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.lowered import Lowered, Name
from hiprt.graphs.trace.passes.decode.matrices import moves

__all__ = ["Short", "Shortcut"]


class Short:
    """A cut in which calls stand for those of recipes; it holds nothing of it.

    Attributes
    ----------
    name : tuple
        Its key, and the stream.
    rules : list
        Those of the primitives, whose addresses are in the key.
    leaves : dict
        The places of the leaves, by id.
    dead : bytes
    results : list of int
        The ids of the results.
    is_apart : bool
        Whether none of the leaves is also a fixed array of such a call, so that it is another one each time.
    """

    def __init__(
        self,
        name: Name,
        primitives: list[Primitive],
        leaves: list[Array],
        dead: bytes,
        results: list[Array],
    ) -> None:
        self.name, self.dead = name, dead
        self.rules = [primitive.rule for primitive in primitives]
        self.leaves = {id(leaf): i for i, leaf in enumerate(leaves)}
        joint = [primitive for primitive in primitives if primitive.stamp]
        # One value may be both a fixed array and an input.
        fixed = Counter(id(part) for primitive in joint for part in primitive.arguments)
        fixed.subtract(id(part) for primitive in joint for part in primitive.inputs)
        self.is_apart = not any(fixed[leaf] for leaf in self.leaves)
        self.results = list(map(id, results))


class Shortcut:
    """The program of a structure in which calls stand for those of recipes, which need not be put there to run it.

    Parameters
    ----------
    lowered : Lowered
        The program.
    short : Short
    leaves, dead, results
        Those of the cut of the same values in which no call stands for others.

    Attributes
    ----------
    is_right : bool
        Whether both cuts need and may overwrite the same.
    """

    def __init__(self, lowered: Lowered, short: Short, leaves: list[Array], dead: bytes, results: list[Array]) -> None:
        self.name, self.lowered, self.moves = lowered.name, weakref.ref(lowered), moves.count
        self.rules = short.rules
        places = [short.leaves.get(id(leaf), -1) for leaf in leaves]
        self.places = [(i, places[i]) for i in lowered.kept]
        # What is not among the short cut's leaves is fixed: a recipe's constants, and the fixed arrays of the key.
        self.fixed = {i: leaves[i].primitive.arguments[0] for i in lowered.kept if places[i] < 0}
        self.constants = [(places[i], n) for i, n in zip(lowered.constants, lowered.addresses) if places[i] >= 0]
        self.captured = {id(leaves[i].primitive.arguments[0]) for i, place in enumerate(places) if place < 0}
        made = {id(value): i for i, value in enumerate(results)}
        self.order = [made.get(each, -1) for each in short.results]
        is_alike = all(bool(now) == bool(place >= 0 and short.dead[place]) for place, now in zip(places, dead))
        self.is_right = short.is_apart and is_alike and made.keys() == set(short.results)

    def run(self, leaves: list[Array], lowered: Lowered | None) -> tuple[Array, ...] | None:
        """Return what is computed of the leaves of a short cut; None where the program is not the one for them.

        Parameters
        ----------
        leaves : list of Array
        lowered : Lowered or None
            The program that has the name now.
        """
        if lowered is None or self.lowered() is not lowered or moves.count != self.moves:
            return None
        arrays = [leaf.primitive.arguments[0] for leaf in leaves]
        # An input that is also a fixed array makes another structure.
        if not self.captured.isdisjoint(map(id, arrays)):
            return None
        if any(arrays[place].address != address for place, address in self.constants):
            return None
        made = lowered.run([self.fixed[i] if place < 0 else arrays[place] for i, place in self.places])
        return tuple([made[i] for i in self.order])
