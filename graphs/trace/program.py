"""Programs: what a function does to arrays, as its primitives in order; they are printed, compared, and run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.buffer import Buffer, source_of
from hiprt.device import Device
from hiprt.flags import flags
from hiprt.graphs.record.extents import are_apart, coalesce
from hiprt.graphs.trace.core import ITSELF, Issue, Primitive, Trace, run
from hiprt.graphs.trace.issue import MOST_ARRAYS, noting, recording_on
from hiprt.graphs.trace.rehearsal import NO_DEVICE, Needed, RehearsalStream, Rule, rehearse, stand_in, substitute
from hiprt.graphs.trace.size import Guard, Size, size_text, value_of
from hiprt.graphs.trace.value import ShapelessValue
from hiprt.stream import Stream, current_stream

__all__ = ["GuardError", "Program", "call", "numbers_in"]

MOST_ISSUES = 8192  # that a program remembers


class Program:
    """The primitives of a function, with what it takes, what it captured, and what it returns.

    Parameters
    ----------
    inputs : sequence of Value
        What stands for the arrays that it is given.
    primitives : sequence of Primitive
        Each comes after those that it depends on, and they run in this order.
    outputs : sequence of Array
        Values, or arrays that it captured.
    guards : sequence of Guard
        Which answers about sizes the program is tied to.

    Attributes
    ----------
    captured : list of Array
        The arrays in memory that the primitives use, each once.
    notes : tuple
        What passes tell of it besides, as text when it is read.
    otherwise : Program or None
        What runs in its place where inputs share memory with each other, or with what it captured.
    """

    def __init__(
        self,
        inputs: Sequence[Array],
        primitives: Sequence[Primitive],
        outputs: Sequence[Array],
        guards: Sequence[Guard] = (),
    ) -> None:
        self.inputs, self.primitives, self.outputs = tuple(inputs), tuple(primitives), tuple(outputs)
        self.guards = tuple(guards)
        used = itertools.chain.from_iterable([*[primitive.inputs for primitive in self.primitives], self.outputs])
        self.captured = list({id(array): array for array in used if array.primitive is None}.values())
        self.notes: tuple[object, ...] = ()
        self.otherwise: Program | None = None
        self.issues: tuple[object, dict[Hashable, Issue]] = (None, {})
        self.taken: set[Hashable] = set()  # forms of inputs that were inferred before a run

    def __len__(self) -> int:
        return len(self.primitives)

    @cached_property
    def lasts(self) -> list[list[int]]:
        """For each primitive, the numbers of the values that nothing behind it uses."""
        return last_uses(self)

    @cached_property
    def is_general(self) -> bool:
        """Whether it takes arrays of other shapes."""
        return any(isinstance(value, ShapelessValue) for value in self.inputs)

    def run(self, *arrays: Array) -> tuple[Array, ...]:
        """Call the ops of all primitives with arrays in the place of the inputs, and return the outputs.

        Within a `hiprt.graphs.Step` this records; elsewhere it launches.

        Raises
        ------
        ValueError
            A primitive cannot take such shapes; nothing has run.
        """
        found = {value.number: array for value, array in zip(self.inputs, arrays)}
        # Within a trace or a rehearsal, calls of ops are noted by those.
        stream = current_stream() if Trace.current() is None else None
        if self.otherwise is not None and (stream is None or not self.is_apart(arrays)):
            return self.otherwise.run(*arrays)
        recording = recording_on(stream) if stream is not None and stream.written is None else None
        known = self.issues_on(stream) if stream is not None and recording is not None else None
        # Guards were held against the arrays already. Where an op refuses them at a recording's begin, nothing has run.
        is_new = recording is not None and not len(recording)
        if self.is_general and not self.guards and not is_new and stream is not None and stream.written is None:
            self.check(arrays)

        def size(part: Size) -> int:
            return value_of(part, lambda number, axis: found[number].shape[axis])

        def perform(
            _: int, primitive: Primitive, arguments: tuple[Any, ...], key: Hashable, operands: Sequence[Array]
        ) -> tuple[Any, ...]:
            if recording is None or known is None:
                return call(primitive, arguments)
            try:
                with noting(recording) as notes:
                    results = call(primitive, arguments)
            except (TypeError, ValueError, IndexError) as error:
                if not self.is_general:
                    raise
                raise refused(primitive, operands, error) from error
            remember(known, key, notes.issue(primitive, operands, results))
            return results

        run(self.primitives, self.lasts, found, known, size, Size, stream, source_of, perform)
        return tuple(value if value.primitive is None else found[value.number] for value in self.outputs)

    def is_apart(self, arrays: Sequence[Array]) -> bool:
        """Whether arrays share no memory with each other, and with what the program captured."""
        return are_apart([*(array.extent for array in arrays), *coalesce(array.extent for array in self.captured)])

    def issues_on(self, stream: Stream) -> dict[Hashable, Issue]:
        """Return what calls launched on a stream's device under the flags as they are."""
        state = stream.device, flags.version
        if self.issues[0] != state:
            self.issues = state, {}
        return self.issues[1]

    def holds_for(self, arrays: Sequence[Array]) -> bool:
        """Whether the guards hold for arrays of other shapes; ValueError as of `forms`, if there are guards."""
        if self.guards:
            try:
                self.forms(arrays)
            except GuardError:
                return False
        return True

    def check(self, arrays: Sequence[Array]) -> None:
        """Infer the forms of all outputs, once for each set of inputs' forms; errors as of `forms`."""
        key = tuple([array.form for array in arrays])
        if key not in self.taken:
            self.forms(arrays)
            if len(self.taken) >= MOST_ISSUES:
                self.taken.clear()
            self.taken.add(key)

    def forms(self, arrays: Sequence[Array], device: Device = NO_DEVICE, needed: Needed | None = None) -> list[Array]:
        """Infer the forms of all outputs for arrays of other shapes, without running anything.

        Parameters
        ----------
        arrays : sequence of Array
            What the program would be given; only the forms count.
        device : Device
            What plans see of the device.
        needed : list, optional
            It receives what returns the program of each kernel that would be launched there, for a provider.

        Returns
        -------
        list of Array
            Arrays of these forms, at addresses without memory.

        Raises
        ------
        GuardError
            The shapes answer a question of the traced function otherwise than when it was traced.
        ValueError
            A primitive cannot take such shapes; the message names it and the remedy.
        """
        if self.otherwise is not None and not self.is_apart(arrays):
            return self.otherwise.forms(arrays, device, needed)
        found = {value.number: stand_in(array, Buffer(0, 0, -1)) for value, array in zip(self.inputs, arrays)}

        def axis(number: int, axis: int) -> int:
            return found[number].shape[axis]

        def size(part: Size) -> int:
            return value_of(part, axis)

        waiting = list(self.guards)

        def perform(
            at: int, primitive: Primitive, arguments: tuple[Any, ...], key: Hashable, operands: Sequence[Array]
        ) -> tuple[Any, ...]:
            while waiting and waiting[0].at <= at:
                check(waiting.pop(0), axis)
            assert primitive.op is not None
            try:
                rule = rehearse(primitive.op, arguments, operands, device, needed)
            except (TypeError, ValueError, IndexError) as error:
                raise refused(primitive, operands, error) from error
            remember(known, key, issue_of(rule, len(operands)))
            return tuple(results_of(rule, operands))

        # The layers of a model have few calls of different forms.
        known: dict[Hashable, Issue] = {}
        nothing_ends: list[list[int]] = [[] for _ in self.primitives]
        run(self.primitives, nothing_ends, found, known, size, Size, RehearsalStream(device), source_of, perform)
        for guard in waiting:
            check(guard, axis)
        return [value if value.primitive is None else found[value.number] for value in self.outputs]

    def text(self) -> str:
        """Return the program as text, a line for each primitive."""
        names: dict[int, str] = {}
        arrays = {id(array): f"@{i}" for i, array in enumerate(self.captured)}

        def name(value: Array) -> str:
            return arrays[id(value)] if value.primitive is None else numbered(value.number)

        def numbered(number: int) -> str:
            return names.setdefault(number, f"%{len(names)}")

        taken = ", ".join(f"{name(value)}: {form_text(value)}" for value in self.inputs)
        lines = [f"program({taken})"]
        lines += [f"  {arrays[id(array)]}: {form_text(array)} captured" for array in self.captured]
        for primitive in self.primitives:
            called = call_text(primitive, name, numbered)
            made = [
                f"{numbered(primitive.number + i)}: {form_text(pattern)}"
                for i, (pattern, _, _) in enumerate(primitive.rule[1])
                if pattern is not None
            ]
            lines.append(f"  {', '.join(made)} = {called}" if made else f"  {called}")
        for guard in self.guards:
            asked = f"{size_text(guard.size, numbered)} {guard.test} {size_text(guard.other, numbered)}"
            lines.append(f"  assert {asked}" if guard.answer else f"  assert not {asked}")
        lines.append(f"  return {', '.join(name(value) for value in self.outputs)}".rstrip())
        return "\n".join(lines)

    __str__ = text


class GuardError(Exception):
    """A size answers otherwise than when the function was traced."""


def refused(primitive: Primitive, operands: Sequence[Array], error: Exception) -> ValueError:
    """Return the error of a primitive that cannot take the shapes of a call."""
    assert primitive.op is not None
    shapes = ", ".join(str(operand.shape) for operand in operands)
    return ValueError(
        f"[compile] {primitive.op.name} of the program cannot take the shapes {shapes}: {str(error).rstrip('.')}. A "
        "number that the traced function computed from a shape must be made from x.shape itself, without int(); or "
        "compile it, or export it, for each set of shapes, without shapeless=True."
    )


def check(guard: Guard, axis: Callable[[int, int], int]) -> None:
    """Raise GuardError where sizes give another answer."""
    if not guard.holds(axis):
        raise GuardError


def remember(known: dict[Hashable, Issue], key: Hashable, issue: Issue | None) -> None:
    """Remember the issue of a call, if it has one and its arguments can be a key."""
    if issue is not None and len(known) < MOST_ISSUES:
        with suppress(TypeError):
            known[key] = issue


def issue_of(rule: Rule, operands: int) -> Issue | None:
    """Return what gives a rule's results for other operands of the same forms; it launches nothing."""
    arrays = [(pattern, ITSELF if of < 0 else of, nbytes) for pattern, of, nbytes in rule[1] if pattern is not None]
    places = itertools.count(operands)
    results = tuple(None if pattern is None else next(places) for pattern, _, _ in rule[1])
    return Issue(Array, operands, (), tuple(arrays), (), results) if len(arrays) <= MOST_ARRAYS else None


def results_of(rule: Rule, operands: Sequence[Array]) -> list[Array | None]:
    """Return arrays like the results that a rule tells of; None for an operand itself."""
    made: list[Array | None] = []
    for pattern, operand, nbytes in rule[1]:
        if pattern is None:
            made.append(None)
        elif operand < 0:
            made.append(pattern)
        else:
            whole = operands[operand]
            form = pattern.form
            made.append(Array(whole.buffer, form.shape, form.dtype, whole.address + nbytes, form.strides))
    return made


def last_uses(program: Program) -> list[list[int]]:
    """Return, for each primitive, the numbers of the values that nothing behind it uses."""
    seen = {value.number for value in program.outputs if value.primitive is not None}
    lasts: list[list[int]] = []
    for primitive in reversed(program.primitives):
        numbers = {value.number for value in primitive.inputs if value.primitive is not None}
        if program.is_general:
            numbers |= numbers_in(primitive.arguments)
        numbers |= {primitive.number + i for i in range(len(primitive.rule[1]))}
        lasts.append(sorted(numbers - seen))
        seen |= numbers
    return lasts[::-1]


def call(primitive: Primitive, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Call a primitive's op, and return the results."""
    op = primitive.op
    assert op is not None
    named = dict(zip(op.names[op.positional :], arguments[op.positional :]))
    result = op(*arguments[: op.positional], **named)
    return tuple(result) if primitive.rule[0] else (result,)


def numbers_in(argument: Any) -> set[int]:
    """Return the numbers of the values whose axes the sizes in an argument stand for."""
    found: set[int] = set()

    def note(part: Any) -> Any:
        if type(part) is Size:
            if part.terms[0] == "axis":
                found.add(part.terms[1])
            else:
                note(part.terms[1])
                note(part.terms[2])
        return part

    substitute(argument, note)
    return found


def form_text(array: Array) -> str:
    """Return an array's dtype and shape, and its strides where it is not contiguous."""
    form = array.form
    gaps = "" if form.strides is None else f" strides {list(form.strides)}"
    return f"{form.dtype}{list(form.shape)}{gaps}"


def call_text(primitive: Primitive, name: Callable[[Array], str], numbered: Callable[[int], str]) -> str:
    """Return a primitive's call; an operand that is written has an exclamation mark."""
    op = primitive.op
    assert op is not None
    written = {id(primitive.inputs[i]) for i in primitive.rule[2]}

    def text(value: Any) -> str:
        if isinstance(value, Array):
            return name(value) + ("!" if id(value) in written else "")
        if type(value) is Size:
            return size_text(value, numbered)
        if isinstance(value, np.dtype):
            return str(value)
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, FunctionType):
            return value.__qualname__
        if type(value).__module__.startswith("hiprt.") and isinstance(getattr(value, "name", None), str):
            return str(value.name)
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {text(each)}" for key, each in value.items()) + "}"
        if isinstance(value, (tuple, list)):
            inside = ", ".join(map(text, value))
            end = "," if len(value) == 1 else ""
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{end})"
        if isinstance(value, slice):
            bounds = [text(bound) if bound is not None else "" for bound in (value.start, value.stop, value.step)]
            return ":".join(bounds[:2] if value.step is None else bounds)
        return "..." if value is ... else repr(value)

    given = []
    for i, (parameter, value, default) in enumerate(zip(op.names, primitive.arguments, op.defaults)):
        is_default = value is default or (
            type(value) is type(default) and not isinstance(value, Array) and value == default
        )
        if is_default and default is not ...:
            continue
        given.append(text(value) if i < op.positional else f"{parameter}={text(value)}")
    return f"{op.name}({', '.join(given)})"
