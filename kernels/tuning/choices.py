"""Choices: the ways to share out a kernel's work that were the fastest on a device without a measured table.

A choice is made once in a process, when a plan first asks for it, and holds until the process ends: a kernel that is
launched by itself and its node in a graph are shared out alike, and give the same bits. Another way may add up in
another order, so that its results differ by rounding. Times are kept on disk by library and device; later processes
take the same ways.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from hiprt import core, device_results, fork
from hiprt.array import Array, Form
from hiprt.buffer import Buffer, hip_malloc
from hiprt.device import Device
from hiprt.errors import HipError
from hiprt.event import Event
from hiprt.flags import flags
from hiprt.hip import call, lib
from hiprt.kernels.tuning.hold import hold
from hiprt.stream import Stream, current_stream, session_of_thread

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["MOST_WAYS", "SECONDS", "Choice", "Choices", "choose", "timed_choices"]

W = TypeVar("W")
# Launches one way, on a stream, with arrays for the operands by name.
Run = Callable[[Stream, dict[str, Any]], object]

SECONDS = 2.0  # that the choices of a model may take
MOST_WAYS = 4  # of a kernel, of which one is chosen
COLD = 1 << 28  # bytes of operands among which launches take turns, so that they find little of theirs in caches
MOST_COPIES = 32
LAUNCHES, ROUNDS = 8, 3
GAIN = 0.97  # of the time of the rules' way: another one must be faster by so much
PATTERN = 0x11  # a byte that makes small normal numbers, and positions behind every cache, all of which is read then
ALIGNMENT = 256


class Choice(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    name : str
        What is computed, and of which sizes.
    ways : tuple of str
        The ways, of which the first is that of the rules.
    us : tuple of float
        The microseconds of a launch each way; empty where the ways were not timed.
    taken : int
        The index of the way that is taken.
    reason : str
        ``timed``, ``kept`` (an earlier process timed the ways), or why the rules' way is taken.
    """

    name: str
    ways: tuple[str, ...]
    us: tuple[float, ...]
    taken: int
    reason: str


class Thread(threading.local):
    """Until when a thread may time ways, by the monotonic clock; None where it may not."""

    until: float | None = None


thread = Thread()


@contextmanager
def timed_choices(seconds: float = SECONDS) -> Iterator[None]:
    """Let ops that this thread calls in the block time the ways that they can take, where no table says which.

    Engines run a token op by op in such a block before they record a step. What was timed before, also by an earlier
    process, is not timed again; a device with a measured table, and the CPU device, time nothing (``HIPRT_TUNE``).

    Parameters
    ----------
    seconds : float
        After this time nothing more is timed: what is left takes the rules' way in this process.

    Raises
    ------
    RuntimeError
        The thread records a step, or its stream is being captured.
    """
    capture = core.ffi.new("int *")
    call(lib.hipStreamIsCapturing(current_stream().raw, capture))
    if session_of_thread() is not None or capture[0]:
        raise RuntimeError("timed_choices: nothing runs while a step records or a stream is captured; time before that")
    before, thread.until = thread.until, time.monotonic() + seconds
    try:
        yield
    finally:
        thread.until = before


class Choices:
    """The choices of a device.

    Parameters
    ----------
    device : Device
    is_generic : bool
        Whether they are about the branch of cooperating lanes on a device that would take plain loops.
    """

    def __init__(self, device: Device, *, is_generic: bool = False) -> None:
        self.device, self.is_generic = device, is_generic
        self.lock = fork.lock()
        self.made: dict[str, Choice] = {}

    @property
    def are_wanted(self) -> bool:
        """Whether plans take choices on this device: not on the CPU device, unless that is asked for."""
        return flags.tune == "1" or (flags.tune == "auto" and not self.device.provider.is_host)

    @property
    def file(self) -> Path:
        """Where times are kept."""
        return device_results.file_of("choices", self.device, self.is_generic)

    def of(self, name: str, ways: Sequence[W], operands: Mapping[str, Form | None], run: Callable[[W], Run]) -> W:
        """Return the way to take, which is the same for a name as long as the process runs.

        Parameters
        ----------
        name : str
            What is computed, and of which sizes.
        ways : sequence
            The ways, that of the rules first.
        operands : mapping of str to Form
            The forms of the arrays that a launch takes, None where one is not given.
        run : callable
            Takes a way; returns what launches it.
        """
        with self.lock:
            found = self.made.get(name)
            if found is None:
                found = self.made[name] = self.make(name, ways, operands, run)
        # Calls that share a name may have the ways in another order, as their rules differ.
        return next((way for way in ways if found.us and str(way) == found.ways[found.taken]), ways[0])

    def make(
        self, name: str, ways: Sequence[W], operands: Mapping[str, Form | None], run: Callable[[W], Run]
    ) -> Choice:
        """Make a choice: by times that are kept, by timing where the thread may, or by the rules."""
        words, kept = tuple(map(str, ways)), device_results.load(self.file)
        us = times_of(kept, name, words)
        if us:
            return Choice(name, words, us, best(us), "kept")
        if thread.until is None or session_of_thread() is not None:
            return Choice(name, words, (), 0, "first used where nothing is timed")
        try:
            us = self.times(ways, operands, run, thread.until)
        except (HipError, MemoryError) as error:
            return Choice(name, words, (), 0, f"not timed: {error}")
        if not us:
            return Choice(name, words, (), 0, "the time was up")
        others = kept if isinstance(kept, dict) else {}
        device_results.store(self.file, {**others, name: dict(zip(words, us))})
        return Choice(name, words, us, best(us), "timed")

    def times(
        self, ways: Sequence[W], operands: Mapping[str, Form | None], run: Callable[[W], Run], until: float
    ) -> tuple[float, ...]:
        """Return the microseconds of a launch each way; nothing if the time is up before all have been launched.

        Where it is up after that, a single round counts.
        """
        nbytes = sum(padded(form) for form in operands.values() if form is not None)
        copies = max(1, min(MOST_COPIES, COLD // max(nbytes, 1)))
        with Stream(self.device) as stream:
            # Memory of its own: what a pool gives away here would stay in the pool.
            memory = hip_malloc(nbytes * copies, stream)
            stream.fill(memory.address, PATTERN, 1, nbytes * copies, to=memory)
            sets = [laid_out(operands, memory, i * nbytes) for i in range(copies)]
            launches = []
            for way in ways:
                if time.monotonic() >= until:
                    return ()
                launch = run(way)
                launch(stream, sets[0])
                stream.synchronize()
                launches.append(launch)
            rounds = list[list[float]]()
            while len(rounds) < ROUNDS and (not rounds or time.monotonic() < until):
                rounds.append([launch_us(stream, launch, sets) for launch in launches])
            return tuple(round(min(each), 3) for each in zip(*rounds))


def choose(
    target: Target,
    name: str,
    ways: Sequence[W],
    operands: Mapping[str, Form | None],
    run: Callable[[W], Run],
) -> W:
    """Return the way that a target takes: the rules', which is the first, where nothing is chosen by timing."""
    choices = target.choices
    if choices is None or len(ways) < 2 or not choices.are_wanted:
        return ways[0]
    return choices.of(name, ways, operands, run)


def best(us: Sequence[float]) -> int:
    """Return the index of the way to take by its time."""
    fastest = min(us)
    return us.index(fastest) if fastest < GAIN * us[0] else 0


def times_of(kept: Any, name: str, ways: tuple[str, ...]) -> tuple[float, ...]:
    """Return the times that a file keeps of exactly these ways; nothing where it keeps no such times."""
    found = kept.get(name) if isinstance(kept, dict) else None
    if not isinstance(found, dict) or found.keys() != set(ways):
        return ()
    us = tuple(found[way] for way in ways)
    return us if all(type(each) is float and each >= 0 for each in us) else ()


def padded(form: Form) -> int:
    """Return the bytes that an array takes, up to where the next one may begin."""
    return -(-form.span * form.dtype.itemsize // ALIGNMENT) * ALIGNMENT


def laid_out(operands: Mapping[str, Form | None], memory: Buffer, offset: int) -> dict[str, Any]:
    """Return arrays of these forms, one behind the other in memory from an offset on."""
    made: dict[str, Any] = dict.fromkeys(operands)
    for name, form in operands.items():
        if form is not None:
            made[name] = Array(memory, form.shape, form.dtype, memory.address + offset, form.strides)
            offset += padded(form)
    return made


def launch_us(stream: Stream, launch: Run, sets: Sequence[dict[str, Any]]) -> float:
    """Return the microseconds of a launch, on the average of some that take turns among the sets of operands."""
    start, end = Event(), Event()
    try:
        hold(stream, LAUNCHES)
        start.record(stream)
        for i in range(LAUNCHES):
            launch(stream, sets[i % len(sets)])
        end.record(stream)
        end.synchronize()
        return end.elapsed_ms(start) * 1e3 / LAUNCHES
    finally:
        start.close()
        end.close()
