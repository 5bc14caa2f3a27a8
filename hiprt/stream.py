"""Streams: queues of work on a device, and the one this thread launches on."""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, SupportsInt

from hiprt import core, library, objects
from hiprt.device import Device, current_device
from hiprt.errors import HipError, HipWarning
from hiprt.hip import call, handle, lib

__all__ = ["Move", "Stream", "current_stream", "new_stream", "use_stream"]

thread = threading.local()
numbers = itertools.count()
# Memory that moves: its first address, one past the last, and the new first address.
Move = tuple[int, int, int]


def moved(address: int, moves: Sequence[Move]) -> int:
    """Return where an address is after the moves, which are ascending and disjoint."""
    return int(lib.hiprt_moved(address, len(moves), moves))


class Stream(objects.Stream):
    """A HIP stream.

    Work launched on it runs in order. While a step records (`hiprt.graphs`), launches become nodes instead.

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
    """

    def __init__(self, device: Device | None = None) -> None:
        self.device = device or current_device()
        call(lib.hipSetDevice(self.device.index))
        self.owned = True
        made = handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking)
        try:
            self.attach(made)
        except HipError:
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
        # The pools that hold memory for the stream are told before it goes.
        self.pools: weakref.WeakSet[Any] = weakref.WeakSet()
        self.raw = handle
        self.is_shared = not self.owned
        # Unlike handles, numbers are never used again: memory freed on a closed stream cannot reach another one.
        self.number = next(numbers)
        self.owner: Any = None
        # hiprt.graphs sets these while a step records: its memory, what it must keep alive, and the session.
        self.recording = False
        self.memory = None
        self.keep = []
        self.session: Any = None
        self.core = core.ffi.gc(
            core.created(lib.hiprt_stream_create(self.raw, self.device.index)), lib.hiprt_stream_release
        )
        self.address = core.address(self.core)
        self.is_open = True

    @property
    def handle(self) -> int:
        """The ``hipStream_t``. Work that other code puts on it while a step records there becomes part of the step."""
        self.is_shared = True
        if self.session is not None:
            self.session.share()
        return self.raw

    def retain(self, arrays: Iterable[Any]) -> None:
        """Keep the memory of arrays alive with the step being recorded, but for the step's own, which lives with it."""
        memory = self.memory
        self.keep += [array.buffer for array in arrays if array.buffer.pool is not memory]

    def copy(self, target: int, source: int, nbytes: int, kind: int) -> None:
        """Copy memory in stream order.

        Parameters
        ----------
        target, source : int
            Addresses.
        nbytes : int
        kind : int
            A ``hipMemcpyKind``. Only copies within the device can be recorded.

        Raises
        ------
        HipError
            The copy failed, or cannot be part of a recorded step.
        """
        status = lib.hiprt_copy(self.core, target, source, nbytes, kind)
        if status:
            moves = self.make_room(status)
            call(lib.hiprt_copy(self.core, moved(target, moves), moved(source, moves), nbytes, kind))

    def fill(self, target: int, value: int, width: int, count: int) -> None:
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

        Raises
        ------
        HipError
            The fill failed.
        """
        status = lib.hiprt_fill(self.core, target, value, width, count)
        if status:
            call(lib.hiprt_fill(self.core, moved(target, self.make_room(status)), value, width, count))

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
        """Do the block's work outside the step being recorded, which is split around it, if one is.

        Parameters
        ----------
        reason : str
            What the work is, for statistics.
        array : Array, optional
            The array that it is done to.
        """
        if not self.recording:
            return nullcontext()
        context: AbstractContextManager[None] = self.session.outside(reason, array)
        return context

    def aside(self) -> AbstractContextManager[None]:
        """Let work that the library puts on the stream within the block run at once, even while a step records."""
        context: AbstractContextManager[None] = self.session.aside() if self.session is not None else nullcontext()
        return context

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
            lib.hiprt_stream_close(self.core)
            call(lib.hipStreamDestroy(self.raw))

    def leave(self, *, can_fence: bool) -> None:
        """Tell the pools that nothing more comes.

        Parameters
        ----------
        can_fence : bool
            Whether the handle is still valid.
        """
        for pool in list(self.pools):
            pool.close(self, can_fence=can_fence)
        self.pools.clear()

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


def new_stream(device: Device) -> Stream:
    """Return a new stream of a device, of the type that its provider has."""
    made: Stream = (device.provider.stream or Stream)(device)
    return made


def current_stream() -> Stream:
    """Return the stream this thread launches on: that of the innermost `use_stream`, else the thread's own."""
    stack: list[Stream] = getattr(thread, "stack", [])
    if stack:
        return stack[-1]
    device = current_device()
    streams: dict[int, Stream] = thread.__dict__.setdefault("streams", {})
    if device.index not in streams:
        streams[device.index] = Stream(device)
    return streams[device.index]


@contextmanager
def use_stream(stream: Stream) -> Iterator[Stream]:
    """Launch on `stream` within the block."""
    stack: list[Stream] = thread.__dict__.setdefault("stack", [])
    stack.append(stream)
    try:
        yield stream
    finally:
        stack.pop()
