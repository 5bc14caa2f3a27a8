"""The heap: one MTLHeap with one MTLBuffer over all of it, from which arrays, arenas and argument buffers are cut.

One buffer means one binding table and one residency call for any step. Never run on Apple hardware.
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
    buffer : MTLBuffer
        All of the heap.
    base : int
        GPU address of its first byte; arrays' addresses count from it.

    Raises
    ------
    OutOfMemoryError
        Metal does not give that much.
    """

    def __init__(self, metal: Any, device: Any, nbytes: int) -> None:
        options = metal.MTLResourceStorageModeShared | metal.MTLResourceHazardTrackingModeUntracked
        descriptor = metal.MTLHeapDescriptor.alloc().init()
        descriptor.setSize_(device.heapBufferSizeAndAlignWithLength_options_(nbytes, options).size)
        descriptor.setStorageMode_(metal.MTLStorageModeShared)
        descriptor.setHazardTrackingMode_(metal.MTLHazardTrackingModeUntracked)
        self.heap = device.newHeapWithDescriptor_(descriptor)
        self.buffer = None if self.heap is None else self.heap.newBufferWithLength_options_(nbytes, options)
        if self.buffer is None:
            raise out_of_memory("newBufferWithLength:options:", f"no heap of {nbytes} bytes")
        self.nbytes = nbytes
        self.base = int(self.buffer.gpuAddress())
        self.memory = memoryview(self.buffer.contents().as_buffer(nbytes)).cast("B")
        # Free pieces in order of offsets; neighbours are joined.
        self.starts = [0]
        self.sizes = [nbytes]
        self.lock = threading.RLock()

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return a buffer; work that uses it must keep it until it has run.

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
        return Buffer(self.base + start, nbytes, stream.device.index, lambda: self.free(start, size), owner=self)

    def free(self, start: int, size: int) -> None:
        """Give a piece back."""
        with self.lock:
            at = bisect.bisect(self.starts, start)
            self.starts.insert(at, start)
            self.sizes.insert(at, size)
            for i in (at, at - 1):
                if 0 <= i and i + 1 < len(self.starts) and self.starts[i] + self.sizes[i] == self.starts[i + 1]:
                    self.sizes[i] += self.sizes[i + 1]
                    del self.starts[i + 1], self.sizes[i + 1]

    def offset(self, address: int) -> int:
        """Return where an address lies in the buffer.

        Raises
        ------
        ValueError
            It lies elsewhere: the array belongs to another device.
        """
        at = address - self.base
        if not 0 <= at <= self.nbytes:
            raise ValueError(f"address {address:#x} is not in the heap of this device")
        return at

    def view(self, address: int, nbytes: int) -> memoryview:
        """Return bytes as the host sees them; the GPU must not be using them."""
        at = self.offset(address)
        return self.memory[at : at + nbytes]
