"""Fusion: elementwise ops that follow each other become one kernel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain
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


@dataclass(frozen=True, slots=True)
class Kind:
    """What calls with one rule have in common that can be parts of a fused kernel.

    Attributes
    ----------
    name : str
        The op's name.
    operands : slice
        Which of its arguments are operands.
    count : int
        How many these are.
    dtype : str
        What follows the operands in the op's line, a comma and a dtype; empty for most ops.
    shape : tuple of int
        The shape of its result, where the program was traced.
    out : int or None
        Which of the arrays it is given it writes its result to; None for a new array.
    """

    name: str
    operands: slice
    count: int
    dtype: str
    shape: tuple[int, ...]
    out: int | None


@dataclass(eq=False, slots=True)
class Member:
    """A primitive that can be a part of a fused kernel.

    Attributes
    ----------
    primitive : Primitive
    number : int
        The number of its result.
    kind : Kind
    """

    primitive: Primitive
    number: int
    kind: Kind

    @property
    def out(self) -> Array | None:
        """What it writes its result to; None for a new array."""
        return None if self.kind.out is None else self.primitive.inputs[self.kind.out]


class Group:
    """Members that become one kernel, in their order, and the call of `fused` that they make.

    Parameters
    ----------
    shape : tuple of int
        That of all their results.
    members : iterable of Member

    Attributes
    ----------
    operands : list of Array or number
        What the kernel is given.
    arrays : list of Array
        The arrays among these.
    numbers : int
        How often its ops are given a number.
    words : dict
        What the text calls operands, by their keys, and results, by their numbers.
    lines : list of str
        The text, a line for each member.
    """

    __slots__ = ("arrays", "lines", "members", "numbers", "operands", "shape", "words")

    def __init__(self, shape: tuple[int, ...], members: Iterable[Member] = ()) -> None:
        self.shape = shape
        self.members: list[Member] = []
        self.operands: list[Any] = []
        self.arrays: list[Array] = []
        self.numbers = 0
        self.words: dict[Any, str] = {}
        self.lines: list[str] = []
        for member in members:
            self.append(member)

    def fits(self, others: list[Group], member: Member) -> bool:
        """Whether one kernel could take this group with others, and a member that uses them all."""
        arrays, numbers, made = len(self.arrays), self.numbers, len(self.members)
        for other in others:
            arrays, numbers, made = arrays + len(other.arrays), numbers + other.numbers, made + len(other.members)
        more = member.kind.count
        return arrays + more < MOST_ARRAYS and numbers + more <= MOST_NUMBERS and made < MOST_OPS

    def append(self, member: Member) -> None:
        """Take a member in that comes after all others."""
        kind, words, given = member.kind, self.words, []
        for value in member.primitive.arguments[kind.operands]:
            key = (value.number or -id(value)) if isinstance(value, Array) else key_of(value)
            word = words.get(key)
            if type(key) is not int:
                self.numbers += 1
            elif word is None:
                self.arrays.append(value)
            if word is None:
                word = words[key] = f"x{len(self.operands)}"
                self.operands.append(value)
            given.append(word)
        made = words[member.number] = f"v{len(self.members)}"
        self.members.append(member)
        self.lines.append(f"{made} = {kind.name}({', '.join(given)}{kind.dtype})")


class Call(NamedTuple):
    """A group that becomes one call, and those of its members whose results something else uses."""

    group: Group
    results: list[Member]

    @property
    def text(self) -> str:
        """What the call of `fused` does."""
        made = ", ".join([self.group.words[member.number] for member in self.results])
        return "; ".join([*self.group.lines, f"return {made}"])


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
    kinds: dict[int, Kind | None] = {}  # by the id of the rule, which calls of an op with operands of one form share
    for primitive in program.primitives:
        rule = id(primitive.rule)
        if rule not in kinds:
            kinds[rule] = kind_of(primitive)
        kind = kinds[rule]
        if kind is not None:
            number = primitive.number
            (members if kind.out is None else writers)[number] = Member(primitive, number, kind)
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
        # An array that the program captured has the number 0, which no primitive has.
        self.used = {primitive.number: [v.number for v in primitive.inputs] for primitive in program.primitives}
        if self.is_shapeless:
            for primitive in program.primitives:
                self.used[primitive.number] += numbers_in(primitive.arguments)
        sizes = [number for guard in program.guards for number in numbers_in((guard.size, guard.other))]
        outputs = [value.number for value in program.outputs]
        self.uses = counted(chain(chain.from_iterable(self.used.values()), outputs, sizes))
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
                if self.group_of:
                    self.call_before(primitive)
                self.order.append(primitive)
            elif member.kind.out is None:
                self.join(member)
            else:
                self.close(member, member.primitive.inputs[member.kind.out])
        places.append(len(self.order))
        for group in dict.fromkeys(self.group_of.values()):
            self.call(group)
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
                arguments = each.group.operands, each.text, None
                rule = 1, result.primitive.rule[1], ()
                primitives.append(result.primitive.replaced(FUSED, arguments, tuple(each.group.arrays), rule))
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
                given, text = [new.replaced(v) for v in each.group.operands], each.text
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
        group_of = self.group_of
        for number in self.used[member.number]:
            group = group_of.get(number)
            if group is None or group in used:
                continue
            if group.shape == member.kind.shape:
                used.append(group)
            else:
                self.flush(group)
        while used and not used[0].fits(used[1:], member):
            largest = max(used, key=lambda group: len(group.arrays))
            self.flush(largest)
            used.remove(largest)
        group = used[0] if used else Group(member.kind.shape)
        if len(used) > 1:
            members = sorted([each for group in used for each in group.members], key=lambda each: each.number)
            group = Group(member.kind.shape, members)
            group_of.update({each.number: group for each in members})
        group.append(member)
        group_of[member.number] = group

    def close(self, member: Member, out: Array) -> None:
        """Let a member with `out` join the groups whose results it uses, and call them now."""
        assert self.memory is not None
        self.flush_holder(out.number)
        used = {self.group_of[number] for number in self.used[member.number] if number in self.group_of}
        read = [v for group in used for v in group.arrays]
        read += [v for v in member.primitive.arguments[member.kind.operands] if isinstance(v, Array)]
        shared = [v for v in read if self.memory.may_share(v, out)]
        # A kernel may read and write one array if it walks all arrays alike, and all results are of its dtype.
        is_flat = all(v.form.shape == member.kind.shape and v.form.is_contiguous for v in read) and all(
            pattern is not None and pattern.dtype == out.dtype
            for group in used
            for each in group.members
            for pattern, _, _ in each.primitive.rule[1]
        )
        is_alone = bool(shared) and not (is_flat and all(key_of(v) == key_of(out) for v in shared))
        for group in dict.fromkeys(self.group_of.values()):
            is_read = any(self.memory.may_share(v, out) for v in group.arrays)
            if (group in used and is_alone) or (group not in used and is_read):
                self.flush(group)
        self.join(member)
        self.flush_holder(member.number)

    def call_before(self, primitive: Primitive) -> None:
        """Call the groups that a primitive needs, or whose operands it writes."""
        for number in self.used[primitive.number]:
            if number in self.group_of:
                self.flush(self.group_of[number])
        if self.memory is not None and primitive.rule[2]:
            written = [primitive.inputs[i] for i in primitive.rule[2]]
            for group in dict.fromkeys(self.group_of.values()):
                if any(self.memory.may_share(value, array) for value in written for array in group.arrays):
                    self.flush(group)

    def flush_holder(self, number: int) -> None:
        """Call the group that makes a value, if one does that is not called yet."""
        if number in self.group_of:
            self.flush(self.group_of[number])

    def flush(self, group: Group) -> None:
        """Call a group now."""
        for member in group.members:
            del self.group_of[member.number]
        self.call(group)

    def call(self, group: Group) -> None:
        """Call a group, in parts where results are too many; members whose results nothing uses run as they are."""
        members = group.members
        if len(members) == 1:
            self.order.append(members[0].primitive)
            return
        inside = counted(chain.from_iterable([self.used[each.number] for each in members]))
        uses = self.uses
        results = [
            each for each in members if each.kind.out is not None or uses.get(each.number) != inside.get(each.number)
        ]
        if not results:
            self.order += [member.primitive for member in members]
        # A group that `fits` has room for one result.
        elif len(results) > 1 and len(group.arrays) + len(results) > MOST_ARRAYS:
            half = len(members) // 2
            self.call(Group(group.shape, members[:half]))
            self.call(Group(group.shape, members[half:]))
        else:
            self.order.append(Call(group, results))


def counted(numbers: Iterable[int]) -> dict[int, int]:
    """Return how often each number is there."""
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    return counts


def kind_of(primitive: Primitive) -> Kind | None:
    """Return what a primitive is in a group; None where it is no elementwise op, or writes an array with gaps."""
    if primitive.op is kernels.copyto:
        return kind_of_copy(primitive)
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
    operands, count = slice(fusable.operands), fusable.operands
    if not all(isinstance(value, OPERANDS) for value in primitive.arguments[operands]):
        return None
    made = pattern if out is None or pattern is not None else out
    assert made is not None
    dtype = f", {made.dtype}" if fusable.names_dtype else ""
    return Kind(name, operands, count, dtype, made.form.shape, writes[0] if writes else None)


def kind_of_copy(primitive: Primitive) -> Kind | None:
    """Return what a copy of an array to a contiguous one of its shape and dtype is in a group; None for others."""
    to, x = primitive.arguments
    if not primitive.rule[2]:  # an array is copied to itself
        return None
    is_right = isinstance(x, Array) and to.form.is_contiguous and to.form.shape == x.form.shape and to.dtype == x.dtype
    return Kind("contiguous", slice(1, 2), 1, "", to.form.shape, 0) if is_right else None


def key_of(operand: Any) -> Any:
    """Return what tells operands apart: a value's number, or a captured array's negative id; numbers by their bits."""
    if isinstance(operand, Array):
        return operand.number or -id(operand)  # captured ones have the number 0
    if type(operand) is Size:
        return Size, id(operand)
    return type(operand), operand or repr(operand)  # 0.0 equals -0.0
