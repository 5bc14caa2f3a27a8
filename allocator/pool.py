"""Pools: memory kept for reuse, given out again in stream order.

A freed block may be used at once by later work on its own stream, since that runs after the work that used it before
(G1). Other streams of the device get it once an event behind the free has happened. `Pool.trim` returns to the source
what nobody uses. Of the free blocks that fit, the one that was made first goes first, so that a sequence of requests
and frees that is repeated gets the addresses that it had the first time.

A pool whose source is another pool holds the memory of a step. Executable graphs go on using its blocks after they are
free, so it does not trim itself. All streams of the step share it, since its launches wait for one another (G13).

The C core keeps the books (`allocator/native/books.h`) and never calls Python while it holds its lock, so finalisers
may give blocks back at any time, on any thread.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hiprt import core
from hiprt.allocator import parts, poison
from hiprt.allocator.blocks import of_block, take
from hiprt.allocator.driver import Memory, device_memory
from hiprt.allocator.holder import Holder, PoolStats, holders
from hiprt.buffer import Allocate, Buffer, hip_malloc
from hiprt.errors import OutOfMemoryError
from hiprt.flags import flags
from hiprt.hip import call, lib
from hiprt.stream import Stream, leaving

__all__ = ["Block", "Pool", "default_pool"]

MOST = 1 << 60  # bytes; no request of more is served


@dataclass(frozen=True)
class Block:
    """A piece of a pool's memory.

    Attributes
    ----------
    address, nbytes : int
    chunk : int
        The number of the piece of the source's memory that it lies in.
    stream : int
        The number of the stream that uses it, or used it last.
    is_used : bool
    """

    address: int
    nbytes: int
    chunk: int
    stream: int
    is_used: bool


def size_class(nbytes: int) -> int:
    """Return the block size for a request: the next of eight steps between powers of two."""
    return int(core.lib.hiprt_books_class(nbytes))


class Pool(Holder):
    """A pool cuts the chunks that it takes from a source into blocks, and keeps those by size and stream.

    Parameters
    ----------
    source : callable
        Where new memory comes from: ``hip_malloc``, `device_memory`, or another pool's `allocate`.
    name : str, optional
        Shown in reports.
    is_guarded : bool, optional
        Whether buffers lie between red zones, ``HIPRT_ALLOC_POISON`` by default; False leaves their bounds out of the
        CPU device's checks as well.

    Attributes
    ----------
    extended : int
        How often it took memory from the source.
    overflows : int
        How often one call of a step that is recorded at each call asked for more than all calls before had left it.
    """

    def __init__(self, source: Allocate, name: str = "", *, is_guarded: bool | None = None) -> None:
        super().__init__(source, name)
        self.lanes: dict[int, Any] = {}
        self.numbers = itertools.count()
        self.drains = self.extended = self.overflows = 0
        self.needs_idle = False
        self.is_guarded = flags.alloc_poison if is_guarded is None else is_guarded
        # Whether the checks may be on, which only the library says for certain, and that opens at the first request.
        # They know nothing of memory that comes from elsewhere.
        is_own = source in (device_memory, hip_malloc)
        self.may_be_checked = is_guarded is None and is_own and "HIPRT_CPU_CHECK" in os.environ
        # Where the books and each lane lie, for `blocks.take`. Streams that go ask all pools, one without books too.
        self.addresses = dict[int, int]()
        self.core = core.create("hiprt_books", core.lib.hiprt_books_release, core.lib.hiprt_books_create)
        self.address = core.address(self.core)
        if self.parent is not None:
            core.lib.hiprt_books_share(self.core, self.uses)

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return memory that is ready for work on `stream`.

        Parameters
        ----------
        nbytes : int
            Size in bytes, which is rounded up to a size class of at most 9/8 of it, at least 512. While the CPU device
            checks kernels, a gap of 256 bytes behind the buffer counts as its memory.
        stream : Stream
            The stream that may use the memory.

        Raises
        ------
        OutOfMemoryError
            The source has no memory left, or ``HIPRT_ALLOC_LIMIT_MB`` is reached, after a trim, a wait for what other
            streams still use, and a look for objects that hold each other. The message says who holds the most.
        """
        if self.is_guarded:
            return poison.allocate(self, self.take, nbytes, stream)
        if self.may_be_checked and parts.are_checked():
            return parts.allocate(self, self.take, nbytes, stream)
        lane = self.addresses.get(stream.number)
        taken = lane and take(Buffer, self.address, lane, nbytes, stream.device.index, self)
        return taken or self.take(nbytes, stream)

    def take(self, nbytes: int, stream: Stream) -> Buffer:
        """Return memory as `allocate` does, without red zones."""
        device, lane = stream.device.index, self.addresses.get(stream.number) or core.address(self.lane(stream))
        taken = take(Buffer, self.address, lane, nbytes, device, self)
        if taken is not None:
            return taken
        try:
            block = self.grow(nbytes, stream, self.lane(stream))
        except OutOfMemoryError:
            if self.parent is not None or not gc.collect():
                raise
            block = None
        if block is None:
            taken = take(Buffer, self.address, lane, nbytes, device, self)
            if taken is not None:
                return taken
            block = self.grow(nbytes, stream, self.lane(stream))
        return of_block(Buffer, self.address, core.address(block), nbytes, device, self)

    def lane(self, stream: Stream) -> Any:
        """Return the core's lane of a stream, which is made at the first request."""
        # The memory of a step is one piece, whatever stream the step runs on (G13): its streams share a lane.
        number = stream.number if self.parent is None else stream.device.index
        lane = self.lanes.get(number)
        if lane is None:
            can_fence = self.parent is None and stream.is_open
            made = core.ffi.new("hiprt_lane **")
            core.call(core.lib.hiprt_books_lane(self.core, number, stream.core, can_fence, made))
            lane = self.lanes.setdefault(number, made[0])
        self.addresses[stream.number] = core.address(lane)
        return lane

    def close(self, stream: Stream, *, can_fence: bool) -> None:
        """Forget a stream: others may have its memory once what it has to do by now is done.

        Parameters
        ----------
        stream : Stream
        can_fence : bool
            Whether the stream is still open. If not, its memory waits for a trim.
        """
        self.addresses.pop(stream.number, None)
        lane = self.lanes.pop(stream.number, None) if self.parent is None else None
        if lane is not None:
            # Somebody else's stream may live on under another wrapper.
            core.lib.hiprt_books_close(self.core, lane, can_fence, stream.owned)

    def grow(self, nbytes: int, stream: Stream, lane: Any) -> Any:
        """Return a block from another stream, else from the source, because the lane has none that fits."""
        if self.parent is not None:
            return self.extend(nbytes, stream, lane)
        block = self.take_over(nbytes, lane, wait=False) or self.drain(nbytes, lane)
        errors: list[MemoryError] = []

        def extend() -> Any:
            try:
                return self.extend(nbytes, stream, lane)
            except MemoryError as error:
                # The traceback would keep alive what the callers hold.
                errors.append(error.with_traceback(None))
                return None

        block = block or extend()
        if not block and self.give_back():
            block = extend()
        block = block or self.take_over(nbytes, lane, wait=True)
        if not block:
            self.settle()
            block = extend() if self.give_back() else None
        if not block:
            raise self.exhausted(nbytes, errors.pop())
        return block

    def exhausted(self, nbytes: int, cause: MemoryError) -> OutOfMemoryError:
        """Return the error that says who holds the memory."""
        code, name = getattr(cause, "code", core.lib.HIPRT_E_MEMORY), getattr(cause, "name", type(cause).__name__)
        error = OutOfMemoryError(code, name, f"allocate({nbytes} bytes)", self.describe())
        error.__cause__ = cause
        return error

    def take_over(self, nbytes: int, lane: Any, *, wait: bool) -> Any:
        """Return a block that another stream is done with, or None."""
        out = core.ffi.new("hiprt_block **")
        core.call(core.lib.hiprt_books_take_over(self.core, lane, nbytes, wait, out))
        return out[0] or None

    def drain(self, nbytes: int, lane: Any) -> Any:
        """Wait for other streams and return a block, if more than is allowed retires there (G9); else return None."""
        most = flags.alloc_defer_max_mb << 20
        # What retires is unused, and not looked for where all that is unused is less.
        if not most or core.lib.hiprt_books_unused(self.core) <= most:
            return None
        if core.lib.hiprt_books_retiring(self.core, lane) <= most:
            return None
        self.drains += 1
        self.settle(lane)
        return self.take_over(nbytes, lane, wait=False)

    def settle(self, lane: Any = core.ffi.NULL, *, wait: bool = True) -> None:
        """Put events behind what streams have freed, all but one lane's, and wait for them."""
        core.call(core.lib.hiprt_books_settle(self.core, lane, wait))

    def extend(self, nbytes: int, stream: Stream, lane: Any) -> Any:
        """Take a new chunk from the source, and return it as one block."""
        limit = flags.alloc_limit_mb << 20 if self.parent is None else 0
        size = size_class(min(nbytes, MOST))
        if nbytes > MOST or core.lib.hiprt_books_reserve(self.core, size, limit):
            detail = f"HIPRT_ALLOC_LIMIT_MB is {flags.alloc_limit_mb}"
            raise OutOfMemoryError(core.lib.HIPRT_E_LIMIT, "HIPRT_E_LIMIT", f"allocate({nbytes} bytes)", detail)
        try:
            chunk = self.source(size, stream)
        except BaseException:
            core.lib.hiprt_books_cancel(self.core, size)
            raise
        self.extended += 1
        return self.add(chunk, size, lane, needs_idle=isinstance(chunk.owner, Memory))

    def add(self, chunk: Buffer, nbytes: int, lane: Any, *, needs_idle: bool) -> Any:
        """Enter memory into the books, for which bytes were reserved, and return it as one block in use.

        Parameters
        ----------
        chunk : Buffer
        nbytes : int
        lane : object
            The lane of the stream that uses it.
        needs_idle : bool
            Whether the chunk may go back only once its work is done, because the source does not wait for that.
        """
        number, made = next(self.numbers), core.ffi.new("hiprt_block **")
        if status := core.lib.hiprt_books_add(self.core, lane, number, chunk.address, nbytes, needs_idle, made):
            core.lib.hiprt_books_cancel(self.core, nbytes)
            raise core.failure(status)
        # The pool holds the chunk, not its users: in a reference cycle the collector would finalise both at once.
        self.chunks[number] = chunk
        if self.parent is not None:
            chunk.share(core.address(self.uses))
        self.needs_idle = self.needs_idle or needs_idle
        if self.is_guarded and self.parent is None:
            poison.open_before_free(chunk)
        elif self.may_be_checked and parts.are_checked():
            parts.divide(chunk)
        return made[0]

    def give_back(self, *, force: bool = False) -> int:
        """Return to the source the chunks that nobody uses, and whose work is done where that matters.

        Parameters
        ----------
        force : bool
            Whether the caller has waited for the device, so that all work is done.

        Returns
        -------
        int
            The number of bytes returned.
        """
        out, returned = core.ffi.new("uint64_t[]", 256), 0
        while count := core.lib.hiprt_books_trim(self.core, force, len(out), out):
            for number in core.ffi.unpack(out, count):
                chunk = self.chunks.pop(number)
                if isinstance(chunk.owner, Memory):
                    chunk.owner.is_idle = True
                returned += chunk.nbytes
        return returned

    def trim(self) -> int:
        """Return every chunk that nobody uses to the source, once its work is done; the number of bytes returned.

        Waits for the device where that cannot be known otherwise: for what was used on somebody else's stream whose
        wrapper went without being closed.
        """
        if self.is_guarded:
            poison.release()
        if self.needs_idle:
            self.settle()
            if core.lib.hiprt_books_retiring(self.core, core.ffi.NULL) and not core.lib.hiprt_captures():
                for index in {chunk.device for chunk in list(self.chunks.values())}:
                    call(lib.hiprt_wait_for_device(index))
                return self.give_back(force=True)
        return self.give_back()

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Whatever the chunks come from would not wait for the work that uses them.
        if getattr(self, "needs_idle", False) and not finalizing():
            self.trim()

    @property
    def peak(self) -> int:
        """The high-water mark in bytes, as in `stats`; this does not walk through the blocks."""
        return int(core.lib.hiprt_books_peak(self.core))

    def reset_peak(self) -> None:
        """Count the high-water mark anew, from 0; the next allocation sets it to what is in the hands of users then."""
        core.lib.hiprt_books_reset_peak(self.core)

    def stats(self) -> PoolStats:
        """Return the pool's sizes."""
        sizes = core.ffi.new("hiprt_pool_stats *")
        core.lib.hiprt_books_measure(self.core, sizes)
        free = sizes.reserved - sizes.allocated
        fragmentation = 1 - sizes.largest_free / free if sizes.largest_free else 0.0
        return PoolStats(sizes.allocated, sizes.reserved, sizes.peak, fragmentation, sizes.retiring, self.drains)

    def blocks(self) -> list[Block]:
        """Return all blocks, by age of their memory, then address."""
        count = core.lib.hiprt_books_list(self.core, 0, core.ffi.NULL)
        entries = core.ffi.new("hiprt_books_entry[]", count + 64)
        count = min(core.lib.hiprt_books_list(self.core, len(entries), entries), len(entries))
        rows = core.ffi.unpack(entries, count) if count else []
        return [Block(e.address, e.nbytes, e.chunk, e.lane, bool(e.is_used)) for e in rows]

    def holders(self) -> list[tuple[str, Block]]:
        """Return the blocks in use, each with who holds it: a step by its pool's name, else a stream's arrays."""
        inner = sorted(
            (chunk.address, pool.name)
            for pool in holders()
            if pool.parent is self
            for chunk in list(pool.chunks.values())
        )
        held = []
        for block in self.blocks():
            # A guarded chunk begins behind its block's red zone.
            at = bisect_left(inner, (block.address, ""))
            is_step = at < len(inner) and inner[at][0] < block.address + block.nbytes
            if block.is_used:
                held.append((inner[at][1] if is_step else f"arrays of stream {block.stream}", block))
        return held

    def describe(self) -> str:
        """Say in one line what is held, and by whom the most."""
        sizes, held, largest = self.stats(), Counter[str](), []
        for name, block in self.holders():
            held[name] += block.nbytes
            largest.append(block.nbytes)
        most = ", ".join(f"{name} {nbytes}" for name, nbytes in held.most_common(5)) or "nobody"
        limit = f"HIPRT_ALLOC_LIMIT_MB is {flags.alloc_limit_mb}; " if flags.alloc_limit_mb else ""
        largest = sorted(largest, reverse=True)[:5]
        return (
            f"{limit}{sizes.allocated} of {sizes.reserved} bytes are in use, held by {most}; largest blocks {largest}"
        )


def leave(stream: Stream, can_fence: bool) -> None:
    """Let all pools forget a stream."""
    for holder in holders():
        if isinstance(holder, Pool):
            holder.close(stream, can_fence=can_fence)


leaving.append(leave)
default_pool = Pool(device_memory, "device")


def trim() -> int:
    """Give memory that nobody uses back to the devices.

    Python first collects the objects that hold each other, such as a model and the step made of its method: their
    memory is free only then.

    Returns
    -------
    int
        The number of bytes given back.
    """
    gc.collect()
    # A pool that takes its memory from another gives it back when its owner goes.
    return sum(pool.trim() for pool in holders() if isinstance(pool, Pool) and pool.parent is None)
