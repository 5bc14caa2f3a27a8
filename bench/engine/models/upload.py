"""Upload: weights on their way from files to the device, through pinned memory."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from threading import local
from typing import Any

from numpy.typing import NDArray

from hiprt import Array, Event, Stream, core, current_device, current_stream, empty, set_device
from hiprt.bench.engine.errors import DOWNLOAD, CheckpointError
from hiprt.bench.engine.matrix import Rows, blocks
from hiprt.bench.engine.safetensors_file import SafetensorsFile, address_of
from hiprt.buffer import relaxed
from hiprt.core import ffi
from hiprt.hip import call, handle, lib
from hiprt.module import WRITE

__all__ = ["Upload"]

SMALLEST, LARGEST = 1 << 20, 4 << 20  # bytes of a thread's pinned memory
PARTS = 512  # times that all bytes fill it at least, so that pinned memory is little beside them
TASK = 4  # times that a thread fills it before it asks for more work
THREADS = 8  # one alone reads at a tenth of the rate at which a link copies
AHEAD = 256 << 20  # bytes that are on their way at most, so that few arrays put together on the host are kept


class Piece:
    """Pinned memory from which a stream copies to the device.

    Parameters
    ----------
    nbytes : int

    Attributes
    ----------
    address, nbytes : int
    events : list of Event
        The ends of the last copies from its halves, after which these may be filled again.

    Raises
    ------
    HipError
        The host has no memory that can be pinned.
    """

    def __init__(self, nbytes: int) -> None:
        self.events = [Event(timing=False) for _ in range(2)]
        with relaxed():
            self.address = handle(lib.hipHostMalloc, nbytes, lib.hipHostMallocDefault, detail=f"{nbytes} bytes pinned")
        self.nbytes = nbytes

    def close(self) -> None:
        """Wait for the last copies, and give the memory back."""
        address, self.address = self.address, 0
        if address:
            with relaxed():
                try:
                    for event in self.events:
                        event.synchronize()
                finally:
                    call(lib.hipHostFree(address))

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process takes its memory with it.
        if getattr(self, "address", 0) and not finalizing():
            self.close()


class Part:
    """A part of an array, and where its bytes come from.

    Parameters
    ----------
    stream : Stream
    made : Array
        The array on the device.
    start : int
        The byte of the array with which the part begins.
    """

    def __init__(self, stream: Stream, made: Array, start: int = 0) -> None:
        self.stream, self.made, self.start = stream, made, start
        self.nbytes = 0
        self.sources: list[tuple[int, int, int]] = []
        self.owners: list[NDArray[Any] | SafetensorsFile] = []

    def add(self, block: NDArray[Any], file: SafetensorsFile | None, source: int, nbytes: int) -> None:
        """Add bytes of a file, from an offset on, or of the host's memory, from an address on."""
        self.sources.append((source, nbytes, -1 if file is None else file.descriptor))
        self.owners.append(block if file is None else file)
        self.nbytes += nbytes

    def copy(self, piece: Piece) -> None:
        """Read the bytes into pinned memory, and copy them from there to the device.

        Raises
        ------
        CheckpointError
            A file has become shorter.
        OSError
            A file cannot be read.
        HipError
            The copy failed.
        """
        count, failed, error = len(self.sources), ffi.new("uint32_t *"), ffi.new("int *")
        parts, target = ffi.new("hiprt_upload_part[]", self.sources), self.made.address + self.start
        device, stream = self.stream.device.index, self.stream.raw
        memory = piece.address, piece.nbytes, [event.handle for event in piece.events]
        status = core.lib.hiprt_upload(device, stream, target, parts, count, *memory, failed, error)
        if status and failed[0] < count:
            path = self.owners[failed[0]].path
            if error[0]:
                raise OSError(error[0], os.strerror(error[0]), str(path))
            raise CheckpointError(f"{path} has become shorter while it was read", DOWNLOAD)
        core.call(status)


class Upload:
    """Copies arrays of the host to the device: several threads each fill pinned memory of their own and copy from it.

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

    Notes
    -----
    A call returns before its copies are in the stream, so that the threads have work while the caller prepares the next
    array. What uses the contents is given to `then`, or comes after `wait`.
    """

    def __init__(
        self, nbytes: int, tell: Callable[[int, int], object], files: Collection[SafetensorsFile] = ()
    ) -> None:
        self.nbytes, self.tell, self.files = nbytes, tell, files
        self.size = max(SMALLEST, min(LARGEST, nbytes // PARTS))
        self.pieces: list[Piece] = []
        workers = min(THREADS, os.cpu_count() or 1)
        self.device = current_device().index
        self.threads = ThreadPoolExecutor(workers, "hiprt-upload")
        self.mine = local()
        # Copies on their way, with their bytes, and between them what follows them.
        self.ahead: deque[tuple[Future[None], int] | Callable[[], object]] = deque()
        self.ahead_bytes = self.copied = 0

    def __call__(self, rows: Rows) -> Array:
        """Return an array on the device to which the threads copy, on the current stream."""
        stream, made = current_stream(), empty(rows.shape, rows.dtype)
        if stream.device.provider.stream is not None:
            self.copy_at_once(rows, made, stream)
            return made
        stream.wait_for(made.buffer, WRITE)
        part = Part(stream, made)
        for block in blocks(rows):
            file, source = self.source_of(block)
            at = 0
            while at < block.nbytes:
                nbytes = min(block.nbytes - at, TASK * self.size - part.nbytes)
                part.add(block, file, source + at, nbytes)
                at += nbytes
                if part.nbytes == TASK * self.size:
                    part = self.submit(part)
        if part.nbytes:
            self.submit(part)
        return made

    def copy_at_once(self, rows: Rows, made: Array, stream: Stream) -> None:
        """Copy on a stream that is not HIP's, which takes any memory of the host."""
        at, kind = made.address, lib.hipMemcpyHostToDevice
        for block in blocks(rows):
            stream.copy(at, address_of(block), block.nbytes, kind, to=made.buffer)
            at += block.nbytes
            self.copied += block.nbytes
            self.tell(self.copied, self.nbytes)

    def source_of(self, block: NDArray[Any]) -> tuple[SafetensorsFile | None, int]:
        """Return the file of which an array is a view, and where it begins there; or None, and its address."""
        for file in self.files:
            offset = file.offset_of(block)
            if offset is not None:
                return file, offset
        return None, address_of(block)

    def submit(self, part: Part) -> Part:
        """Give a part to the threads; return the one behind it."""
        self.advance(AHEAD)
        self.ahead.append((self.threads.submit(self.copy, part), part.nbytes))
        self.ahead_bytes += part.nbytes
        return Part(part.stream, part.made, part.start + part.nbytes)

    def then(self, function: Callable[[], object]) -> None:
        """Call a function once the copies asked for so far are in the stream."""
        self.ahead.append(function)

    def wait(self) -> None:
        """Wait until the copies asked for so far are in the stream."""
        self.advance(0)

    def advance(self, nbytes: int) -> None:
        """Wait until at most so many bytes are on their way."""
        while self.ahead and (self.ahead_bytes > nbytes or not nbytes):
            first = self.ahead.popleft()
            if callable(first):
                first()
                continue
            future, size = first
            self.ahead_bytes -= size
            future.result()
            self.copied += size
            self.tell(self.copied, self.nbytes)

    def copy(self, part: Part) -> None:
        """Copy a part through this thread's pinned memory."""
        piece: Piece | None = getattr(self.mine, "piece", None)
        if piece is None:
            set_device(self.device)
            self.mine.piece = piece = Piece(max(2, self.size))
            self.pieces.append(piece)
        part.copy(piece)

    def close(self) -> None:
        """Give the pinned memory back, behind the copies in the stream; what is not there yet is not copied."""
        self.threads.shutdown(cancel_futures=True)
        self.ahead.clear()
        while self.pieces:
            self.pieces.pop().close()
