"""Buffers: pieces of device memory with an owner, and the allocator from which new ones come."""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hiprt import core, objects
from hiprt.errors import HipWarning
from hiprt.hip import call, handle, lib
from hiprt.stream import Stream

__all__ = [
    "Adopt", "Allocate", "Buffer", "adopt", "allocate", "hip_malloc", "relaxed", "set_adopter", "set_allocator",
    "source_of",
]  # fmt: skip


class Buffer(objects.Buffer):
    """Device memory that is given back when the last reference to it is gone.

    Parameters
    ----------
    address : int
        Device address.
    nbytes : int
        The size.
    device : int
        The index of the device to which the memory belongs.
    free : callable, optional
        Called once, without arguments, to give the memory back; None for memory that somebody else owns.
    owner : object, optional
        Kept alive as long as the buffer.
    pool : object, optional
        The pool it came from.

    Attributes
    ----------
    views : list or None
        The arrays that show a buffer at a provisional address, held weakly; None for a buffer with an address.
    """

    __slots__ = ("__weakref__",)

    def rebase(self, address: int, owner: Any) -> None:
        """Give a buffer at a provisional address its memory, which `owner` keeps alive; its arrays go with it."""
        delta, views = address - self.address, self.views or []
        self.address, self.owner, self.pool, self.views = address, owner, None, None
        for known in views:
            array = known()
            if array is not None:
                array.rebase(delta)

    def release(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Call `free`, once. The C core calls this when nothing refers to the buffer any more."""
        # `finalizing` is an argument because modules may be gone at interpreter shutdown.
        free, self.free = self.free, None
        if free is not None and not finalizing():
            try:
                free()
            except Exception as error:
                warnings.warn(f"buffer {self.address:#x} was not freed: {error}", HipWarning, stacklevel=1)


Allocate = Callable[[int, Stream], Buffer]
Adopt = Callable[[int, int, Any, Stream], Buffer]


@contextmanager
def relaxed() -> Iterator[None]:
    """Let the block make HIP calls that would otherwise end captures which are open elsewhere in the process (G10)."""
    before = core.lib.hiprt_capture_mode(lib.hipStreamCaptureModeRelaxed)
    try:
        yield
    finally:
        core.lib.hiprt_capture_mode(before)


def hip_malloc(nbytes: int, stream: Stream) -> Buffer:
    """Allocate with hipMalloc. hipFree waits for the device, so this is for memory that lives long."""
    index = stream.device.index
    call(lib.hipSetDevice(index))
    with relaxed():
        address = handle(lib.hipMalloc, max(nbytes, 1), detail=f"{nbytes} bytes")

    def free() -> None:
        # hipFree finds the device of the memory by itself, so that nothing is lost where this fails.
        lib.hipSetDevice(index)
        with relaxed():
            call(lib.hipFree(address))

    try:
        return Buffer(address, nbytes, index, free)
    except MemoryError:
        free()
        raise


def wait_then_drop(address: int, nbytes: int, owner: Any, stream: Stream) -> Buffer:
    """Adopt memory whose owner is let go once the stream has been waited for."""
    return Buffer(address, nbytes, stream.device.index, stream.synchronize, owner)


# Others' memory by its address, as long as a buffer shows it.
adopted: weakref.WeakValueDictionary[int, Buffer] = weakref.WeakValueDictionary()
adopting = threading.Lock()
allocator: Allocate = hip_malloc
adopter: Adopt = wait_then_drop
# What is called with each new buffer, wherever its memory comes from.
observers: list[Callable[[Buffer], None]] = []


def allocate(nbytes: int, stream: Stream) -> Buffer:
    """Return memory that may be used by work on `stream` from now on.

    Parameters
    ----------
    nbytes : int
        The size in bytes, at least 0.
    stream : Stream
        The first stream that may use the memory.

    Raises
    ------
    OutOfMemoryError
        The device has no memory left.
    """
    if nbytes < 0:
        raise ValueError(f"nbytes={nbytes}: must not be negative")
    buffer = stream.memory.allocate(nbytes, stream) if stream.memory is not None else allocator(nbytes, stream)
    if observers:
        for observe in list(observers):
            observe(buffer)
    return buffer


def source_of(stream: Stream) -> Allocate:
    """Return what `allocate` asks for memory, to be asked many times; `allocate` itself where somebody observes it."""
    if observers:
        return allocate
    return stream.memory.allocate if stream.memory is not None else allocator


def set_allocator(new: Allocate | None) -> Allocate:
    """Make `new` the source of buffers, or hipMalloc if it is None; return the source before it."""
    global allocator
    before, allocator = allocator, new or hip_malloc
    return before


def adopt(address: int, nbytes: int, owner: Any, stream: Stream) -> Buffer:
    """Return memory that somebody else owns, for work on `stream`.

    Parameters
    ----------
    address, nbytes : int
    owner : object
        Kept alive until the buffer is gone and everything launched on the stream by then has run.
    stream : Stream
    """
    buffer = adopter(address, nbytes, owner, stream)
    buffer.belong(stream)
    with adopting:
        # The same memory under another wrapper is in one order with it.
        known = adopted.get(address)
        if known is not None:
            buffer.share(known.uses)
        adopted[address] = buffer
    # Whoever hands memory over has ordered it with this stream.
    stream.wait_for(buffer, core.lib.HIPRT_WRITE)
    return buffer


def set_adopter(new: Adopt | None) -> Adopt:
    """Make `new`, or `wait_then_drop` if it is None, responsible for others' memory; return the one before."""
    global adopter
    before, adopter = adopter, new or wait_then_drop
    return before
