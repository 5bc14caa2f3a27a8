"""Fusion: elementwise ops that follow each other become one kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.memory import Memory
from hiprt.graphs.trace.program import Program, numbers_in
from hiprt.graphs.trace.rebuild import Rebuilding
from hiprt.graphs.trace.size import Size
from hiprt.graphs.trace.value import ShapelessValue
from hiprt.kernels.ops.elementwise.fused import FUSABLE, fused
from hiprt.op import Op

__all__ = ["fusion"]

MOST_ARRAYS = 16  # that a kernel reads and writes
MOST_NUMBERS = 16
MOST_OPS = 64

NAMES = {id(fusable.op): name for name, fusable in FUSABLE.items()}
FUSED = cast(Op, fused)
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
    out : Array or None
        What it writes its result to; None for a new array.
    """

    primitive: Primitive
    number: int
    name: str
    operands: tuple[Any, ...]
    dtype: str
    shape: tuple[int, ...]
    out: Array | None = None


class Call(NamedTuple):
    """Members that become one call, and those of them whose results something else uses."""

    members: list[Member]
    results: list[Member]


class Group:
    """Members that become one kernel, in their order.

    Parameters
    ----------
    shape : tuple of int
        That of all their results.

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

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
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

    An op with `out` is the last of its kernel. That arguments lie apart from each other, and from what the program
    captured, is taken for granted then: where they do not, the program with these ops by themselves runs.
    """
    members: dict[int, Member] = {}
    writers: dict[int, Member] = {}
    for primitive in program.primitives:
        member = member_of(primitive)
        if member is not None:
            (members if member.out is None else writers)[member.number] = member
    fused_apart = fused_program(program, members, is_apart=False)
    if not writers:
        return fused_apart
    made = fused_program(program, members | writers, is_apart=True)
    if made is program:
        return fused_apart
    made.otherwise = fused_apart
    return made


def fused_program(program: Program, members: dict[int, Member], *, is_apart: bool) -> Program:
    """Return the program with some members as parts of kernels; itself where none uses another."""
    inputs = [value.number for member in members.values() for value in member.primitive.inputs]
    return program if members.keys().isdisjoint(inputs) else Fusion(program, members, is_apart=is_apart).run()


class Fusion:
    """The pass on one program.

    Parameters
    ----------
    program : Program
    members : dict
        The primitives that can be parts of fused kernels, by number.
    is_apart : bool
        Whether inputs are known to share no memory.

    Attributes
    ----------
    order : list of (Primitive or Call)
        What the new program runs.
    """

    def __init__(self, program: Program, members: dict[int, Member], *, is_apart: bool) -> None:
        self.program, self.members = program, members
        self.order: list[Primitive | Call] = []
        self.group_of: dict[int, Group] = {}  # groups that wait to be called, by the numbers of their results
        self.is_shapeless = any(isinstance(value, ShapelessValue) for value in program.inputs)
        self.used = {
            primitive.number: [value.number for value in primitive.inputs if value.primitive is not None]
            for primitive in program.primitives
        }
        if self.is_shapeless:
            for primitive in program.primitives:
                self.used[primitive.number] += numbers_in(primitive.arguments)
        self.users: dict[int, set[int]] = {number: set() for number in members}  # -1 is no primitive
        users = self.users
        for user, numbers in self.used.items():
            for number in numbers:
                if number in users:
                    users[number].add(user)
        last = {v.number for v in program.outputs if v.primitive is not None}
        last |= {number for guard in program.guards for number in numbers_in((guard.size, guard.other))}
        for number in last & users.keys():
            users[number].add(-1)
        has_writes = any(primitive.rule[2] for primitive in program.primitives)
        self.memory = Memory(program, is_apart=is_apart) if has_writes else None

    def run(self) -> Program:
        """Return the program with groups as calls of `fused`; itself where no group has two members."""
        places: list[int] = []
        waiting = list(self.program.guards)
        for at, primitive in enumerate(self.program.primitives):
            while waiting and waiting[0].at <= at:
                guard = waiting.pop(0)
                # What is asked for the size of a value comes behind what makes it.
                for number in numbers_in((guard.size, guard.other)):
                    self.flush_holder(number)
            places.append(len(self.order))
            member = self.members.get(primitive.number)
            if member is None:
                self.call_before(primitive)
                self.order.append(primitive)
            elif member.out is None:
                self.join(member)
            else:
                self.close(member, member.out)
        places.append(len(self.order))
        for group in dict.fromkeys(self.group_of.values()):
            self.call(group.members, len(group.arrays))
        if len(self.order) == len(self.program):
            return self.program
        results = [each.results for each in self.order if isinstance(each, Call)]
        is_plain = all(len(made) == 1 and made[0].out is None for made in results)
        return self.spliced(places) if is_plain else self.rebuilt(places)

    def spliced(self, places: list[int]) -> Program:
        """Return the program with a call in the place of each group, which makes the only value that others use."""
        primitives = []
        for each in self.order:
            if isinstance(each, Call):
                (result,) = each.results
                operands, text = arguments_of(each)
                inputs = tuple([v for v in operands if isinstance(v, Array)])
                rule = 1, result.primitive.rule[1], ()
                primitives.append(result.primitive.replaced(FUSED, (operands, text, None), inputs, rule))
            else:
                primitives.append(each)
        guards = [replace(guard, at=places[guard.at]) for guard in self.program.guards]
        return Program(self.program.inputs, primitives, self.program.outputs, guards)

    def rebuilt(self, places: list[int]) -> Program:
        """Return the program traced again: the results of a call have numbers that follow each other."""
        new = Rebuilding(self.program)
        with new.trace.recording():
            for each in self.order:
                if not isinstance(each, Call):
                    new.put(each, new.call(each))
                    continue
                operands, text = arguments_of(each)
                given = [new.replaced(v) for v in operands]
                if any(member.out is not None for member in each.results):
                    made = fused(given, text, out=[new.replaced(member.out) for member in each.results])
                else:
                    # The ops one by one return such arrays, and so does the kernel.
                    rule = 1, tuple(member.primitive.rule[1][0] for member in each.results), ()
                    made = new.trace.add(fused, (given, text, None), rule)
                for member, result in zip(each.results, made):
                    new.put(member.primitive, [result])
        return new.finished(places)

    def join(self, member: Member) -> None:
        """Let a member join the groups whose results it uses; those of other shapes are called first."""
        used: list[Group] = []
        for number in self.used[member.number]:
            group = self.group_of.get(number)
            if group is not None and group not in used:
                used.append(group)
        for group in used[:]:
            if group.shape != member.shape:
                self.flush(group)
                used.remove(group)
        while used and not used[0].fits(used[1:], member):
            largest = max(used, key=lambda group: len(group.arrays))
            self.flush(largest)
            used.remove(largest)
        group = used[0] if used else Group(member.shape)
        for other in used[1:]:
            group.merge(other)
            self.group_of.update(dict.fromkeys(other.made, group))
        group.append(member)
        self.group_of[member.number] = group

    def close(self, member: Member, out: Array) -> None:
        """Let a member with `out` join the groups whose results it uses, and call them now."""
        assert self.memory is not None
        self.flush_holder(out.number)
        used = {self.group_of[number] for number in self.used[member.number] if number in self.group_of}
        read = [v for group in used for v in group.arrays.values()]
        read += [v for v in member.operands if isinstance(v, Array)]
        shared = [v for v in read if self.memory.may_share(v, out)]
        # A kernel may read and write one array if it walks all arrays alike, and all results are of its dtype.
        is_flat = all(v.form.shape == member.shape and v.form.is_contiguous for v in read) and all(
            pattern is not None and pattern.dtype == out.dtype
            for group in used
            for each in group.members
            for pattern, _, _ in each.primitive.rule[1]
        )
        is_alone = bool(shared) and not (is_flat and all(key_of(v) == key_of(out) for v in shared))
        for group in dict.fromkeys(self.group_of.values()):
            is_read = any(self.memory.may_share(v, out) for v in group.arrays.values())
            if (group in used and is_alone) or (group not in used and is_read):
                self.flush(group)
        self.join(member)
        self.flush_holder(member.number)

    def call_before(self, primitive: Primitive) -> None:
        """Call the groups that a primitive needs, or whose operands it writes."""
        for number in self.used[primitive.number]:
            self.flush_holder(number)
        if self.memory is not None and primitive.rule[2] and self.group_of:
            written = [primitive.inputs[i] for i in primitive.rule[2]]
            for group in dict.fromkeys(self.group_of.values()):
                if any(self.memory.may_share(value, array) for value in written for array in group.arrays.values()):
                    self.flush(group)

    def flush_holder(self, number: int) -> None:
        """Call the group that makes a value, if one does that is not called yet."""
        if number in self.group_of:
            self.flush(self.group_of[number])

    def flush(self, group: Group) -> None:
        """Call a group now."""
        for member in group.members:
            del self.group_of[member.number]
        self.call(group.members, len(group.arrays))

    def call(self, members: list[Member], arrays: int) -> None:
        """Call members now, as one or as several where results are too many; those that nothing uses as they are.

        They read no more than so many arrays that others make.
        """
        inside = {member.number for member in members}
        results = [each for each in members if each.out is not None or not self.users[each.number] <= inside]
        if len(members) == 1 or not results:
            self.order += [member.primitive for member in members]
            return
        # A group that `fits` has room for one result.
        if len(results) > 1 and arrays + len(results) > MOST_ARRAYS:
            half = len(members) // 2
            for part in (members[:half], members[half:]):
                made = {member.number for member in part}
                self.call(part, len(arrays_of(part) - made))
        else:
            self.order.append(Call(members, results))


def arrays_of(members: list[Member]) -> set[int]:
    """Return what tells the arrays apart that members use."""
    return {key_of(v) for member in members for v in member.operands if isinstance(v, Array)}


def arguments_of(call: Call) -> tuple[list[Any], str]:
    """Return what a call of `fused` is given: the operands, and the text of what it does."""
    names: dict[Any, str] = {member.number: f"v{i}" for i, member in enumerate(call.members)}
    operands: list[Any] = []
    lines = []
    for member in call.members:
        words = []
        for v in member.operands:
            key = v.number if isinstance(v, Array) and v.primitive is not None else key_of(v)
            word = names.get(key)
            if word is None:
                word = names[key] = f"x{len(operands)}"
                operands.append(v)
            words.append(word)
        if member.dtype:
            words.append(member.dtype)
        lines.append(f"{names[member.number]} = {member.name}({', '.join(words)})")
    lines.append(f"return {', '.join([names[member.number] for member in call.results])}")
    return operands, "; ".join(lines)


def member_of(primitive: Primitive) -> Member | None:
    """Return a primitive as a member of a group; None where it is no elementwise op, or writes an array with gaps."""
    if primitive.op is kernels.copyto:
        return copy_of(primitive)
    name = NAMES.get(id(primitive.op))
    if name is None:
        return None
    container, results, writes = primitive.rule
    if container or len(writes) > 1:
        return None
    ((pattern, operand, _),) = results
    out = primitive.inputs[writes[0]] if writes else None
    if out is None:
        if pattern is None or operand >= 0:
            return None
    elif not out.form.is_contiguous:
        return None
    fusable = FUSABLE[name]
    operands = primitive.arguments[: fusable.operands]
    for value in operands:
        if not isinstance(value, OPERANDS):
            return None
    made = pattern if out is None or pattern is not None else out
    assert made is not None
    dtype = str(made.dtype) if fusable.names_dtype else ""
    return Member(primitive, primitive.number, name, operands, dtype, made.form.shape, out)


def copy_of(primitive: Primitive) -> Member | None:
    """Return a copy of an array to a contiguous one of its shape and dtype as a member of a group."""
    to, x = primitive.arguments
    is_right = isinstance(x, Array) and to.form.is_contiguous and to.form.shape == x.form.shape and to.dtype == x.dtype
    return Member(primitive, primitive.number, "contiguous", (x,), "", to.form.shape, to) if is_right else None


def key_of(operand: Any) -> Any:
    """Return what tells operands apart: a value's number, or a captured array's negative id; numbers by their bits."""
    if isinstance(operand, Array):
        return operand.number if operand.primitive is not None else -id(operand)
    return type(operand), id(operand) if type(operand) is Size else repr(operand)
