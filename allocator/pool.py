"""Pool: memory kept for reuse, given out again in stream order.

A freed block may be used at once by later work on its own stream, since that runs after the work that used it before
(G1). It is never given to another stream; `Pool.trim` returns it to the source, which waits for the device. Of the free
blocks of a size the one that was made first goes first, so that a sequence of requests and frees that is repeated gets
the same addresses each time, the first included.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from dataclasses import dataclass
from functools import partial

from hiprt.buffer import Allocate, Buffer, hip_malloc
from hiprt.stream import Stream

__all__ = ["Pool", "PoolStats", "default_pool", "stats"]

GRAIN = 512  # bytes; also the alignment of every block
STEPS = 8  # size classes per doubling, so at most 1/8 of a block is unused


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
    """

    allocated: int
    reserved: int
    peak: int


def size_class(nbytes: int) -> int:
    """Return the block size for a request: the next of eight steps between powers of two."""
    grains = max(1, -(-nbytes // GRAIN))
    step = max(1, (1 << (grains - 1).bit_length()) // (2 * STEPS))
    return -(-grains // step) * step * GRAIN


class Pool:
    """Blocks by size class and stream over a source of memory.

    Parameters
    ----------
    source : callable
        Where new blocks come from: ``hip_malloc``, or another pool's `allocate`.
    """

    def __init__(self, source: Allocate) -> None:
        self.source = source
        self.free: dict[tuple[int, int], list[tuple[int, Buffer]]] = {}  # heaps by block number
        # Held here and not only by their users: in a reference cycle the collector would finalise both at once.
        self.used: dict[int, tuple[int, Buffer]] = {}
        self.numbers = itertools.count()
        self.lock = threading.Lock()
        self.allocated = self.reserved = self.peak = 0

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
            The source has no memory left, after one trim.
        """
        size = size_class(nbytes)
        key = (stream.number, size)
        try:
            number, block = heapq.heappop(self.free[key])
        except (KeyError, IndexError):
            number, block = next(self.numbers), self.grow(size, stream)
        address = block.address
        self.used[address] = number, block
        with self.lock:
            self.allocated += size
            self.peak = max(self.peak, self.allocated)
        return Buffer(address, nbytes, block.device, partial(self.give_back, key, address), pool=self)

    def grow(self, size: int, stream: Stream) -> Buffer:
        """Take a new block from the source; on exhaustion give back what is free, then try once more."""
        try:
            block = self.source(size, stream)
        except MemoryError:
            if not self.trim():
                raise
            block = self.source(size, stream)
        with self.lock:
            self.reserved += size
        return block

    def give_back(self, key: tuple[int, int], address: int) -> None:
        """Put a block into the free list of its stream. Called by finalisers: takes no lock that `allocate` holds."""
        heapq.heappush(self.free.setdefault(key, []), self.used.pop(address))
        self.allocated -= key[1]

    def trim(self) -> int:
        """Return every free block to the source; the number of bytes returned."""
        returned = 0
        for key, blocks in list(self.free.items()):
            while blocks:
                blocks.pop()
                returned += key[1]
        with self.lock:
            self.reserved -= returned
        return returned

    def stats(self) -> PoolStats:
        """Return the pool's sizes."""
        return PoolStats(self.allocated, self.reserved, self.peak)


default_pool = Pool(hip_malloc)


def stats() -> PoolStats:
    """Return the sizes of `default_pool`."""
    return default_pool.stats()
