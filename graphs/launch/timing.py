"""Times on the device: of one launch of a graph, of each node by itself, and the bandwidth they are compared with."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from hiprt.array import empty
from hiprt.compiler import compile_source
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.event import Event
from hiprt.graphs.launch import allowed_rungs
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.snapshot import Snapshot
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.extents import coalesce
from hiprt.graphs.record.recording import Recording
from hiprt.kernels.tuning.hold import hold
from hiprt.module import READ, SCALAR, WRITE, Argument, Function, Module
from hiprt.stream import Stream, use_stream

__all__ = ["NodeTimes", "elapsed_us", "microseconds", "node_times", "read_bandwidth"]

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
PASSES = 3
CHUNK = 128  # nodes that are handed to the device while it is held


@cache
def read_all(device: int) -> Function:
    """Compile the kernel that reads for a device."""
    code, _ = compile_source(SOURCE, "timing.hip")
    arguments = [Argument("x", READ), Argument("out", WRITE), Argument("n", SCALAR, "uint64")]
    return Function(Module(code), "read_all", arguments)


@contextmanager
def events(count: int) -> Iterator[list[Event]]:
    """Make events for a block of code."""
    with ExitStack() as stack:
        made = [Event() for _ in range(count)]
        for event in made:
            stack.callback(event.close)
        yield made


def elapsed_us(launch: Callable[[], Any], stream: Stream, count: int) -> float:
    """Return the microseconds that `count` calls take on the device, from before the first to behind the last."""
    with events(2) as (start, end):
        start.record(stream)
        for _ in range(count):
            launch()
        end.record(stream)
        end.synchronize()
        return end.elapsed_ms(start) * 1e3


def microseconds(recording: Recording, stream: Stream) -> float:
    """Return the device time of one launch of a recording as a graph: the median of some trials."""
    made = Exec(recording, stream.device.index, overlap=allowed_rungs.may_overlap(stream.device))

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
    nbytes = nbytes or (1 << 26 if stream.device.provider.is_host else 1 << 31)
    read = read_all(stream.device.index)
    with use_stream(stream):
        data = empty(nbytes // 4, np.uint32)
        data.fill_bytes(0x5A)
        out = empty(1, np.uint32)
        recording = Recording()
        with recording.record(stream):
            blocks = max(LEAST_BLOCKS, BLOCKS_PER_UNIT * stream.device.compute_units)
            read.launch(stream, (blocks, 1, 1), (THREADS, 1, 1), data, out, nbytes // 16)
        return nbytes / microseconds(recording, stream) / 1e3


@dataclass(frozen=True)
class NodeTimes:
    """What each node of a recording takes on the device when the nodes run one behind the other.

    Attributes
    ----------
    us : list of float
        Microseconds of each node: the least of some passes, less `event_us`.
    event_us : float
        What two events take with nothing between them.
    """

    us: list[float]
    event_us: float


def node_times(recording: Recording, stream: Stream) -> NodeTimes:
    """Time each node by events around it, while the nodes run eagerly in program order.

    What they write is as before afterwards. While some nodes are handed over, a kernel holds the device, so that it
    does not wait for the host between two of them.

    Parameters
    ----------
    recording : Recording
        `why_once` is empty for it.
    stream : Stream
        Must not record.

    Raises
    ------
    UndefinedOutputsError
        What the nodes wrote could not be put back.
    HipError
        A node could not be launched or timed; memory is as before.
    """
    nodes = [recording.slice(i, i + 1) for i in range(len(recording))]
    written = [declared(recording, i) for i in range(len(recording))]
    before = Snapshot(
        coalesce((start, end) for each in written for start, end, access in each if access & WRITE), stream
    )
    best, nothing = [float("inf")] * len(nodes), float("inf")
    try:
        for turn in range(PASSES):
            if turn:
                before.restore()
            for first in range(0, len(nodes), CHUNK):
                empty_us, taken = chunk_times(nodes[first : first + CHUNK], stream)
                nothing = min(nothing, empty_us)
                best[first : first + CHUNK] = map(min, best[first : first + CHUNK], taken)
    finally:
        try:
            before.restore()
        except (HipError, MemoryError) as error:
            raise UndefinedOutputsError.of(error, "its nodes ran to be timed, and what they wrote stays") from error
    return NodeTimes([round(max(0.0, us - nothing), 3) for us in best], round(nothing, 3))


def chunk_times(nodes: Sequence[Recording], stream: Stream) -> tuple[float, list[float]]:
    """Return the microseconds between two events with nothing between them, and around each node."""
    with use_stream(stream), events(len(nodes) + 2) as marks:
        hold(stream, len(nodes))
        marks[0].record(stream)
        marks[1].record(stream)
        for node, mark in zip(nodes, marks[2:]):
            node.run(stream)
            mark.record(stream)
        marks[-1].synchronize()
        taken = [after.elapsed_ms(ahead) * 1e3 for ahead, after in pairwise(marks)]
    return taken[0], taken[1:]
