"""Sessions: one pass over a step's function while its stream records, in as many parts as that takes.

A part ends when the recording has reached its bound (``HIPRT_GRAPH_MAX_NODES``, ``HIPRT_GRAPH_MAX_BYTES``), or around
work that cannot be a node, such as a host read. Each part is launched as soon as it ends.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from hiprt import core
from hiprt.allocator import Arena, Pool, default_pool
from hiprt.array import Array
from hiprt.buffer import Buffer
from hiprt.caller import caller
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.flags import flags
from hiprt.graphs.arguments import Why
from hiprt.graphs.record.captured import REMEDY, Claims, claims_of
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Event
from hiprt.module import READ
from hiprt.stream import Move, Stream, thread

if TYPE_CHECKING:
    from hiprt.graphs.launch.exec import Exec
    from hiprt.graphs.launch.kept_call import Segment
    from hiprt.graphs.launch.ladder import Ladder
    from hiprt.graphs.launch.part import Part

__all__ = ["EARLIER", "Session", "forced", "why_forced"]

EARLIER = "earlier parts of the step have run"
UNCAPTURED = (401, 900)  # hipErrorIllegalState, hipErrorStreamCaptureUnsupported
NULL_STREAMS = (0, 1, 2)  # the default stream, hipStreamLegacy, hipStreamPerThread

HOW_TO_AVOID = {
    "host read of an array": "read it behind the step, or decide on the device",
    "host write of an array": "write before the step",
    "synchronize": "wait behind the step",
}


class Session:
    """Records on a stream and launches what was recorded.

    Parameters
    ----------
    ladder : Ladder
        Launches the parts.
    stream : Stream
        Records, and runs what is launched.
    reserve : bool
        Whether the execs will be launched again as they are, so that they must not be patched for other recordings.
    key : hashable, optional
        The caller's name of the topology.
    why : callable, optional
        Returns what the step was given that it was not given before.
    slots : int, optional
        The most execs that recordings of one topology may take turns in.
    is_ahead : bool
        Whether nothing is launched: the execs of calls to come are begun.
    eager : str
        Why everything is launched eagerly; empty where it is not.

    Attributes
    ----------
    segments : list of Segment
        What was launched, in order.
    parts : list of Part or Recording
        What was begun instead, in order, if the session `is_ahead`.
    is_whole : bool
        Whether nothing but recorded launches happened, so that the segments can be launched again without the function.
    """

    def __init__(
        self,
        ladder: Ladder,
        stream: Stream,
        *,
        reserve: bool = False,
        key: Hashable = None,
        why: Why | None = None,
        slots: int | None = None,
        is_ahead: bool = False,
        eager: str = "",
    ) -> None:
        self.ladder = ladder
        self.reserve = reserve
        self.held: list[Exec] = []
        # A reserved exec writes its intermediates at every replay, so it shares their memory with no other call.
        self.pool = Pool(default_pool.allocate, ladder.name) if reserve else ladder.memory
        self.extended = self.pool.extended
        # Only a pool puts red zones between buffers, and only an arena lays them out by plan.
        # Other code is given addresses, which an arena decides only when the recording ends.
        self.arena: Arena | None = None
        if reserve and flags.alloc_plan and not flags.alloc_poison and not ladder.has_foreign:
            self.arena = Arena(default_pool.allocate, ladder.name)
        self.stream = stream
        self.key = key
        self.why = why
        self.slots = slots
        self.is_ahead = is_ahead
        self.eager = eager
        self.segments: list[Segment] = []
        self.parts: list[Part | Recording] = []
        self.is_whole = True
        self.offset = 0
        self.recording: Recording | None = None
        self.thread = threading.get_ident()
        self.is_listening = False
        self.claims: Claims | None = None

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record what this thread launches on the stream within the block, and launch it at its end.

        After an exception nothing more is launched; parts that had ended before it were.

        Raises
        ------
        UndefinedOutputsError
            A call failed, and some of the step may have run.
        HipError
            A call failed, and nothing of the step has run.
        """
        before, thread.session = thread.session, self
        chosen = Stream.choose(self.stream)
        try:
            with self.stream.turn:
                try:
                    self.begin()
                    yield
                    self.end()
                finally:
                    self.abandon()  # while it is this thread's turn: the next one records on the stream at once
        except BaseException as error:
            self.is_whole = False
            if isinstance(error, (HipError, MemoryError)) and self.segments:
                raise UndefinedOutputsError.of(error, EARLIER) from error
            raise
        finally:
            Stream.choose(chosen)
            thread.session = before
            if self.arena is not None:
                self.arena.abandon(self.stream)
            elif 0 < self.extended < self.pool.extended:
                self.pool.overflows += 1
                self.ladder.stats.reasons["overflow: the step asked for more memory than before"] += 1
            if not self.is_whole:
                self.let_go()

    def let_go(self) -> None:
        """Let other recordings have the execs after all."""
        for exec_ in self.held:
            exec_.hold(-1)
        self.held = []

    def begin(self) -> None:
        """Start a part."""
        recording = Recording(self.memory)
        core.lib.hiprt_recorder_limit(recording.core, flags.graph_max_nodes, flags.graph_max_bytes)
        earlier = self.ladder.latest()
        if earlier is not None:
            recording.follow(earlier.recording)
        recording.start(self.stream)
        self.recording = recording
        if self.claims is not None or (self.stream.is_shared and flags.graph_foreign):
            self.listen()

    def abandon(self) -> None:
        """Stop recording without launching."""
        if self.recording is not None:
            if self.is_listening:
                self.is_listening = False
                core.lib.hiprt_flatten_drop(self.recording.core, self.stream.core)
            self.recording.stop(self.stream)
            self.recording = None

    def end(self) -> None:
        """Launch the part that was recorded."""
        self.take_in()
        recording = self.recording
        self.abandon()
        if recording is not None:
            recording.settle(self.stream)
        if recording is None or not len(recording):
            return
        for part, eager in self.divide(recording):
            if self.is_ahead:
                self.parts.append(part if eager else self.ladder.begin(part, self.stream))
            elif eager:
                self.ladder.run_eagerly(part, self.stream, self.eager or why_forced())
                self.segments.append(part)
            else:
                launched = self.ladder.launch(part, self.stream, key=self.key, why=self.why, slots=self.slots)
                self.segments.append(launched if launched is not None else part)
                self.is_whole = self.is_whole and launched is not None
                if self.reserve and launched is not None:
                    # This happens at once, because a later part of the same topology must not patch the exec.
                    launched.hold(1)
                    self.held.append(launched)
        self.offset += len(recording)

    def divide(self, recording: Recording) -> list[tuple[Recording, bool]]:
        """Cut out the nodes that are launched eagerly: all, or those that flags ask for, for bisection by node."""
        if self.eager:
            return [(recording, True)]
        if not (flags.graph_force_eager_from or flags.graph_force_eager_to):
            return [(recording, False)]
        size = len(recording)
        begin, end = forced(size, self.offset)
        cuts = [(0, begin, False), (begin, end, True), (end, size, False)]
        return [(recording.slice(a, b), eager) for a, b, eager in cuts if a < b]

    def owns(self, buffer: Buffer) -> bool:
        """Whether a buffer lies in the memory of the session, which every launch of its segments writes anew."""
        if self.arena is not None:
            return any(buffer.owner is block for block in self.arena.chunks.values())
        return buffer.pool is self.pool

    @property
    def memory(self) -> Pool | Arena:
        """Where the intermediates of what is recorded now live."""
        return self.arena if self.arena is not None else self.pool

    @property
    def moves(self) -> Sequence[Move]:
        """The memory that moved when the last part ended."""
        return self.arena.settled if self.arena is not None else ()

    def split(self, reason: str) -> None:
        """Launch what was recorded so far and go on recording."""
        self.ladder.stats.reasons[f"split: {reason}"] += 1
        self.end()
        self.begin()

    def step_aside(self, reason: str) -> None:
        """Launch what was recorded so far, ahead of work that is no part of the step, and go on recording."""
        with self.outside(reason):
            pass

    def outside(self, reason: str, array: Array | None = None) -> AbstractContextManager[None]:
        """Launch what was recorded so far, do the block's work on the stream, and go on recording.

        Parameters
        ----------
        reason : str
            What the work is.
        array : Array, optional
            The array that it is done to.
        """
        line, told = caller(), self.ladder.splits
        if (line, reason) not in told:
            remedy = HOW_TO_AVOID.get(reason, "do it before or behind the step")
            told[line, reason] = "; ".join([str(line), *([] if array is None else [self.origin(array)]), remedy])
        self.ladder.stats.count(Event(self.ladder.name, "split", reason, 0, told[line, reason]))
        return self.leave()

    def origin(self, array: Array) -> str:
        """Say what an array is, and which node of this part writes it last."""
        form = f"{array.dtype} array of shape {array.shape}"
        recording = self.recording
        for index in reversed(range(len(recording) if recording is not None else 0)):
            assert recording is not None
            if any(a != READ and s < array.extent[1] and array.extent[0] < e for s, e, a in declared(recording, index)):
                return f"{form}, written by node {self.offset + index} ({recording.node(index).name})"
        return f"{form}, which the step does not write before that"

    @contextmanager
    def leave(self) -> Iterator[None]:
        """Do the work of `outside`."""
        if self.is_ahead:
            raise RuntimeError(
                f"step {self.ladder.name} cannot be prepared: it does what cannot be a node of a graph, such as a read "
                "of an array by the host, and nothing of it has run. Call it instead"
            )
        self.is_whole = False
        self.end()
        yield
        self.begin()

    def listen(self) -> None:
        """Capture what other code puts on the stream from now on."""
        assert self.recording is not None
        status = core.lib.hiprt_flatten_begin(self.recording.core, self.stream.core)
        self.is_listening = not status
        if not status:
            return
        error = core.failure(status)
        if self.claims is not None:
            raise HipError(error.code, error.name, error.call, f"the stream cannot be captured; {REMEDY}")
        # The null stream cannot be, nor a stream that other code captures. On another one, what other code launches
        # would run ahead of what is recorded before it (G14).
        if error.code > 0 and error.code not in UNCAPTURED and self.stream.raw not in NULL_STREAMS:
            detail = f"step {self.ladder.name}: work of other code on its stream would not be noticed; call it again"
            raise HipError(error.code, error.name, error.call, detail)
        self.ladder.stats.reasons[f"work of other code would not be noticed: {error}"] += 1

    def take_in(self) -> None:
        """Make nodes of what other code has put on the stream.

        Raises
        ------
        HipError
            Some of it cannot be a node. Nothing of the recording can be launched.
        """
        recording = self.recording
        if not self.is_listening or recording is None:
            return
        self.is_listening = False
        extents, accesses = ([], []) if self.claims is None else self.claims[1:]
        start, end = self.arena.unsettled if self.arena is not None else (0, 0)
        count = core.ffi.new("uint32_t *")
        status = core.lib.hiprt_flatten_end(
            recording.core, self.stream.core, len(extents), extents, bytes(accesses), not extents, start, end, count
        )
        if status:
            error = core.failure(status)
            detail = f"step {self.ladder.name}: work of other code on its stream cannot be recorded: {error.detail}"
            raise HipError(error.code, error.name, error.call, f"{detail}; {REMEDY}")
        if count[0]:
            self.ladder.has_foreign = True

    def make_room(self) -> None:
        """Make nodes of other code's work, before which a launch of ours cannot be recorded."""
        self.take_in()
        assert self.recording is not None
        if core.lib.hiprt_recorder_is_full(self.recording.core):
            self.split("the graph has reached HIPRT_GRAPH_MAX_NODES or HIPRT_GRAPH_MAX_BYTES")
        else:
            self.listen()

    def share(self) -> None:
        """Be ready for work of other code, which asks for the stream's handle while it records."""
        if flags.graph_foreign and self.recording is not None and threading.get_ident() == self.thread:
            self.fix_addresses()
            if not self.is_listening:
                self.listen()

    def fix_addresses(self) -> None:
        """Give the step's arrays, those there are and those to come, the addresses that they will keep."""
        self.ladder.has_foreign = True
        arena = self.arena
        if arena is None:
            return
        assert self.recording is not None
        if not arena.unsettled[1] and not arena.chunks:
            self.arena = None
            self.recording.memory = self.stream.memory = self.pool
            return
        self.ladder.stats.reasons["split: other code is given addresses; once"] += 1
        # The call is not kept, so that the next one is recorded whole.
        self.is_whole = False
        self.end()
        self.arena = None
        self.begin()

    @contextmanager
    def capture(self, reads: list[Any], writes: list[Any]) -> Iterator[None]:
        """Take in what other code launches within the block as nodes that read and write these arrays."""
        self.fix_addresses()
        self.take_in()
        outer, self.claims = self.claims, claims_of(reads, writes)
        self.stream.keep += self.claims.objects
        assert self.recording is not None
        for each, access in zip(self.claims.objects, self.claims.accesses):
            if isinstance(each, Array):
                self.recording.touch(each, access)
        try:
            self.listen()
            try:
                yield
            finally:
                # After an exception too, because the work would have run if nothing had been recorded.
                self.take_in()
        finally:
            self.claims = outer
        if outer is not None or (self.stream.is_shared and flags.graph_foreign):
            self.listen()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let work of ours on the stream within the block run at once, though the step records."""
        is_listening = self.is_listening
        self.take_in()
        try:
            yield
        finally:
            if is_listening:
                self.listen()


def forced(size: int, offset: int = 0) -> tuple[int, int]:
    """Return which nodes the flags for bisection launch eagerly.

    Parameters
    ----------
    size : int
        Number of nodes of a part of a step.
    offset : int
        Number of the step's nodes before it.

    Returns
    -------
    begin, end : int
        The first of the part's nodes, and one past the last; equal where there are none.
    """
    last = flags.graph_force_eager_to or (offset + size if flags.graph_force_eager_from else 0)
    begin = min(max(flags.graph_force_eager_from - offset, 0), size)
    return begin, min(max(last - offset, begin), size)


def why_forced() -> str:
    """Return the flags for bisection that are set, as the reason why some nodes run eagerly."""
    names = {"FROM": flags.graph_force_eager_from, "TO": flags.graph_force_eager_to}
    given = ", ".join(f"HIPRT_GRAPH_FORCE_EAGER_{name}={value}" for name, value in names.items() if value)
    return given or "recorded while HIPRT_GRAPH_FORCE_EAGER_FROM or HIPRT_GRAPH_FORCE_EAGER_TO was set"
