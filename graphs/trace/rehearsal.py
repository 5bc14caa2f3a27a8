"""Rehearsals: calls of ops that launch nothing, to learn what they return and write for operands of some form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.code_folder import Source
from hiprt.device import Device
from hiprt.kernels.tuning.target import describe
from hiprt.op import Op
from hiprt.provider import CPU, Provider
from hiprt.stream import Stream

__all__ = ["Needed", "RehearsalStream", "Rule", "rehearse", "stand_in", "substitute"]

# What a call returns (0: a result, 1: a tuple, 2: a list), each result, and the operands that it writes. A result is
# an array like it (None: an operand itself, or None), the operand whose memory it shows (-1: new memory), and how many
# bytes behind that operand's address it begins.
Rule = tuple[int, tuple[tuple[Array | None, int, int], ...], tuple[int, ...]]
Needed = list[Callable[[Provider], Source]]
ALIGNMENT = 256
# Results do not depend on the device, so that programs are made without one.
NO_DEVICE = Device(-1, "no device", "none", 32, 0, 1, CPU)
describe(NO_DEVICE)  # plans ask for its target in the first rehearsal


class Memory:
    """Hands out addresses at which there is no memory, each once in the life of the process."""

    def __init__(self) -> None:
        self.next = 1 << 61

    def allocate(self, nbytes: int, _stream: Stream) -> Buffer:
        """Return a buffer of this size."""
        address = self.next
        self.next += -(-nbytes // ALIGNMENT) * ALIGNMENT + ALIGNMENT
        return Buffer(address, nbytes, NO_DEVICE.index)


memory = Memory()


class RehearsalStream(Stream):
    """A stream on which nothing runs.

    Attributes
    ----------
    written : list of Array
        The arrays that launches would have written.
    needed : list of callable, optional
        It receives, for each launch, what returns the program of its kernel for a provider.
    """

    def __init__(self, device: Device = NO_DEVICE, needed: Needed | None = None) -> None:
        self.device, self.memory, self.written = device, memory, []
        self.needed = needed
        self.plans_launches = needed is not None
        self.is_open = False
        self.extents: list[tuple[int, int]] = []

    def copy(self, target: int, source: int, nbytes: int, kind: int, *, to: Any = None, of: Any = None) -> None:
        """Note what a copy would write."""
        self.extents.append((target, target + nbytes))

    def need(self, source: Callable[[Provider], Source]) -> None:
        """Note the program of a kernel that would be launched."""
        if self.needed is not None:
            self.needed.append(source)

    def fill(self, target: int, value: int, width: int, count: int, *, to: Any = None) -> None:
        """Note what a fill would write."""
        self.extents.append((target, target + width * count))

    def outside(self, reason: str, array: Any = None) -> AbstractContextManager[None]:
        """Return a block of nothing: what the thread records is not concerned."""
        return nullcontext()

    def barrier(self) -> None:
        """Order nothing."""

    def synchronize(self) -> None:
        """Wait for nothing."""


def stand_in(array: Array, buffer: Buffer) -> Array:
    """Return an array of the form and at the address of a value."""
    form = array.form
    start = Array.address.__get__(array)
    return Array(buffer, form.shape, form.dtype, start, form.strides)


def substitute(argument: Any, replaced: Any) -> Any:
    """Return a primitive's argument with ``replaced(part)`` in the place of each part of its lists."""
    kind = type(argument)
    if kind is tuple or kind is list:
        return kind([substitute(each, replaced) for each in argument])
    if kind is dict:
        return {name: substitute(each, replaced) for name, each in argument.items()}
    if kind is slice:
        return slice(replaced(argument.start), replaced(argument.stop), replaced(argument.step))
    return replaced(argument)


def rehearse(
    op: Op,
    arguments: tuple[Any, ...],
    operands: Sequence[Array],
    device: Device = NO_DEVICE,
    needed: Needed | None = None,
) -> Rule:
    """Call an op where launches do nothing.

    Parameters
    ----------
    op : Op
    arguments : tuple
        One for each of the op's parameters; arrays that are not in memory are among them.
    operands : sequence of Array
        The arrays in the arguments, in order.
    device : Device
        What plans see of the device.
    needed : list, optional
        As for `RehearsalStream`.

    Raises
    ------
    TypeError, ValueError
        The op refuses the arguments.
    """
    stream = RehearsalStream(device, needed)
    named = dict(zip(op.names[op.positional :], arguments[op.positional :]))
    before = Stream.choose(stream)
    try:
        result = op.function(*arguments[: op.positional], **named)
    finally:
        Stream.choose(before)
    written = [array.extent for array in stream.written or ()] + stream.extents
    kind = 1 if isinstance(result, tuple) else 2 if isinstance(result, list) else 0
    results = list(result) if kind else [result]
    writes = tuple([i for i, operand in enumerate(operands) if overlaps(operand.extent, written)])
    return kind, tuple([described(op, each, operands, writes) for each in results]), writes


def overlaps(extent: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether an extent has a byte in common with one of others."""
    first, last = extent
    return any(start < last and first < end for start, end in others)


def described(op: Op, result: Any, operands: Sequence[Array], writes: tuple[int, ...]) -> tuple[Array | None, int, int]:
    """Return a result as a rule has it. An operand that is only read counts as a view, which it is for this form."""
    if result is None:
        return None, -1, 0
    if not isinstance(result, Array):
        raise TypeError(f"{op.name} returns a {type(result).__name__} in a traced function; arrays are needed")
    for i, operand in enumerate(operands):
        if result is operand and i in writes:
            return None, i, 0
    for i, operand in enumerate(operands):
        if result.buffer is operand.buffer:
            return pattern(result), i, result.address - operand.address
    return pattern(result), -1, 0


def pattern(array: Array) -> Array:
    """Return an array that has its form at hand, as the C core needs it."""
    assert array.form is not None
    return array
