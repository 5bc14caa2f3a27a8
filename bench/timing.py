"""Times on the device, measured by events around graph launches, and the bandwidth they are compared with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np

import hiprt
from hiprt import Array, Stream, core, library
from hiprt.allocator import default_pool
from hiprt.buffer import Buffer
from hiprt.compiler import compile_source
from hiprt.event import Event
from hiprt.graphs import Exec, Recording
from hiprt.graphs.launch import policy
from hiprt.module import READ, SCALAR, WRITE, Argument, Function, Module

__all__ = ["Apart", "elapsed_us", "join", "microseconds", "read_bandwidth"]

TRIALS = 5
LEAST_US = 2000.0  # a trial takes at least this long, so that the resolution of events does not count
MOST_LAUNCHES = 200
SOURCE = """
extern "C" __global__ void read_all(const uint4* x, unsigned* out, unsigned long long n) {
  const unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
  unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned sum = 0;
  for (; i + 3 * stride < n; i += 4 * stride) {
    const uint4 a = x[i], b = x[i + stride], c = x[i + 2 * stride], d = x[i + 3 * stride];
    sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < n; i += stride) sum ^= x[i].x ^ x[i].w;
  if (sum == 0x9e3779b9u) out[0] = sum;
}
"""
LEAST_BLOCKS, BLOCKS_PER_UNIT, THREADS = 2112, 16, 512  # of the kernel that reads; they fill any device


class Apart:
    """Memory for a recording whose buffers do not overlap, so that its nodes can run again in any order."""

    def __init__(self) -> None:
        self.held: list[Buffer] = []

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return a buffer that lives as long as this object."""
        self.held.append(default_pool.allocate(nbytes, stream))
        return self.held[-1]


def join(recording: Recording, indices: Iterable[int]) -> Recording:
    """Return a recording of some nodes of another one, as a chain."""
    part = Recording(recording.memory, "chain")
    part.keep = recording.keep
    for index in indices:
        core.call(core.lib.hiprt_recorder_slice(recording.core, index, index + 1, part.core))
    return part


def elapsed_us(launch: Callable[[], Any], stream: Stream, count: int) -> float:
    """Return the microseconds that `count` calls take on the device, from before the first to behind the last."""
    with ExitStack() as stack:
        start, end = Event(), Event()
        stack.callback(start.close)
        stack.callback(end.close)
        start.record(stream)
        for _ in range(count):
            launch()
        end.record(stream)
        end.synchronize()
        return end.elapsed_ms(start) * 1e3


def microseconds(recording: Recording, stream: Stream) -> float:
    """Return the device time of one launch of a recording as a graph: the median of some trials."""
    made = Exec(recording, stream.device.index, overlap=policy.may_overlap(stream.device))

    def launch() -> None:
        made.launch(stream)

    once = max(0.1, min(elapsed_us(launch, stream, 1) for _ in range(2)))
    count = min(MOST_LAUNCHES, max(1, round(LEAST_US / once)))
    return statistics.median(elapsed_us(launch, stream, count) / count for _ in range(TRIALS))


def read_bandwidth(stream: Stream, nbytes: int = 0) -> float:
    """Return how fast the device reads memory that is larger than its caches, in GB/s.

    Parameters
    ----------
    stream : Stream
    nbytes : int, optional
        How much memory is read; by default 2 GiB, on the CPU device 64 MiB.
    """
    nbytes = nbytes or (1 << 26 if library.current().provider.is_host else 1 << 31)
    code, _ = compile_source(SOURCE, "bench_read.hip")
    table = [Argument("x", READ), Argument("out", WRITE), Argument("n", SCALAR, "uint64")]
    read = Function(Module(code), "read_all", table)
    with hiprt.use_stream(stream):
        data: Array = hiprt.empty(nbytes // 4, np.uint32)
        data.fill_bytes(0x5A)
        out = hiprt.empty(1, np.uint32)
        recording = Recording()
        with recording.record(stream):
            blocks = max(LEAST_BLOCKS, BLOCKS_PER_UNIT * stream.device.compute_units)
            read.launch(stream, (blocks, 1, 1), (THREADS, 1, 1), data, out, nbytes // 16)
        return nbytes / microseconds(recording, stream) / 1e3
