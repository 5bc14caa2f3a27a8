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
from hiprt.errors import HipWarning
from hiprt.hip import call, handle, lib

__all__ = ["Stream", "current_stream", "new_stream", "use_stream"]

thread = threading.local()
numbers = itertools.count()
# What `Stream.submit` takes, and how many of the first arguments are addresses.
ADDRESSES = {core.lib.hiprt_copy: 2, core.lib.hiprt_fill: 1, core.lib.hiprt_barrier: 0}


class Stream(objects.Stream):
    """A HIP stream.

    Work launched on it runs in order. While a step records (`hiprt.graphs`), launches become nodes instead.

    Parameters
    ----------
    device : Device, optional
        Where the stream lives; this thread's device by default.

    Attributes
    ----------
    handle : int
        The ``hipStream_t``.
    device : Device
    is_open : bool
        Whether work can still be launched on it: until `close`.
    """

    def __init__(self, device: Device | None = None) -> None:
        self.device = device or current_device()
        call(lib.hipSetDevice(self.device.index))
        self.owned = True
        self.attach(handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking))
        core.lib.hiprt_stream_own(self.core)

    @classmethod
    def from_handle(cls, handle: SupportsInt, device: Device | None = None, owner: Any = None) -> Stream:
        """Wrap a stream that somebody else made (torch, hip-python).

        Parameters
        ----------
        handle : int, or an object of hip-python
            The ``hipStream_t``; 0 is the null stream. Valid until `close`, or as long as `owner` lives.
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
        # That hold memory for it, and are told before it goes.
        self.pools: weakref.WeakSet[Any] = weakref.WeakSet()
        self.handle, self.is_open = handle, True
        # Unlike handles, numbers are never used again: memory freed on a closed stream cannot reach another one.
        self.number = next(numbers)
        self.owner: Any = None
        # Set by hiprt.graphs while a step records: its memory, what it must keep alive, and who records.
        self.recording = False
        self.memory = None
        self.keep = []
        self.session: Any = None
        self.core = core.ffi.gc(
            core.created(core.lib.hiprt_stream_create(self.handle, self.device.index)), core.lib.hiprt_stream_release
        )
        self.address = core.address(self.core)

    def retain(self, arrays: Iterable[Any]) -> None:
        """Keep arrays' memory alive with the step being recorded; the step's own memory lives with it anyway."""
        memory = self.memory
        self.keep += [array.buffer for array in arrays if array.buffer.pool is not memory]

    def submit(self, function: Callable[..., int], *args: Any) -> None:
        """Call a function of the C core that queues or records work on this stream.

        Raises
        ------
        HipError
            It failed.
        """
        status = function(self.core, *args)
        if status:
            moves, n = self.make_room(status), ADDRESSES[function]
            moved = [core.lib.hiprt_moved(address, len(moves), moves) for address in args[:n]]
            core.call(function(self.core, *moved, *args[n:]))

    def make_room(self, status: int) -> Sequence[tuple[int, int, int]]:
        """Launch what is recorded if a call failed because the recording is full; raise what else the status means.

        Returns
        -------
        sequence of (int, int, int)
            The memory that has moved since the call was prepared: first address, one past the last, new first address.

        Raises
        ------
        HipError
            The call failed for another reason.
        """
        if status != core.lib.HIPRT_E_FULL:
            raise core.failure(status)
        self.session.split("the graph has reached HIPRT_GRAPH_MAX_NODES or HIPRT_GRAPH_MAX_BYTES")
        moves: Sequence[tuple[int, int, int]] = self.session.moves
        return moves

    def outside(self, reason: str) -> AbstractContextManager[None]:
        """Do the block's work outside the step being recorded, which is split around it; nothing while none records."""
        context: AbstractContextManager[None] = self.session.outside(reason) if self.recording else nullcontext()
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
        return int(core.lib.hiprt_stream_launches(self.core))

    def synchronize(self) -> None:
        """Wait until everything launched on the stream has run.

        Raises
        ------
        HipError
            Work failed on the device.
        """
        with self.outside("synchronize"):
            core.call(core.lib.hiprt_stream_synchronize(self.core))

    def close(self) -> None:
        """Destroy the stream once its work is done; of a stream that somebody else made, let go."""
        self.leave(can_fence=self.is_open)
        if self.owned and self.is_open:
            self.owned = False
            core.lib.hiprt_stream_close(self.core)
            call(lib.hipStreamDestroy(self.handle))
        self.is_open = False

    def leave(self, *, can_fence: bool) -> None:
        """Tell the pools that nothing more comes; `can_fence`: the handle is still valid."""
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
        # At interpreter shutdown the process takes its streams with it; modules may be gone by then.
        if not getattr(self, "is_open", False) or finalizing():
            return
        try:
            if self.owned or self.owner is not None:
                self.close()
            else:
                # Somebody else's stream may have gone before its wrapper.
                self.leave(can_fence=False)
        except Exception as error:
            warnings.warn(f"stream {self.handle:#x} was not destroyed: {error}", HipWarning, stacklevel=1)

    def __repr__(self) -> str:
        return f"Stream({self.handle:#x}, device {self.device.index})"


def new_stream(device: Device) -> Stream:
    """Return a stream of a device, whatever serves it."""
    made: Stream = (device.provider.stream or Stream)(device)
    return made


def current_stream() -> Stream:
    """Return the stream this thread launches on: the innermost `use_stream`, else one made for thread and device."""
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
