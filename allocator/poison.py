"""Poison: memory that shows who reads it too early, uses it too late or writes past its end.

Under ``HIPRT_ALLOC_POISON=1`` every array lies between two red zones. Fresh memory is filled with `FRESH`, a NaN in
float32; freed memory with the byte `FREED`, in stream order. At the free the red zones are read, which waits for the
stream. The pools of recorded steps are left as they are: their blocks are used by graphs launched later, so run steps
with ``HIPRT_GRAPH=0`` to have their intermediates checked too.
"""

from __future__ import annotations

import traceback
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import core, library
from hiprt.allocator.pool import Pool
from hiprt.buffer import Buffer
from hiprt.errors import check
from hiprt.stream import Stream

__all__ = ["FREED", "FRESH", "RED", "ZONE", "Poison", "RedZoneError"]

FRESH = 0xFFC0DEAD  # a word
FREED = 0xFB  # a byte, as is the next
RED = 0xFD
ZONE = 256  # bytes before and behind a buffer; also the alignment that is left
DEVICE_TO_HOST = 2
FRAMES = 12


class RedZoneError(RuntimeError):
    """A kernel or a copy wrote outside a buffer.

    Attributes
    ----------
    address, nbytes : int
        Of the buffer.
    offset : int
        Of the first damaged byte, from the buffer's start: negative before it, at least ``nbytes`` behind it.
    allocated_at, freed_at : str
        Stacks.
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
    """A stream's work put there directly, even while the stream records; with the stream gone, the device's."""

    def __init__(self, stream: Stream) -> None:
        handle = 0
        if stream.hip_stream is not None:
            handle = stream.handle
        else:
            check(library.hip().hipSetDevice(stream.device.index), "hipSetDevice")
            check(library.hip().hipDeviceSynchronize(), "hipDeviceSynchronize")
        made = core.lib.hiprt_stream_create(handle, stream.device.index)
        self.core = core.ffi.gc(core.created(made), core.lib.hiprt_stream_release)

    def fill(self, address: int, value: int, width: int, count: int) -> None:
        """Set elements."""
        if count:
            core.call(core.lib.hiprt_fill(self.core, address, value, width, count))

    def read(self, address: int, nbytes: int) -> NDArray[Any]:
        """Return bytes, once the stream has come here."""
        out = np.empty(nbytes, np.uint8)
        core.call(core.lib.hiprt_copy(self.core, int(out.ctypes.data), address, nbytes, DEVICE_TO_HOST))
        core.call(core.lib.hiprt_stream_synchronize(self.core))
        return out


class Poison:
    """An allocator over a pool that guards what it gives out.

    Parameters
    ----------
    pool : Pool
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return memory full of `FRESH` between red zones.

        Raises
        ------
        OutOfMemoryError
            As `Pool.allocate`.
        """
        inner = self.pool.allocate(nbytes + 2 * ZONE, stream)
        address = inner.address + ZONE
        queue = Queue(stream)
        queue.fill(inner.address, RED, 1, ZONE)
        queue.fill(address, FRESH, 4, -(-nbytes // 4))
        queue.fill(address + nbytes, RED, 1, ZONE)
        free = partial(self.free, [inner], nbytes, stream, stack())
        return Buffer(address, nbytes, inner.device, free, pool=self.pool)

    @staticmethod
    def free(inner: list[Buffer], nbytes: int, stream: Stream, allocated_at: str) -> None:
        """Check the red zones, fill with `FREED`, give the memory back.

        Raises
        ------
        RedZoneError
            A red zone was written to. The memory is given back all the same.
        """
        block = inner.pop()
        queue = Queue(stream)
        found = queue.read(block.address, nbytes + 2 * ZONE) != RED
        found[ZONE : ZONE + nbytes] = False
        address = block.address + ZONE
        queue.fill(block.address, FREED, 1, block.nbytes)
        # Before raising: the error's traceback would keep it.
        del block
        if found.any():
            raise RedZoneError(address, nbytes, int(found.argmax()) - ZONE, allocated_at, stack())
