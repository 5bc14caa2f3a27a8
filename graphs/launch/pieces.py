"""Pieces of device memory, and their fingerprints: a hash of what each piece holds, taken on the device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hiprt import core
from hiprt.array import array, empty
from hiprt.compiler import compile_source
from hiprt.graphs.record.extents import Extent, coalesce
from hiprt.module import READ, READ_WRITE, Argument, Function, Module
from hiprt.stream import Stream, use_stream

__all__ = ["Pieces", "Sums"]

Sums = NDArray[np.uint64]
Mask = NDArray[np.bool_]

LARGEST = 1 << 18  # bytes of a piece: small enough that the pieces of a model keep all of a device busy
THREADS = 256
# Each word is hashed with its address, and the hashes are added, so that their order does not matter.
SOURCE = """
typedef unsigned long long word;
static __device__ word mix(word x, word address) {
  x += address * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
extern "C" __global__ void hiprt_fingerprint(const word* extents, word* sums) {
  const word start = extents[2 * blockIdx.x], end = extents[2 * blockIdx.x + 1];
  const word up = (start + 7) & ~7ull, down = end & ~7ull;
  const word first = up < end ? up : end, last = down > first ? down : first;
  word sum = 0;
  for (word at = start + threadIdx.x; at < first; at += blockDim.x) sum += mix(*(const unsigned char*)at, at);
  for (word at = first + 8 * threadIdx.x; at < last; at += 8 * blockDim.x) sum += mix(*(const word*)at, at);
  for (word at = last + threadIdx.x; at < end; at += blockDim.x) sum += mix(*(const unsigned char*)at, at);
  atomicAdd(sums + blockIdx.x, sum);
}
"""


@cache
def fingerprint(device: int) -> Function:
    """Return the kernel on a device, which is the current one."""
    code, _ = compile_source(SOURCE, "hiprt_fingerprint.hip")
    return Function(Module(code), "hiprt_fingerprint", [Argument("extents", READ), Argument("sums", READ_WRITE)])


class Pieces:
    """Device memory, cut where somebody declares that it ends.

    Parameters
    ----------
    extents : list of Extent
        The memory; disjoint and sorted.
    cuts : iterable of int
        Addresses at which a piece ends and the next one begins.
    stream : Stream
        Fingerprints are taken in its order.

    Attributes
    ----------
    starts, ends : array of uint64
        The first address of each piece, and one past its last.
    owners : array of int64
        The place of the extent that each piece lies in: neighbours may belong to two allocations, which no copy spans.
    """

    def __init__(self, extents: list[Extent], cuts: Iterable[int], stream: Stream) -> None:
        self.stream = stream
        marks = np.unique(np.fromiter(cuts, np.uint64))
        starts, ends, counts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)], [0]
        for start, end in extents:
            low, high = np.searchsorted(marks, np.array([start, end], np.uint64))
            points = np.union1d(np.arange(start, end, LARGEST, dtype=np.uint64), marks[low:high])
            starts.append(points)
            ends.append(np.append(points[1:], np.uint64(end)))
            counts.append(len(points))
        self.starts, self.ends = np.concatenate(starts), np.concatenate(ends)
        self.owners = np.repeat(np.arange(len(counts)), counts)
        with use_stream(stream):
            self.table = array(np.stack([self.starts, self.ends], 1))
            self.sums = empty(len(self), np.uint64)

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, extents: Iterable[Extent]) -> Mask:
        """Return which pieces lie in memory that is cut at the ends of all `extents`."""
        merged = np.array(coalesce(extents), np.uint64).reshape(-1, 2)
        if not len(merged):
            return np.zeros(len(self), np.bool_)
        nearest = np.searchsorted(merged[:, 0], self.starts, "right") - 1
        found: Mask = (nearest >= 0) & (self.ends <= merged[nearest, 1])
        return found

    def fingerprints(self) -> Sums:
        """Return a hash of what each piece holds after everything that was launched on the stream."""
        found = np.zeros(len(self), np.uint64)
        if len(self):
            kernel = fingerprint(self.stream.device.index)
            self.stream.fill(self.sums.address, 0, 4, 2 * len(self))
            kernel(self.stream, (len(self), 1, 1), (THREADS, 1, 1), self.table, self.sums)
            self.stream.copy(int(found.ctypes.data), self.sums.address, found.nbytes, core.lib.hipMemcpyDeviceToHost)
            self.stream.synchronize()
        return found
