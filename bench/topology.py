"""Topologies: the launches of a step of any size, for measuring graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import hiprt
from hiprt.compiler import compile_source
from hiprt.graphs import Recording
from hiprt.module import READ, READ_WRITE, SCALAR

__all__ = ["SETS", "TOPOLOGIES", "Work"]

TOPOLOGIES = ("chain", "branch2", "branch4", "fan", "random")
SETS = 16  # sets of other arguments; so many that none comes back soon
WIDTH = 32  # the elements of every array: few, since launches are measured and not the kernel
SOURCE = """
extern "C" __global__ void link(const int* x, int* y, int by, int n) {
  int i = threadIdx.x;
  if (i < n) y[i] += x[i] * by;
}
"""
GRID, BLOCK = (1, 1, 1), (WIDTH, 1, 1)

Pair = tuple[Any, Any]


class Work:
    """The launches of one step.

    Parameters
    ----------
    topology : str
        One of `TOPOLOGIES`.
    nodes : int
    changed : int
        How many nodes read an argument of the step.
    stream : Stream
    """

    def __init__(self, topology: str, nodes: int, changed: int, stream: hiprt.Stream) -> None:
        self.stream = stream
        self.by = 1
        code, _ = compile_source(SOURCE, "bench_graph.hip")
        arguments = [("x", READ, ""), ("y", READ_WRITE, ""), ("by", SCALAR, "int32"), ("n", SCALAR, "int32")]
        table = [hiprt.Argument(*argument) for argument in arguments]
        self.link = hiprt.Function(hiprt.Module(code), "link", table)
        self.pairs = list(wire(topology, nodes))
        # The changed nodes are spread evenly over the step, and each has an array of its own.
        self.changed = [k * nodes // changed for k in range(changed)] if changed else []
        self.sets = [[array() for _ in self.changed] for _ in range(SETS if changed else 0)]

    def issue(self) -> None:
        """Launch every node, as an engine does."""
        stream, launch, by = self.stream, self.link.launch, self.by
        for x, y in self.pairs:
            launch(stream, GRID, BLOCK, x, y, by, WIDTH)

    def issue_changed(self, *arrays: Any) -> None:
        """Launch every node; the changed nodes read these arrays."""
        pairs = list(self.pairs)
        for at, x in zip(self.changed, arrays):
            pairs[at] = (x, pairs[at][1])
        for x, y in pairs:
            self.link.launch(self.stream, GRID, BLOCK, x, y, self.by, WIDTH)

    def record(self) -> Recording:
        """Return a recording of all nodes."""
        recording = Recording()
        with recording.record(self.stream):
            self.issue_changed(*(self.sets[0] if self.sets else ()))
        return recording


def array(rows: int = 1) -> Any:
    """Return an array of ones."""
    return hiprt.array(np.ones(rows * WIDTH, np.int32))


def wire(topology: str, nodes: int) -> Iterator[Pair]:
    """Yield the array that each node reads, and the one to which it adds."""
    source = array()
    if topology in ("chain", "branch2", "branch4"):
        states = [array() for _ in range({"chain": 1, "branch2": 2, "branch4": 4}[topology])]
        for i in range(nodes):
            yield source, states[i % len(states)]
    elif topology == "fan":
        # All others read what the first node writes, and the last one reads what they write.
        middle, leaves = array(), array(max(1, nodes - 2))
        yield from [(source, middle)][:nodes]
        for i in range(nodes - 2):
            yield middle, leaves[i * WIDTH : (i + 1) * WIDTH]
        if nodes > 1:
            yield leaves, middle
    else:
        draw, arrays = random.Random(nodes), [array() for _ in range(24)]
        for _ in range(nodes):
            x, y = draw.sample(arrays, 2)
            yield x, y
