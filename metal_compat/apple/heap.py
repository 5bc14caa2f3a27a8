"""The heap: one MTLHeap with a few large MTLBuffers, which arrays, arenas and argument buffers get pieces of.

Few buffers mean few residency calls for any step. Never run on Apple hardware.
"""

from __future__ import annotations

import bisect
import threading
from typing import Any

from hiprt.buffer import Buffer
from hiprt.errors import OutOfMemoryError
from hiprt.stream import Stream

__all__ = ["Heap"]

ALIGNMENT = 256
# An indirect command binds a buffer at 32 bits of offset (found by tinygrad).
CHUNK = 1 << 32
OUT_OF_MEMORY = 2


def out_of_memory(call: str, detail: str) -> OutOfMemoryError:
    """Return the exception for memory that Metal, or the heap, does not have."""
    return OutOfMemoryError(OUT_OF_MEMORY, "hipErrorOutOfMemory", call, detail)


class Heap:
    """Memory that the host and the GPU share. Metal tracks no hazards in it: order comes from our edges and fences.

    Parameters
    ----------
    metal : module
        PyObjC's Metal.
    device : MTLDevice
    nbytes : int
        Size.

    Attributes
    ----------
    buffers : list of MTLBuffer
        The buffers that make up the heap, of `CHUNK` bytes each except the last.
    bases : list of int
        The GPU addresses of their first bytes, in ascending order.

    Raises
    ------
    OutOfMemoryError
        Metal does not give that much.
    """

    def __init__(self, metal: Any, device: Any, nbytes: int) -> None:
        options = metal.MTLResourceStorageModeShared | metal.MTLResourceHazardTrackingModeUntracked
        chunk = min(CHUNK, int(device.maxBufferLength()))
        sizes = [min(chunk, nbytes - start) for start in range(0, nbytes, chunk)]
        descriptor = metal.MTLHeapDescriptor.alloc().init()
        placed = (device.heapBufferSizeAndAlignWithLength_options_(size, options) for size in sizes)
        descriptor.setSize_(sum(-(-each.size // each.align) * each.align for each in placed))
        descriptor.setStorageMode_(metal.MTLStorageModeShared)
        descriptor.setHazardTrackingMode_(metal.MTLHazardTrackingModeUntracked)
        self.heap = device.newHeapWithDescriptor_(descriptor)
        made: list[Any] = (
            [self.heap.newBufferWithLength_options_(size, options) for size in sizes] if self.heap else [None]
        )
        if None in made:
            raise out_of_memory("newBufferWithLength:options:", f"no heap of {nbytes} bytes")
        self.nbytes = nbytes
        self.buffers = sorted(made, key=lambda buffer: int(buffer.gpuAddress()))
        self.bases = [int(buffer.gpuAddress()) for buffer in self.buffers]
        lengths = [int(buffer.length()) for buffer in self.buffers]
        self.views = [memoryview(b.contents().as_buffer(n)).cast("B") for b, n in zip(self.buffers, lengths)]
        # Free pieces are kept in the order of their addresses, and neighbours in one buffer are joined.
        self.starts = list(self.bases)
        self.sizes = lengths
        self.lock = threading.RLock()

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return a buffer. Work that uses the buffer must keep a reference to it until that work has run.

        Raises
        ------
        OutOfMemoryError
            No free piece is large enough.
        """
        size = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        with self.lock:
            at = next((i for i, free in enumerate(self.sizes) if free >= size), None)
            if at is None:
                raise out_of_memory("Heap.allocate", f"{nbytes} bytes; {sum(self.sizes)} of {self.nbytes} are free")
            start = self.starts[at]
            if self.sizes[at] == size:
                del self.starts[at], self.sizes[at]
            else:
                self.starts[at] += size
                self.sizes[at] -= size
        return Buffer(start, nbytes, stream.device.index, lambda: self.free(start, size), owner=self)

    def free(self, start: int, size: int) -> None:
        """Give a piece back."""
        with self.lock:
            at = bisect.bisect(self.starts, start)
            self.starts.insert(at, start)
            self.sizes.insert(at, size)
            for i in (at, at - 1):
                end = self.starts[i] + self.sizes[i] if 0 <= i < len(self.starts) - 1 else 0
                if end and end == self.starts[i + 1] and end not in self.bases:
                    self.sizes[i] += self.sizes[i + 1]
                    del self.starts[i + 1], self.sizes[i + 1]

    def place(self, address: int) -> tuple[int, int]:
        """Return the number of the buffer that an address lies in, and the offset in it.

        Raises
        ------
        ValueError
            The address lies in no buffer: the array belongs to another device.
        """
        number = bisect.bisect(self.bases, address) - 1
        if number < 0 or address - self.bases[number] >= len(self.views[number]):
            raise ValueError(f"address {address:#x} is not in the heap of this device")
        return number, address - self.bases[number]

    def view(self, address: int, nbytes: int) -> memoryview:
        """Return a view of bytes for the host; the GPU must not be using them."""
        number, at = self.place(address)
        return self.views[number][at : at + nbytes]
