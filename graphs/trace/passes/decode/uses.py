"""Which primitives of a program use which values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.program import Program, numbers_in
from hiprt.graphs.trace.value import ShapelessValue

__all__ = ["Uses", "argument", "is_plain"]


class Uses:
    """Which primitives of a program make and use which values.

    Attributes
    ----------
    users : dict
        The primitives that use a value, or the sizes of one, by its number.
    makers : dict
        The primitive that makes a value, by its number.
    places : dict
        The place of a primitive in the program, by its number.
    by_op : dict
        The calls of an op, in the program's order.
    returned : set of int
        The numbers of the values that the program returns, or whose sizes it is tied to.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        is_shapeless = any(isinstance(value, ShapelessValue) for value in program.inputs)
        self.users: defaultdict[int, list[Primitive]] = defaultdict(list)
        self.makers: dict[int, Primitive] = {}
        self.places = {primitive.number: i for i, primitive in enumerate(program.primitives)}
        self.by_op: defaultdict[Any, list[Primitive]] = defaultdict(list)
        for primitive in program.primitives:
            self.by_op[primitive.op].append(primitive)
            for i in range(len(primitive.rule[1])):
                self.makers[primitive.number + i] = primitive
            used = {value.number for value in primitive.inputs if value.primitive is not None}
            for number in used | (numbers_in(primitive.arguments) if is_shapeless else set()):
                self.users[number].append(primitive)
        self.returned = {value.number for value in program.outputs if value.primitive is not None}
        self.returned |= {number for guard in program.guards for number in numbers_in((guard.size, guard.other))}

    def value_of(self, primitive: Primitive) -> Array | None:
        """Return the first result of a primitive; None where nothing uses it."""
        used = [value for user in self.users[primitive.number] for value in user.inputs]
        found = [value for value in (*used, *self.program.outputs) if value.primitive is not None]
        return next((value for value in found if value.number == primitive.number), None)

    def maker(self, value: Any, op: Any = None) -> Primitive | None:
        """Return the primitive that makes a value, if it is a call of `op`; of any op where that is None."""
        if not isinstance(value, Array) or value.primitive is None:
            return None
        found = self.makers.get(value.number)
        return found if found is not None and (op is None or found.op is op) else None

    def only_user(self, primitive: Primitive, op: Any) -> Primitive | None:
        """Return the only primitive that uses the result of another, if it is a call of `op`."""
        users = self.users[primitive.number]
        if len(users) != 1 or primitive.number in self.returned or users[0].op is not op:
            return None
        return users[0]

    def first_user(self, primitive: Primitive, op: Any) -> Primitive | None:
        """Return the first primitive that uses the result of another and is a call of `op`."""
        return next((user for user in self.users[primitive.number] if user.op is op), None)

    def calls(self, *ops: Any) -> list[Primitive]:
        """Return the calls of some ops."""
        found = [primitive for op in ops for primitive in self.by_op[op]]
        return found if len(ops) == 1 else sorted(found, key=lambda each: self.places[each.number])

    def is_inside(self, made: Sequence[Primitive], users: Sequence[Primitive]) -> bool:
        """Whether nothing but some primitives uses what others make."""
        known = {primitive.number for primitive in users}
        return all(
            number not in self.returned and all(user.number in known for user in self.users[number])
            for each in made
            for number in range(each.number, each.number + len(each.rule[1]))
        )


def argument(primitive: Primitive, name: str) -> Any:
    """Return an argument of a primitive by its parameter's name."""
    assert primitive.op is not None
    return primitive.arguments[primitive.op.names.index(name)]


def is_plain(value: Any, dtype: Any) -> bool:
    """Whether an operand is as the kernels of decode steps take it."""
    return isinstance(value, Array) and bool(
        value.form.is_contiguous and value.form.is_aligned and value.dtype == dtype
    )
