"""Poison: memory that shows who reads it too early, uses it too late or writes past its end.

Under ``HIPRT_ALLOC_POISON=1`` every buffer lies between two red zones. Fresh memory is filled with `FRESH`, a NaN in
float32, and freed memory with the byte `FREED`, in stream order. At the free the red zones are read, which waits for
the stream. On the CPU device freed memory is inaccessible as well: a kernel that uses it fails with
`UseAfterFreeError`. Up to `MOST_HELD` bytes of it are held back, so that it does not become another buffer's at once.

While a step records, all this is recorded with it: an executable graph fills and checks the step's memory at each
launch, and a kernel notes the first damage, which is reported at the next allocation or free. A step's memory stays
accessible, since graphs launched later use it; it is closed when the step gives it back.
"""

from __future__ import annotations

import atexit
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import core, library
from hiprt.allocator.holder import Holder
from hiprt.allocator.pages import PAGE, Freed, Pages
from hiprt.array import Array
from hiprt.buffer import Buffer, relaxed
from hiprt.compiler import compile_source
from hiprt.errors import HipWarning
from hiprt.hip import call, handle, lib
from hiprt.module import READ, READ_WRITE, SCALAR, Argument, Function, Module
from hiprt.stream import Stream

__all__ = [
    "FREED",
    "FRESH",
    "RED",
    "ZONE",
    "RedZoneError",
    "allocate",
    "check_steps",
    "open_before_free",
    "pages",
    "release",
]

FRESH = 0xFFC0DEAD  # the word that fresh memory is full of
FREED = 0xFB  # the byte that freed memory is full of
RED = 0xFD  # the byte that red zones are full of
ZONE = 256  # bytes of a red zone, and so the alignment of buffers
MOST_HELD = 16 << 20  # bytes of freed memory that are held back
FRAMES = 12  # of a stack that is shown
ONE = (1, 1, 1)
SOURCE = f"""
typedef unsigned long long word;
extern "C" __global__ void check_zones(const unsigned char* block, word* log, word nbytes) {{
  if (log[0]) return;
  for (word i = 0; i < {2 * ZONE}; i++) {{
    word at = i < {ZONE} ? i : i + nbytes;
    if (block[at] == {RED}) continue;
    log[1] = at;
    log[0] = (word)block;
    return;
  }}
}}
"""


class RedZoneError(RuntimeError):
    """A kernel or a copy wrote outside a buffer.

    Attributes
    ----------
    address, nbytes : int
        Where the buffer lies.
    offset : int
        The first damaged byte, from the buffer's start: negative before it, at least ``nbytes`` behind it.
    allocated_at, freed_at : str
        The stacks of the two calls.
    """

    def __init__(self, address: int, nbytes: int, offset: int, allocated_at: str, freed_at: str) -> None:
        super().__init__(address, nbytes, offset, allocated_at, freed_at)
        self.address, self.nbytes, self.offset = address, nbytes, offset
        self.allocated_at, self.freed_at = allocated_at, freed_at

    def __str__(self) -> str:
        side = (
            f"{-self.offset} before its start" if self.offset < 0 else f"{self.offset - self.nbytes + 1} behind its end"
        )
        return (
            f"somebody wrote outside the buffer of {self.nbytes} bytes at {self.address:#x}; the first damaged byte is "
            f"{side}\nallocated at\n{self.allocated_at}freed at\n{self.freed_at}"
        )


def stack() -> str:
    """Return the caller's caller's stack."""
    return "".join(traceback.format_stack(limit=FRAMES)[:-2])


class Queue:
    """A queue puts work on a stream even while that records. Where the stream is closed, the device is waited for."""

    def __init__(self, stream: Stream) -> None:
        handle, self.stream = 0, stream
        if stream.is_open:
            handle = stream.raw
        else:
            call(lib.hiprt_wait_for_device(stream.device.index))
        release, make = core.lib.hiprt_stream_release, core.lib.hiprt_stream_create
        self.core = core.create("hiprt_stream", release, make, handle, stream.device.index)

    def fill(self, address: int, value: int, width: int, count: int) -> None:
        """Set `count` elements of `width` bytes."""
        if count:
            with self.stream.aside():
                core.call(core.lib.hiprt_fill(self.core, address, value, width, count))

    def read(self, address: int, nbytes: int) -> NDArray[Any]:
        """Return bytes, once everything before on the stream has run."""
        out = np.empty(nbytes, np.uint8)
        with self.stream.aside():
            core.call(core.lib.hiprt_copy(self.core, int(out.ctypes.data), address, nbytes, lib.hipMemcpyDeviceToHost))
            self.wait()
        return out

    def wait(self) -> None:
        """Wait until everything on the stream has run."""
        with relaxed(), self.stream.aside():
            core.call(core.lib.hiprt_stream_synchronize(self.core))


class Log:
    """A device's log is where its graphs note the first damaged red zone: [block, offset in it], in host memory."""

    def __init__(self, stream: Stream) -> None:
        with relaxed():
            self.memory = handle(lib.hipHostMalloc, 16, lib.hipHostMallocDefault)
        self.words = np.ctypeslib.as_array((core_uint64 * 2).from_address(self.memory))
        self.words[:] = 0
        self.array = view(self.memory, 16, stream)
        code, _ = compile_source(SOURCE, "hiprt_zones.hip")
        arguments = [Argument("block", READ), Argument("log", READ_WRITE), Argument("nbytes", SCALAR, "uint64")]
        self.check = Function(Module(code), "check_zones", arguments)


core_uint64 = np.ctypeslib.as_ctypes_type(np.uint64)


def view(address: int, nbytes: int, stream: Stream, pool: Any = None) -> Array:
    """Return bytes that somebody else owns as an array."""
    return Array(Buffer(address, nbytes, stream.device.index, pool=pool), (nbytes,), np.dtype(np.uint8), address)


held: deque[Buffer] = deque()
warned: deque[RedZoneError] = deque()
logs: dict[int, Log] = {}  # by device
# What is known of buffers in steps, by the first byte of their block: nbytes, allocated_at, freed_at.
stacks: dict[int, tuple[int, str, str]] = {}


@cache
def pages() -> Pages:
    """Return the closed pages of the process."""
    return Pages()


Take = Callable[[int, Stream], Buffer]


def allocate(pool: Holder, take: Take, nbytes: int, stream: Stream) -> Buffer:
    """Return memory of a pool, full of `FRESH`, between red zones; arguments and errors as of `parts.allocate`."""
    report()
    size, unit = nbytes + 2 * ZONE, PAGE if closes(pool) else ZONE
    inner = take_or_release(take, -(-size // unit) * unit + (unit if unit > ZONE else 0), stream)
    start = -(-inner.address // unit) * unit
    if closes(pool):
        pages().open(inner.address, inner.address + inner.nbytes)
    first, last = start + ZONE, start + ZONE + nbytes
    parts = (start, RED, 1, ZONE), (first, FRESH, 4, -(-nbytes // 4)), (last, RED, 1, ZONE)
    allocated_at = stack()
    if records(pool, stream):
        log_of(stream)
        for part in parts:
            if part[3]:
                stream.fill(*part)
    else:
        queue = Queue(stream)
        for part in parts:
            queue.fill(*part)
    uses = inner.uses
    free = partial(free_checked, pool, [inner], start, nbytes, stream, threading.get_ident(), allocated_at)
    buffer = Buffer(first, nbytes, inner.device, free, pool=pool)
    buffer.share(uses)
    buffer.belong(stream)
    if not records(pool, stream):
        stream.wait_for(buffer, core.lib.HIPRT_WRITE)
    return buffer


def free_checked(
    pool: Holder, inner: list[Buffer], start: int, nbytes: int, stream: Stream, thread: int, allocated_at: str
) -> None:
    """Check the red zones, fill with `FREED` and give the memory back; while its step records, record this instead.

    Raises
    ------
    RedZoneError
        A red zone was written to. The memory is given back all the same.
    """
    block, size = inner.pop(), nbytes + 2 * ZONE
    if thread == threading.get_ident() and records(pool, stream):
        stacks[start] = (nbytes, allocated_at, stack())
        log = log_of(stream)
        log.check(stream, ONE, ONE, view(start, size, stream, pool), log.array, nbytes)
        stream.fill(start, FREED, 1, size)
        return
    if not is_there(pool, start):
        return
    if not stream.is_open and core.lib.hiprt_captures():
        return  # the device cannot be waited for
    # What graphs have found is not raised here, because an error in a finaliser is only a warning.
    queue = Queue(stream)
    found = queue.read(start, size) != RED
    found[ZONE : ZONE + nbytes] = False
    if pool.parent is not None and np.count_nonzero(found) == 2 * ZONE:
        found[:] = False  # the step was recorded and never launched
    queue.fill(start, FREED, 1, size)
    if closes(pool) or not stream.is_open:
        # Without a stream the fill has no order with those that come to use the memory.
        queue.wait()
    if closes(pool):
        end = block.address + block.nbytes
        pages().close(Freed(start, end // PAGE * PAGE, start + ZONE, nbytes, allocated_at, stack()))
        held.append(block)
        release(MOST_HELD)
    # The error's traceback would keep the block.
    del block
    if found.any():
        raise RedZoneError(start + ZONE, nbytes, int(found.argmax()) - ZONE, allocated_at, stack())


def open_before_free(chunk: Buffer) -> None:
    """Make memory accessible before it goes back to where it came from."""
    if chunk.free is not None and library.current().provider.is_host:
        free, start = chunk.free, chunk.address
        chunk.free = partial(reopen, start, start + chunk.nbytes, free)


def take_or_release(take: Take, nbytes: int, stream: Stream) -> Buffer:
    """Return memory of a pool; where it has none left, what is held back is released first."""
    try:
        return take(nbytes, stream)
    except MemoryError:
        if not release():
            raise
        return take(nbytes, stream)


def release(most: int = 0) -> bool:
    """Release what was held back longest until at most `most` bytes are held; whether there was anything to release."""
    released = False
    while sum(block.nbytes for block in list(held)) > most:
        with suppress(IndexError):
            held.popleft()
            released = True
    return released


def reopen(start: int, end: int, free: Any) -> None:
    """Open pages and free them."""
    pages().open(start, end)
    free()


def closes(pool: Holder) -> bool:
    """Whether a pool's free memory can be made inaccessible, which that of a step cannot."""
    return pool.parent is None and library.current().provider.is_host


def is_there(pool: Holder, address: int) -> bool:
    """Whether a pool still has the memory, since Python's collector finalises a cycle in any order."""
    chunks = list(pool.chunks.values())
    return any(each.address <= address < each.address + each.nbytes and each.free is not None for each in chunks)


def records(pool: Holder, stream: Stream) -> bool:
    """Whether a step with this memory is being recorded."""
    return stream.recording and stream.memory is pool


def log_of(stream: Stream) -> Log:
    """Return a device's log."""
    if stream.device.index not in logs:
        logs[stream.device.index] = Log(stream)
    return logs[stream.device.index]


def check_steps() -> None:
    """Raise what graphs that have run by now have found.

    Raises
    ------
    RedZoneError
        A red zone of a step's memory was written to.
    """
    if warned:
        raise warned.popleft()
    read_logs()


def read_logs() -> None:
    """Raise what graphs have found since the last time."""
    for log in list(logs.values()):
        block, at = (int(word) for word in log.words)
        if block:
            log.words[0] = 0
            nbytes, allocated_at, freed_at = stacks[block]
            offset = at - ZONE
            raise RedZoneError(block + ZONE, nbytes, offset, allocated_at, freed_at)


@atexit.register
def report() -> None:
    """Warn about what `check_steps` will raise."""
    try:
        read_logs()
    except RedZoneError as error:
        warned.append(error.with_traceback(None))
        warnings.warn(str(error), HipWarning, stacklevel=3)
