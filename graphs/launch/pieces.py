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
# Bytes of a piece that is written. A step writes a row of each cache, and the whole piece goes to the host and back.
# Caches of 5 GB still have no more than 330,000 of them, which numpy compares in a millisecond.
LARGEST_WRITTEN = 1 << 14
THREADS = 64  # few, since each adds to the sum of its piece
# Each word is hashed with its address, and the hashes are added, so that their order does not matter. A thread asks for
# four pairs of words before it needs the first, because memory is read at full speed only with many on their way.
SOURCE = """
typedef unsigned long long word;
struct alignas(16) pair { word first, second; };
static __device__ word mix(word x, word address) {
  x += address * 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
static __device__ word mix_pair(pair x, word address) { return mix(x.first, address) + mix(x.second, address + 8); }
static __device__ pair load(word address) { return *(const pair*)address; }
extern "C" __global__ void hiprt_fingerprint(const word* extents, word* sums) {
  const word start = extents[2 * blockIdx.x], end = extents[2 * blockIdx.x + 1];
  const word up = (start + 15) & ~15ull, down = end & ~15ull;
  const word first = up < end ? up : end, last = down > first ? down : first, step = 16 * blockDim.x;
  word sum = 0, at = first + 16 * threadIdx.x;
  for (; at + 3 * step < last; at += 4 * step) {
    const pair a = load(at), b = load(at + step), c = load(at + 2 * step), d = load(at + 3 * step);
    sum += mix_pair(a, at) + mix_pair(b, at + step) + mix_pair(c, at + 2 * step) + mix_pair(d, at + 3 * step);
  }
  for (; at < last; at += step) sum += mix_pair(load(at), at);
  for (at = start + threadIdx.x; at < first; at += blockDim.x) sum += mix(*(const unsigned char*)at, at);
  for (at = last + threadIdx.x; at < end; at += blockDim.x) sum += mix(*(const unsigned char*)at, at);
  atomicAdd(sums + blockIdx.x, sum);
}
"""


@cache
def fingerprint(device: int) -> Function:
    """Return the kernel on a device, which is the current one."""
    code, _ = compile_source(SOURCE, "hiprt_fingerprint.hip")
    return Function(Module(code), "hiprt_fingerprint", [Argument("extents", READ), Argument("sums", READ_WRITE)])


def lie_within(starts: Sums, ends: Sums, extents: Iterable[Extent]) -> Mask:
    """Return which pieces lie in memory that is cut at the ends of all `extents`."""
    merged = np.array(coalesce(extents), np.uint64).reshape(-1, 2)
    if not len(merged):
        return np.zeros(len(starts), np.bool_)
    nearest = np.searchsorted(merged[:, 0], starts, "right") - 1
    found: Mask = (nearest >= 0) & (ends <= merged[nearest, 1])
    return found


class Pieces:
    """Device memory, cut where somebody declares that it ends, and into pieces of a bounded size.

    Parameters
    ----------
    extents : list of Extent
        The memory; disjoint and sorted.
    cuts : iterable of int
        Addresses at which a piece ends and the next one begins.
    stream : Stream
        Fingerprints are taken in its order.
    written : iterable of Extent, optional
        Memory that is likely to change, which is cut finer; its ends are among the cuts.

    Attributes
    ----------
    starts, ends : array of uint64
        The first address of each piece, and one past its last.
    owners : array of int64
        The place of the extent that each piece lies in: neighbours may belong to two allocations, which no copy spans.
    """

    def __init__(
        self, extents: list[Extent], cuts: Iterable[int], stream: Stream, written: Iterable[Extent] = ()
    ) -> None:
        self.stream = stream
        outer = np.array(extents, np.uint64).reshape(-1, 2)
        marks = np.unique(np.concatenate([outer.ravel(), np.fromiter(cuts, np.uint64)]))
        is_inside = lie_within(marks[:-1], marks[1:], extents)
        starts, ends = marks[:-1][is_inside], marks[1:][is_inside]
        owners = np.searchsorted(outer[:, 0], starts, "right") - 1
        # Bounded sizes count from where the extent begins, so that steps with other cuts have most pieces alike.
        base = outer[owners, 0]
        sizes = np.where(lie_within(starts, ends, written), np.uint64(LARGEST_WRITTEN), np.uint64(LARGEST))
        first, last = (starts - base) // sizes, (ends - 1 - base) // sizes
        counts = (last - first + 1).astype(np.intp)
        which = np.repeat(np.arange(len(starts)), counts)
        turns = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        points = base[which] + (first[which] + turns.astype(np.uint64)) * sizes[which]
        self.starts = np.maximum(starts[which], points)
        self.ends = np.minimum(ends[which], points + sizes[which])
        self.owners = owners[which]
        with use_stream(stream):
            self.table = array(np.stack([self.starts, self.ends], 1))
            self.sums = empty(len(self), np.uint64)

    def __len__(self) -> int:
        return len(self.starts)

    def within(self, extents: Iterable[Extent]) -> Mask:
        """Return which pieces lie in memory that is cut at the ends of all `extents`."""
        return lie_within(self.starts, self.ends, extents)

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
