"""Pool: memory kept for reuse, given out again in stream order.

A freed block may be used at once by later work on its own stream, since that runs after the work that used it before
(G1); other streams of the device get it once an event behind the free has happened. `Pool.trim` returns to the source
what nobody uses. Of the free blocks that fit, the one that was made first goes first, so that a sequence of requests
and frees that is repeated gets the same addresses each time, the first included.

A pool whose source is another pool holds the memory of a step. Executable graphs go on using its blocks after they are
free, so it neither gives them to other streams nor trims itself.

The C core keeps the books (`allocator/native/pool.h`) and never calls Python while it holds its lock, so finalisers may
give blocks back at any time, on any thread.
"""

from __future__ import annotations

import itertools
import weakref
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from hiprt import core, library
from hiprt.buffer import Allocate, Buffer, hip_malloc
from hiprt.errors import OutOfMemoryError, check
from hiprt.flags import flags
from hiprt.stream import Stream

if TYPE_CHECKING:
    from hiprt.allocator.arena import Arena

__all__ = ["Block", "Pool", "PoolStats", "default_pool", "pools", "stats"]

MOST = 1 << 60  # bytes; no request of more is served
take, give = core.lib.hiprt_pool_take, core.lib.hiprt_pool_give
numbers = itertools.count()


@dataclass(frozen=True)
class PoolStats:
    """Sizes in bytes.

    Attributes
    ----------
    allocated : int
        In the hands of users.
    reserved : int
        Taken from the source, used or free.
    peak : int
        High-water mark of ``allocated``.
    fragmentation : float
        Part of the free memory that is not in the largest free block: 0 when it is all in one.
    """

    allocated: int
    reserved: int
    peak: int
    fragmentation: float = 0.0


@dataclass(frozen=True)
class Block:
    """A piece of a pool's memory.

    Attributes
    ----------
    address, nbytes : int
    chunk : int
        Number of the piece of the source's memory that it lies in.
    stream : int
        Number of the stream that uses it, or used it last.
    is_used : bool
    """

    address: int
    nbytes: int
    chunk: int
    stream: int
    is_used: bool


def size_class(nbytes: int) -> int:
    """Return the block size for a request: the next of eight steps between powers of two."""
    return int(core.lib.hiprt_pool_class(nbytes))


class Pool:
    """Blocks by size and stream over a source of memory.

    Parameters
    ----------
    source : callable
        Where new memory comes from: ``hip_malloc``, or another pool's `allocate`.
    name : str, optional
        For reports.
    """

    def __init__(self, source: Allocate, name: str = "") -> None:
        self.source = source
        self.name = name or f"pool {next(numbers)}"
        parent = getattr(source, "__self__", None)
        self.parent = parent if isinstance(parent, Pool) else None
        self.lanes: dict[int, Any] = {}
        # Open streams: whether hiprt made them, and their device.
        self.streams: dict[int, tuple[weakref.ref[Stream], bool, int]] = {}
        self.chunks: dict[int, Buffer] = {}
        self.numbers = itertools.count()
        self.core = core.ffi.gc(core.created(core.lib.hiprt_pool_create()), core.lib.hiprt_pool_release)
        pools.add(self)

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return memory that is ready for work on `stream`.

        Parameters
        ----------
        nbytes : int
            Size in bytes. Rounded up to a size class of at most 9/8 of it, at least 512.
        stream : Stream
            The stream that may use the memory.

        Raises
        ------
        OutOfMemoryError
            The source has no memory left, or ``HIPRT_ALLOC_LIMIT_MB`` is reached, after a trim and a wait for what
            other streams still use. Says who holds the most.
        """
        lane = self.lanes.get(stream.number) or self.lane(stream)
        block = take(self.core, lane, nbytes) or self.grow(nbytes, stream, lane)
        return Buffer(block.address, nbytes, stream.device.index, partial(give, self.core, block), pool=self)

    def lane(self, stream: Stream) -> Any:
        """Return what the core knows a stream by."""
        can_fence = self.parent is None and stream.hip_stream is not None
        index = stream.device.index
        made = core.lib.hiprt_pool_lane(self.core, stream.number, stream.handle, index, can_fence)
        lane = self.lanes.setdefault(stream.number, core.created(made))
        if can_fence:
            self.streams[stream.number] = weakref.ref(stream), stream.owned, index
        return lane

    def grow(self, nbytes: int, stream: Stream, lane: Any) -> Any:
        """Return a block although the stream has none that fits: from another stream, else from the source."""
        if self.parent is not None:
            return self.extend(nbytes, stream, lane)
        block = self.take_over(nbytes, lane, wait=False)
        if block:
            return block
        try:
            return self.extend(nbytes, stream, lane)
        except MemoryError as error:
            cause = error
        try:
            if self.trim():
                return self.extend(nbytes, stream, lane)
        except MemoryError as error:
            cause = error
        block = self.take_over(nbytes, lane, wait=True)
        if block:
            return block
        code, name = getattr(cause, "code", core.lib.HIPRT_E_MEMORY), getattr(cause, "name", type(cause).__name__)
        raise OutOfMemoryError(code, name, f"allocate({nbytes} bytes)", self.describe()) from cause

    def take_over(self, nbytes: int, lane: Any, *, wait: bool) -> Any:
        """Return a block that another stream is done with, or None."""
        self.close_lanes()
        out = core.ffi.new("hiprt_block **")
        core.call(core.lib.hiprt_pool_take_over(self.core, lane, nbytes, wait, out))
        return out[0] or None

    def close_lanes(self) -> None:
        """Let others have what was freed on streams that are closed by now; waits for the device if there are any."""
        for number, (known, is_owned, index) in list(self.streams.items()):
            stream = known()
            if stream is None or stream.hip_stream is None:
                self.streams.pop(number, None)
                check(library.hip().hipSetDevice(index), "hipSetDevice")
                check(library.hip().hipDeviceSynchronize(), "hipDeviceSynchronize")
                # Somebody else's stream may live on under another wrapper.
                core.lib.hiprt_pool_close(self.core, self.lanes[number], is_owned)

    def extend(self, nbytes: int, stream: Stream, lane: Any) -> Any:
        """Take a new chunk from the source, and return it as one block."""
        limit = flags.alloc_limit_mb << 20 if self.parent is None else 0
        size = size_class(min(nbytes, MOST))
        if nbytes > MOST or core.lib.hiprt_pool_reserve(self.core, size, limit):
            detail = f"HIPRT_ALLOC_LIMIT_MB is {flags.alloc_limit_mb}"
            raise OutOfMemoryError(core.lib.HIPRT_E_LIMIT, "HIPRT_E_LIMIT", f"allocate({nbytes} bytes)", detail)
        try:
            chunk = self.source(size, stream)
        except BaseException:
            core.lib.hiprt_pool_cancel(self.core, size)
            raise
        number = next(self.numbers)
        # Held here and not by its users: in a reference cycle the collector would finalise both at once.
        self.chunks[number] = chunk
        return core.created(core.lib.hiprt_pool_add(self.core, lane, number, chunk.address, size))

    def trim(self) -> int:
        """Return every chunk that nobody uses to the source; the number of bytes returned."""
        out, returned = core.ffi.new("uint64_t[]", 256), 0
        while count := core.lib.hiprt_pool_trim(self.core, len(out), out):
            for number in core.ffi.unpack(out, count):
                returned += self.chunks.pop(number).nbytes
        return returned

    def stats(self) -> PoolStats:
        """Return the pool's sizes."""
        sizes = core.ffi.new("hiprt_pool_sizes *")
        core.lib.hiprt_pool_measure(self.core, sizes)
        free = sizes.reserved - sizes.allocated
        fragmentation = 1 - sizes.largest_free / free if sizes.largest_free else 0.0
        return PoolStats(sizes.allocated, sizes.reserved, sizes.peak, fragmentation)

    def blocks(self) -> list[Block]:
        """Return all blocks, by age of their memory, then address."""
        count = core.lib.hiprt_pool_list(self.core, 0, core.ffi.NULL)
        entries = core.ffi.new("hiprt_pool_entry[]", count + 64)
        count = min(core.lib.hiprt_pool_list(self.core, len(entries), entries), len(entries))
        rows = core.ffi.unpack(entries, count) if count else []
        return [Block(e.address, e.nbytes, e.chunk, e.lane, bool(e.is_used)) for e in rows]

    def holders(self) -> list[tuple[str, Block]]:
        """Return the blocks in use, each with who holds it: a step by its pool's name, else a stream's arrays."""
        inner = {
            chunk.address: pool.name for pool in list(pools) if pool.parent is self for chunk in [*pool.chunks.values()]
        }
        used = [block for block in self.blocks() if block.is_used]
        return [(inner.get(block.address, f"arrays of stream {block.stream}"), block) for block in used]

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


pools: weakref.WeakSet[Pool | Arena] = weakref.WeakSet()
default_pool = Pool(hip_malloc, "device")


def stats() -> PoolStats:
    """Return the sizes of `default_pool`."""
    return default_pool.stats()
