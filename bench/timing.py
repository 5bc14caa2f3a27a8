"""Parts of recordings, made to be timed by themselves."""

from __future__ import annotations

from collections.abc import Iterable

from hiprt import Stream, core
from hiprt.allocator import default_pool
from hiprt.allocator.holder import Holder, PoolStats
from hiprt.buffer import Buffer
from hiprt.graphs import Recording

__all__ = ["Apart", "join"]


class Apart(Holder):
    """Memory for a recording whose buffers do not overlap, so that its nodes can run again in any order."""

    def __init__(self) -> None:
        super().__init__(default_pool.allocate, "nodes apart")

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return a buffer that lives as long as this object."""
        made = self.chunks[len(self.chunks)] = self.source(nbytes, stream)
        return made

    def stats(self) -> PoolStats:
        """Return the sizes."""
        nbytes = sum(buffer.nbytes for buffer in self.chunks.values())
        return PoolStats(nbytes, nbytes, nbytes)


def join(recording: Recording, indices: Iterable[int]) -> Recording:
    """Return a recording of some nodes of another one, as a chain."""
    part = Recording(recording.memory, "chain")
    part.keep = recording.keep
    for index in indices:
        core.call(core.lib.hiprt_recorder_slice(recording.core, index, index + 1, part.core))
    return part
