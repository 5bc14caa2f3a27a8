"""Upload: weights on their way from files to the device, through pinned memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Array, Event, Stream, current_stream, empty
from hiprt.bench.engine.matrix import Rows, copied, read
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.buffer import relaxed
from hiprt.core import ffi
from hiprt.hip import call, handle, lib

__all__ = ["Upload"]

SMALLEST, LARGEST = 1 << 20, 32 << 20  # bytes of a piece
PARTS = 64  # pieces that all bytes make at least, so that the pieces in memory are few of them
THREADS = 16  # that fill a piece together: one alone reads slower than a link copies
SHARE = 1 << 20  # bytes of a piece that are worth a thread


class Piece:
    """Pinned memory from which a stream copies to the device.

    Parameters
    ----------
    nbytes : int

    Attributes
    ----------
    address : int
    bytes : ndarray of uint8
    event : Event
        The end of the last copy, after which the memory may be filled again.

    Raises
    ------
    HipError
        The host has no memory that can be pinned.
    """

    def __init__(self, nbytes: int) -> None:
        self.event = Event(timing=False)
        with relaxed():
            self.address = handle(lib.hipHostMalloc, nbytes, lib.hipHostMallocDefault, detail=f"{nbytes} bytes pinned")
        self.bytes: NDArray[np.uint8] = np.frombuffer(ffi.buffer(ffi.cast("uint8_t *", self.address), nbytes), np.uint8)

    def close(self) -> None:
        """Wait for the last copy, and give the memory back."""
        address, self.address = self.address, 0
        if address:
            with relaxed():
                try:
                    self.event.synchronize()
                finally:
                    call(lib.hipHostFree(address))

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process takes its memory with it.
        if getattr(self, "address", 0) and not finalizing():
            self.close()


class Upload:
    """Copies arrays of the host to the device: threads fill one pinned piece while the device copies from another.

    A copy from memory that is not pinned goes through pieces of the driver's, which one thread fills.

    Parameters
    ----------
    nbytes : int
        How many bytes there are in all.
    tell : callable
        Takes the bytes that were copied so far, and `nbytes`, behind every piece.
    files : sequence of SafetensorsFile, optional
        Files of which arrays may be views. These are read from the files: mapping their pages costs more than reading
        them, and where the device is the host, a model would take their memory twice.
    """

    def __init__(
        self, nbytes: int, tell: Callable[[int, int], object], files: Collection[SafetensorsFile] = ()
    ) -> None:
        self.nbytes, self.tell, self.files = nbytes, tell, files
        self.size = max(SMALLEST, min(LARGEST, nbytes // PARTS))
        self.pieces: list[Piece] = []
        self.threads = ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1))
        self.copied = 0

    def __call__(self, rows: Rows) -> Array:
        """Copy an array to the device on the current stream."""
        stream, made = current_stream(), empty(rows.shape, rows.dtype)
        if not made.size:
            return made
        count = len(made)
        width = made.nbytes // count
        step = max(1, self.size // width)
        for start in range(0, count, step):
            stop = min(count, start + step)
            self.copy(rows, start, stop, made, width, stream)
        return made

    def copy(self, rows: Rows, start: int, stop: int, made: Array, width: int, stream: Stream) -> None:
        """Copy some rows, of `width` bytes each."""
        nbytes = (stop - start) * width
        piece = self.next_piece(nbytes)
        self.fill(rows, start, stop, piece.bytes[:nbytes].view(rows.dtype).reshape(stop - start, *rows.shape[1:]))
        kind = lib.hipMemcpyHostToDevice
        stream.copy(made.address + start * width, piece.address, nbytes, kind, to=made.buffer)
        piece.event.record(stream)
        self.copied += nbytes
        self.tell(self.copied, self.nbytes)

    def next_piece(self, nbytes: int) -> Piece:
        """Return a piece of at least this size that may be filled; there are two, which take turns."""
        piece = self.pieces.pop(0) if len(self.pieces) > 1 else None
        if piece is not None:
            piece.event.synchronize()
        if piece is None or piece.bytes.size < nbytes:
            piece = Piece(max(self.size, nbytes))
        self.pieces.append(piece)
        return piece

    def fill(self, rows: Rows, start: int, stop: int, into: NDArray[Any]) -> None:
        """Read some rows, with as many threads as are worth it."""
        shares = min(THREADS, len(into), max(1, into.nbytes // SHARE))
        if shares == 1:
            read(rows, start, stop, into, self.take)
            return
        ends = [len(into) * i // shares for i in range(shares + 1)]
        made = [self.threads.submit(read, rows, start + a, start + b, into[a:b], self.take) for a, b in pairwise(ends)]
        for each in made:
            each.result()

    def take(self, rows: NDArray[Any], into: NDArray[Any]) -> None:
        """Copy an array to pinned memory, from its file where it has one."""
        if not into.flags.c_contiguous:
            for one, part in zip(rows, into):
                self.take(one, part)
            return
        file = next((file for file in self.files if file.holds(rows)), None)
        if file is None:
            copied(rows, into)
        else:
            file.read(rows, into)

    def close(self) -> None:
        """Wait for the copies, and give the pinned memory back."""
        self.threads.shutdown()
        while self.pieces:
            self.pieces.pop().close()
