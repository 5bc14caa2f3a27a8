"""Fusion: elementwise ops that follow each other become one kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program, numbers_in
from hiprt.graphs.trace.rebuild import Rebuilding
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.value import ShapelessValue
from hiprt.kernels.ops.elementwise.fused import FUSABLE, fused

__all__ = ["fusion"]

MOST_ARRAYS = 16  # that a kernel reads and writes
MOST_NUMBERS = 16
MOST_OPS = 64

NAMES = {id(fusable.op): name for name, fusable in FUSABLE.items()}
OPERANDS = (Array, bool, int, float, Size)


class Member(NamedTuple):
    """A primitive that can be a part of a fused kernel.

    Attributes
    ----------
    primitive : Primitive
    number : int
        The number of its result.
    name : str
        The op's name.
    operands : tuple
    dtype : str
        The dtype that the line names; empty for most ops.
    shape : tuple of int
        The shape of its result, where the program was traced.
    """

    primitive: Primitive
    number: int
    name: str
    operands: tuple[Any, ...]
    dtype: str
    shape: tuple[int, ...]


class Group:
    """Members that become one kernel, in their order.

    Attributes
    ----------
    members : list of Member
    made : set of int
        The numbers of their results.
    arrays : dict
        The arrays that the kernel reads, by number; captured ones by their negative id.
    numbers : int
        How many numbers it takes.
    """

    def __init__(self) -> None:
        self.members: list[Member] = []
        self.made: set[int] = set()
        self.arrays: dict[int, Array] = {}
        self.numbers = 0

    def fits(self, others: list[Group], member: Member) -> bool:
        """Whether one kernel could take this group with others, and a member that uses them all."""
        arrays, numbers, made = len(self.arrays), self.numbers, len(self.made)
        for other in others:
            arrays, numbers, made = arrays + len(other.arrays), numbers + other.numbers, made + len(other.made)
        more = len(member.operands)
        return arrays + more < MOST_ARRAYS and numbers + more <= MOST_NUMBERS and made < MOST_OPS

    def merge(self, other: Group) -> None:
        """Take another group in."""
        self.members = sorted([*self.members, *other.members], key=lambda each: each.number)
        self.made |= other.made
        self.arrays |= other.arrays
        self.numbers += other.numbers

    def append(self, member: Member) -> None:
        """Take a member in that comes after all others."""
        self.members.append(member)
        self.made.add(member.number)
        for value in member.operands:
            if not isinstance(value, Array):
                self.numbers += 1
            elif value.primitive is None:
                self.arrays[-id(value)] = value
            elif value.number not in self.made:
                self.arrays[value.number] = value


def fusion(program: Program) -> Program:
    """Return the program with elementwise ops of one shape, of which each uses others, as calls of `fused`.

    The ops run where the first primitive needs one of their results, or would write what they read. Results that others
    use are results of the kernel, so that nothing is computed twice. A kernel reads and writes at most `MOST_ARRAYS`
    arrays.
    """
    members = {primitive.number: member for primitive in program.primitives if (member := member_of(primitive))}
    inputs = [value.number for member in members.values() for value in member.primitive.inputs]
    return program if members.keys().isdisjoint(inputs) else Fusion(program, members).run()


class Fusion:
    """The pass on one program.

    Parameters
    ----------
    program : Program
    members : dict
        The primitives that can be parts of fused kernels, by number.
    """

    def __init__(self, program: Program, members: dict[int, Member]) -> None:
        self.program, self.members = program, members
        self.new = Rebuilding(program)
        self.group_of: dict[int, Group] = {}  # groups that wait to be called, by the numbers of their results
        self.is_shapeless = any(isinstance(value, ShapelessValue) for value in program.inputs)
        self.used = {primitive.number: self.used_by(primitive) for primitive in program.primitives}
        self.users: dict[int, set[int]] = {number: set() for number in members}  # -1 is no primitive
        for user, numbers in self.used.items():
            for number in numbers:
                if number in members:
                    self.users[number].add(user)
        last = {v.number for v in program.outputs if v.primitive is not None}
        last |= {number for guard in program.guards for number in numbers_in((guard.size, guard.other))}
        for number in last & self.users.keys():
            self.users[number].add(-1)
        has_writes = any(primitive.rule[2] for primitive in program.primitives)
        self.memory = Memory(program) if has_writes else None

    def used_by(self, primitive: Primitive) -> list[int]:
        """Return the numbers of the values that a primitive uses, or whose sizes it uses."""
        numbers = [value.number for value in primitive.inputs if value.primitive is not None]
        return numbers + list(numbers_in(primitive.arguments)) if self.is_shapeless else numbers

    def run(self) -> Program:
        """Return the program with groups as calls of `fused`; itself where no group has two members."""
        places: list[int] = []
        with self.new.trace.recording():
            for primitive in self.program.primitives:
                places.append(len(self.new.trace.primitives))
                member = self.members.get(primitive.number)
                if member is None:
                    self.call_before(primitive)
                    self.new.put(primitive, self.new.call(primitive))
                else:
                    self.join(member)
            places.append(len(self.new.trace.primitives))
            for group in dict.fromkeys(self.group_of.values()):
                self.call(group.members)
        is_same = len(self.new.trace.primitives) == len(self.program)
        return self.program if is_same else self.new.finished(places)

    def join(self, member: Member) -> None:
        """Let a member join the groups whose results it uses; those of other shapes are called first."""
        used: list[Group] = []
        for number in self.used[member.number]:
            group = self.group_of.get(number)
            if group is not None and group not in used:
                used.append(group)
        for group in used[:]:
            if group.members[0].shape != member.shape:
                self.flush(group)
                used.remove(group)
        while used and not used[0].fits(used[1:], member):
            largest = max(used, key=lambda group: len(group.arrays))
            self.flush(largest)
            used.remove(largest)
        group = used[0] if used else Group()
        for other in used[1:]:
            group.merge(other)
            self.group_of.update(dict.fromkeys(other.made, group))
        group.append(member)
        self.group_of[member.number] = group

    def call_before(self, primitive: Primitive) -> None:
        """Call the groups that a primitive needs, or whose operands it writes."""
        for number in self.used[primitive.number]:
            if number in self.group_of:
                self.flush(self.group_of[number])
        if self.memory is not None and primitive.rule[2] and self.group_of:
            written = [primitive.inputs[i] for i in primitive.rule[2]]
            for group in dict.fromkeys(self.group_of.values()):
                if any(self.memory.may_share(value, array) for value in written for array in group.arrays.values()):
                    self.flush(group)

    def flush(self, group: Group) -> None:
        """Call a group now."""
        for member in group.members:
            del self.group_of[member.number]
        self.call(group.members)

    def call(self, members: list[Member]) -> None:
        """Add the call of members to the new program: one of `fused`, or several where results are too many."""
        inside = {member.number for member in members}
        results = [member for member in members if not self.users[member.number] <= inside]
        operands: dict[Any, Any] = {}
        for member in members:
            for v in member.operands:
                key = key_of(v)
                if key not in inside:
                    operands.setdefault(key, v)
        arrays = sum(isinstance(v, Array) for v in operands.values())
        if len(members) == 1 or not results:
            for member in members:
                self.new.put(member.primitive, self.new.call(member.primitive))
            return
        if arrays + len(results) > MOST_ARRAYS:
            half = len(members) // 2
            self.call(members[:half])
            self.call(members[half:])
            return
        names = {key: f"x{i}" for i, key in enumerate(operands)}
        names |= {member.number: f"v{i}" for i, member in enumerate(members)}
        lines = []
        for member in members:
            words = [names[key_of(v)] for v in member.operands]
            if member.dtype:
                words.append(member.dtype)
            lines.append(f"{names[member.number]} = {member.name}({', '.join(words)})")
        lines.append(f"return {', '.join(names[member.number] for member in results)}")
        arguments = [self.new.replaced(v) for v in operands.values()], "; ".join(lines)
        # The ops one by one return such arrays, and so does the kernel.
        rule = 1, tuple(member.primitive.rule[1][0] for member in results), ()
        made = self.new.trace.add(fused, arguments, rule)
        for member, result in zip(results, made):
            self.new.put(member.primitive, [result])


def member_of(primitive: Primitive) -> Member | None:
    """Return a primitive as a member of a group; None where it is no elementwise op that returns a new array."""
    name = NAMES.get(id(primitive.op))
    if name is None or primitive.rule[0] or primitive.rule[2]:
        return None
    ((pattern, operand, _),) = primitive.rule[1]
    if pattern is None or operand >= 0:
        return None
    fusable = FUSABLE[name]
    operands = primitive.arguments[: fusable.operands]
    for value in operands:
        if not isinstance(value, OPERANDS):
            return None
    dtype = str(pattern.dtype) if fusable.names_dtype else ""
    return Member(primitive, primitive.number, name, operands, dtype, pattern.form.shape)


def key_of(operand: Any) -> Any:
    """Return what tells operands apart: a value's number, or a captured array's negative id; numbers by their bits."""
    if isinstance(operand, Array):
        return operand.number if operand.primitive is not None else -id(operand)
    return type(operand), id(operand) if type(operand) is Size else repr(operand)
