"""The shadow of a decoder: a second one, without graphs, with whose logits those of the graphs are compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Stream, allocator
from hiprt.bench.engine.decoder import Decoder

__all__ = ["Shadow", "difference"]


class Shadow:
    """A decoder that takes the same tokens as another one, kernel by kernel.

    Parameters
    ----------
    decoder : Decoder
        It has a stream of its own, so that what it launches is not counted.

    Attributes
    ----------
    seconds : float
        What the comparisons took.
    peak_bytes : int
        The most memory that was in use at a time in the last of them.
    """

    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.seconds, self.peak_bytes = 0.0, 0

    def compare(self, graph: Decoder, beside: Callable[[], object]) -> str | None:
        """Run a step; return how its logits differ from those that the same step gave as a graph, or None.

        Parameters
        ----------
        graph : Decoder
            The decoder whose step has run as a graph.
        beside : callable
            Runs the step of this one.

        Raises
        ------
        RankError
            A rank is gone that has a part of the model.
        """
        graph.stream.synchronize()
        reached = time.perf_counter()
        with measured(self.decoder.stream) as memory:
            beside()
        self.peak_bytes = memory.stats().peak
        found = difference(graph.logits.numpy(graph.stream), self.decoder.logits.numpy(self.decoder.stream))
        # Once a rank is gone sums are no results: they differ, which says nothing of the graph.
        graph.model.check()
        self.seconds += time.perf_counter() - reached
        if found is None:
            return None
        index, logit, eager = found
        return f"token {graph.position - 1}: logit {index} is {logit!r} in the graph and {eager!r} run eagerly"


@contextmanager
def measured(stream: Stream) -> Iterator[allocator.Pool]:
    """Allocate from a pool that counts, within the block, what is allocated on a stream; yield that pool."""
    stream.memory = memory = allocator.Pool(allocator.default_pool.allocate, "measured")
    try:
        yield memory
    finally:
        stream.memory = None


def difference(graph: NDArray[Any], eager: NDArray[Any]) -> tuple[int, float, float] | None:
    """Return the index and both values of the first element whose bits differ, or None."""
    bits = np.dtype(f"u{graph.dtype.itemsize}")
    unequal = np.flatnonzero(graph.reshape(-1).view(bits) != eager.reshape(-1).view(bits))
    if not unequal.size:
        return None
    index = int(unequal[0])
    return index, float(graph.reshape(-1)[index]), float(eager.reshape(-1)[index])
