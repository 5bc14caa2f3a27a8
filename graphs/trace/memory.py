"""Memory of programs: which values show the same, which of it comes from outside, and what is written."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program

__all__ = ["Memory"]


class Memory:
    """What is known of the memory that a program's values show.

    Parameters
    ----------
    program : Program
    is_apart : bool
        Whether inputs are known to share no memory, with each other or with what the program captured.

    Attributes
    ----------
    root : dict
        The number of the value whose memory a value shows, by number; its own where it is a view of nothing.
    written : set of int
        The roots that a primitive writes, and -1 where that is memory that the program captured.
    outside : set of int
        The roots that are the program's inputs.
    writes_outside : bool
        Whether a primitive writes an input or what the program captured.
    """

    def __init__(self, program: Program, *, is_apart: bool = False) -> None:
        self.is_apart = is_apart
        self.outside = {value.number for value in program.inputs}
        self.root = {number: number for number in self.outside}
        self.written: set[int] = set()
        for primitive in program.primitives:
            for i, (pattern, operand, _) in enumerate(primitive.rule[1]):
                if pattern is not None:
                    number = primitive.number + i
                    self.root[number] = number if operand < 0 else self.root_of(primitive.inputs[operand])
            self.written |= {self.root_of(primitive.inputs[i]) for i in primitive.rule[2]}
        self.writes_outside = bool(self.written & (self.outside | {-1}))

    def root_of(self, value: Array) -> int:
        """Return the root of a value; -1 for an array that the program captured."""
        return -1 if value.primitive is None else self.root[value.number]

    def shown_by(self, value: Array) -> set[int]:
        """Return the number of a value and that of its root, of those that are no captured arrays."""
        return set() if value.primitive is None else {value.number, self.root_of(value)} - {-1}

    def made_by(self, primitive: Primitive) -> set[int]:
        """Return the numbers of a primitive's results, views and new ones."""
        return {primitive.number + i for i, (pattern, _, _) in enumerate(primitive.rule[1]) if pattern is not None}

    def is_outside(self, value: Array) -> bool:
        """Whether a value shows memory that is not the program's own."""
        root = self.root_of(value)
        return root == -1 or root in self.outside

    def is_constant(self, value: Array) -> bool:
        """Whether no primitive writes what a value shows; arrays from outside may show each other's memory."""
        if self.is_outside(value):
            return not self.writes_outside
        return self.root_of(value) not in self.written

    def may_share(self, a: Array, b: Array) -> bool:
        """Whether two values may show the same memory; arrays from outside may, unless they are known to lie apart."""
        if self.root_of(a) == self.root_of(b):
            return True
        return not self.is_apart and self.is_outside(a) and self.is_outside(b)
