"""Streams: queues of work on a device, and the one this thread launches on."""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, SupportsInt

from hiprt import core, library, objects
from hiprt.device import Device, current_device
from hiprt.errors import HipError, HipWarning
from hiprt.hip import call, handle, lib

__all__ = [
    "Move",
    "Stream",
    "apart",
    "current_stream",
    "leaving",
    "new_stream",
    "session_of_thread",
    "thread",
    "use_stream",
]


class Thread(threading.local):
    """What a thread does with streams.

    Attributes
    ----------
    session : Session or None
        The session in which the thread records a step, or has interrupted that.
    is_apart : bool
        Whether the thread is within `apart`.
    """

    session: Any = None
    is_apart = False


thread = Thread()
numbers = itertools.count()
defaults: dict[int, Stream] = {}
closed: list[Any] = []  # what is to be destroyed
lock = threading.Lock()
# What is told of each stream that goes, and whether its handle is still valid: whoever keeps memory for streams. It is
# no list of the stream's own, whose weak references would be gone before `close` where a cycle of objects is collected.
leaving: list[Callable[[Stream, bool], None]] = []
# Memory that moves: its first address, one past the last, and the new first address.
Move = tuple[int, int, int]


def moved(address: int, moves: Sequence[Move]) -> int:
    """Return where an address is after the moves, which are ascending and disjoint."""
    return int(lib.hiprt_moved(address, len(moves), moves))


class Stream(objects.Stream):
    """A HIP stream.

    Work launched on it runs in order, from whatever thread. Work on other streams waits for it where both use an array
    and one writes it (G13). While a thread records a step on it (`hiprt.graphs`), that thread's launches become nodes
    instead.

    Parameters
    ----------
    device : Device, optional
        Where the stream lives; this thread's device by default.

    Attributes
    ----------
    device : Device
    is_open : bool
        Whether work can still be launched on it: until `close`.
    is_shared : bool
        Whether other code may put work on it: it is somebody else's, or its handle was asked for.
    raw : int
        The ``hipStream_t`` for calls of the library's own.
    plans_launches : bool
        Whether launches on it need kernels; an op only notes what it writes in `written` where they do not.
    """

    plans_launches = True

    def __init__(self, device: Device | None = None) -> None:
        self.device = device or current_device()
        call(lib.hipSetDevice(self.device.index))
        self.owned = True
        made = handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking)
        try:
            self.attach(made)
        except (HipError, MemoryError):
            lib.hipStreamDestroy(made)
            raise
        lib.hiprt_stream_own(self.core)

    @classmethod
    def from_handle(cls, handle: SupportsInt, device: Device | None = None, owner: Any = None) -> Stream:
        """Wrap a stream that somebody else made (torch, hip-python).

        Parameters
        ----------
        handle : int, or an object of hip-python
            The ``hipStream_t``, which stays valid until `close` or as long as `owner` lives; 0 is the null stream.
        device : Device, optional
            This thread's device by default.
        owner : object, optional
            Kept alive as long as the stream.
        """
        stream = cls.__new__(cls)
        stream.device = device or current_device()
        stream.owned = False
        stream.attach(int(handle))
        stream.owner = owner
        return stream

    def attach(self, handle: int) -> None:
        """Make the C core's wrapper."""
        self.raw = handle
        self.is_shared = not self.owned
        # Unlike handles, numbers are never used again: memory freed on a closed stream cannot reach another one.
        self.number = next(numbers)
        self.owner: Any = None
        # One thread at a time records a step on the stream. Its are the memory, and the list of what it keeps alive.
        self.turn = threading.RLock()
        self.memory = None
        self.keep: list[Any] = []
        release, make = lib.hiprt_stream_release, lib.hiprt_stream_create
        self.core = core.create("hiprt_stream", release, make, self.raw, self.device.index)
        self.address = core.address(self.core)
        self.is_open = True

    @property
    def handle(self) -> int:
        """The ``hipStream_t``. Work that other code puts on it while a step records there becomes part of the step."""
        self.is_shared = True
        if self.session is not None:
            self.session.share()
        return self.raw

    @property
    def session(self) -> Any:
        """The step that this thread records on the stream, or None."""
        session = session_of_thread()
        return session if session is not None and session.stream is self else None

    def copy(self, target: int, source: int, nbytes: int, kind: int, *, to: Any = None, of: Any = None) -> None:
        """Copy memory in stream order.

        Parameters
        ----------
        target, source : int
            Addresses.
        nbytes : int
        kind : int
            A ``hipMemcpyKind``. Only copies within the device can be recorded.
        to, of : Buffer, optional
            The memory that is written, and that is read. The copy waits for what other streams do there, and a
            recording keeps it alive.

        Raises
        ------
        HipError
            The copy failed, or cannot be part of a recorded step.
        """
        if thread.is_apart:
            to = of = None
        moves = self.step_aside() if to is not None or of is not None else ()
        target, source = moved(target, moves), moved(source, moves)
        status = self.queue_copy(target, source, nbytes, kind, to, of)
        if status:
            moves = self.make_room(status)
            core.call(self.queue_copy(moved(target, moves), moved(source, moves), nbytes, kind, to, of))

    def fill(self, target: int, value: int, width: int, count: int, *, to: Any = None) -> None:
        """Set elements in stream order.

        Parameters
        ----------
        target : int
            Address of the first.
        value : int
        width : int
            Size of an element in bytes: 1, 2 or 4.
        count : int
            Number of elements.
        to : Buffer, optional
            The memory that is written, as in `copy`.

        Raises
        ------
        HipError
            The fill failed.
        """
        if thread.is_apart:
            to = None
        moves = self.step_aside() if to is not None else ()
        target = moved(target, moves)
        status = self.queue_fill(target, value, width, count, to)
        if status:
            core.call(self.queue_fill(moved(target, self.make_room(status)), value, width, count, to))

    def wait_for(self, buffer: Any, access: int) -> None:
        """Order what others put on the stream next with other streams' work on a buffer.

        Parameters
        ----------
        buffer : Buffer
        access : int
            What that work does there: `hiprt.module.READ`, `WRITE` or `READ_WRITE`.

        Raises
        ------
        HipError
            The stream cannot wait.
        """
        core.call(self.order(buffer, access))

    def barrier(self) -> None:
        """Order everything after it behind everything before it, for work that declares nothing.

        Raises
        ------
        HipError
            It cannot be recorded.
        """
        status = lib.hiprt_barrier(self.core)
        if status:
            self.make_room(status)
            call(lib.hiprt_barrier(self.core))

    def make_room(self, status: int) -> Sequence[Move]:
        """Make room for a call that could not be recorded: the recording is full, or other code's work comes first.

        Returns
        -------
        sequence of Move
            The memory that has moved since the call was prepared.

        Raises
        ------
        HipError
            The call failed for another reason.
        """
        if status == lib.HIPRT_E_CAPTURED:
            self.session.make_room()
        elif status == lib.HIPRT_E_FULL:
            self.session.split("the graph has reached HIPRT_GRAPH_MAX_NODES or HIPRT_GRAPH_MAX_BYTES")
        else:
            raise core.failure(status)
        moves: Sequence[Move] = self.session.moves
        return moves

    def outside(self, reason: str, array: Any = None) -> AbstractContextManager[None]:
        """Do the block's work outside the step that this thread records, which is split around it, if it records one.

        Parameters
        ----------
        reason : str
            What the work is, for statistics.
        array : Array, optional
            The array that it is done to.
        """
        session = session_of_thread()
        context: AbstractContextManager[None] = session.outside(reason, array) if session is not None else nullcontext()
        return context

    def aside(self) -> AbstractContextManager[None]:
        """Let work that the library puts on the stream within the block run at once, even while a step records."""
        session = self.session
        context: AbstractContextManager[None] = session.aside() if session is not None else nullcontext()
        return context

    def step_aside(self) -> Sequence[Move]:
        """Launch what this thread has recorded on another stream, because eager work on this one comes behind it.

        Returns
        -------
        sequence of Move
            The memory that has moved since the call was prepared.
        """
        session = session_of_thread()
        if session is None or session.stream is self:
            return ()
        session.step_aside("work on another stream")
        moves: Sequence[Move] = session.moves
        return moves

    def __cuda_stream__(self) -> tuple[int, int]:
        """Return (version, handle): the protocol by which libraries pass streams (cuda.core, CuPy, Warp)."""
        return (0, self.handle)

    @property
    def hip_stream(self) -> Any:
        """The stream as hip-python has it."""
        return library.hip().ihipStream_t.fromObj(self.handle)

    @property
    def launches(self) -> int:
        """Kernels and graphs launched on the stream so far; copies and fills are not counted."""
        return int(lib.hiprt_stream_launches(self.core))

    def synchronize(self) -> None:
        """Wait until everything launched on the stream has run.

        Raises
        ------
        HipError
            Work failed on the device.
        """
        with self.outside("synchronize"):
            core.call(lib.hiprt_stream_synchronize(self.core))

    def close(self) -> None:
        """Destroy the stream once its work is done, or let go of a stream that somebody else made."""
        self.leave(can_fence=self.is_open)
        # It is let go of first: what is known of a stream whose destruction failed is that it must not be used again.
        is_mine, self.owned, self.is_open = self.owned and self.is_open, False, False
        if is_mine:
            closed.append(self.core)
            destroy_closed()

    def check_open(self) -> None:
        """Refuse work on a stream that is closed: its handle names nothing, or another stream by now."""
        if not self.is_open:
            detail = "the stream is closed: work needs one that is open"
            raise HipError(lib.HIPRT_E_CLOSED, "HIPRT_E_CLOSED", "hiprt.Stream", detail)

    def leave(self, *, can_fence: bool) -> None:
        """Tell whoever keeps memory for the stream that nothing more comes.

        Parameters
        ----------
        can_fence : bool
            Whether the handle is still valid.
        """
        for tell in leaving:
            tell(self, can_fence)
        lib.hiprt_stream_close(self.core, can_fence)

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process takes its streams with it.
        if not getattr(self, "is_open", False) or finalizing():
            return
        try:
            if self.owned or self.owner is not None:
                self.close()
            else:
                # Somebody else's stream may have gone before its wrapper.
                self.leave(can_fence=False)
        except Exception as error:
            warnings.warn(f"stream {self.raw:#x} was not destroyed: {error}", HipWarning, stacklevel=1)

    def __repr__(self) -> str:
        return f"Stream({self.raw:#x}, device {self.device.index})"


def destroy_closed() -> None:
    """Destroy the streams that were closed, but for those that a capture has forked to, which would end it."""
    waiting = []
    try:
        while closed:
            each = closed.pop()
            if lib.hiprt_stream_is_captured(each):
                waiting.append(each)
            else:
                call(lib.hiprt_stream_destroy(each))
    finally:
        closed.extend(waiting)


def new_stream(device: Device) -> Stream:
    """Return a new stream of a device, of the type that its provider has."""
    made: Stream = (device.provider.stream or Stream)(device)
    return made


def current_stream() -> Stream:
    """Return the stream this thread launches on: that of the innermost `use_stream`, else its device's default stream.

    The default stream is one of hiprt's, the same for all threads.
    """
    stream: Stream | None = Stream.chosen()
    if stream is None:
        device = current_device()
        stream = defaults.get(device.index)
        if stream is None or not stream.is_open:
            stream = default_stream(device)
    return stream


def default_stream(device: Device) -> Stream:
    """Return the stream of a device for threads that chose none; it is made at the first request."""
    with lock:
        stream = defaults.get(device.index)
        if stream is None or not stream.is_open:
            stream = defaults[device.index] = Stream(device)
            stream.default_of = device.index + 1
        return stream


@contextmanager
def use_stream(stream: Stream) -> Iterator[Stream]:
    """Launch on `stream` within the block, on this thread."""
    before = Stream.choose(stream)
    try:
        yield stream
    finally:
        Stream.choose(before)


@contextmanager
def apart() -> Iterator[None]:
    """Do the block's copies and fills in no order with other streams, and outside the step that this thread records.

    This is for memory that nobody else knows yet, and for reads that the caller has ordered by an event.
    """
    before, thread.is_apart = thread.is_apart, True
    try:
        yield
    finally:
        thread.is_apart = before


def session_of_thread() -> Any:
    """Return the session in which this thread records a step, on whatever stream; None outside of one."""
    session = thread.session
    return session if session is not None and session.recording is not None and not thread.is_apart else None
