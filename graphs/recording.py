"""Recordings: the nodes of one step in program order, with edges derived from what each reads and writes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hiprt import core
from hiprt.allocator import Pool
from hiprt.flags import flags
from hiprt.stream import Stream, use_stream

__all__ = ["Node", "Recording"]

EDGES = {"data": 1, "chain": 2, "both": 3}
KINDS = ("kernel", "copy", "fill", "empty")


@dataclass(frozen=True)
class Node:
    """One node of a recording.

    Attributes
    ----------
    kind : str
        ``kernel``, ``copy``, ``fill`` or ``empty``.
    name : str
        The kernel's name, else the kind.
    grid, block : tuple of 3 int
        Of a kernel; zeros otherwise.
    shared : int
        Bytes of dynamic shared memory.
    dependencies : tuple of int
        Earlier nodes that this one waits for; redundant ones are left out.
    """

    kind: str
    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    dependencies: tuple[int, ...]


class Recording:
    """What a function launched while its stream recorded.

    Parameters
    ----------
    memory : Pool
        Where the step's intermediates live; kept as long as the recording.
    """

    def __init__(self, memory: Pool) -> None:
        self.memory = memory
        self.keep: list[Any] = []
        self.core = core.ffi.gc(core.created(core.lib.hiprt_recorder_create(EDGES[flags.graph_edges])), core.lib.hiprt_recorder_release)

    @contextmanager
    def record(self, stream: Stream) -> Iterator[None]:
        """Take what this thread launches on `stream` within the block, instead of running it.

        Raises
        ------
        HipError
            The stream records already.
        """
        core.call(core.lib.hiprt_stream_record(stream.core, self.core))
        before = stream.memory, stream.keep
        stream.recording, stream.memory, stream.keep = True, self.memory, self.keep
        try:
            with use_stream(stream):
                yield
        finally:
            self.keep[:] = {id(buffer): buffer for buffer in self.keep}.values()
            stream.recording = False
            stream.memory, stream.keep = before
            core.call(core.lib.hiprt_stream_record(stream.core, core.ffi.NULL))

    def run(self, stream: Stream) -> None:
        """Launch every node eagerly, in program order."""
        core.call(core.lib.hiprt_recorder_run(self.core, stream.core))

    def __len__(self) -> int:
        return int(core.lib.hiprt_recorder_size(self.core))

    @property
    def edges(self) -> int:
        """Number of dependencies."""
        return int(core.lib.hiprt_recorder_edges(self.core))

    @property
    def key(self) -> int:
        """Hash of the topology key; recordings with equal hashes may still differ (`same_key`)."""
        return int(core.lib.hiprt_recorder_key(self.core))

    def same_key(self, other: Recording) -> bool:
        """Whether both have the same functions, dimensions, shared memory and edges, by content (G3)."""
        return bool(core.lib.hiprt_recorder_same_key(self.core, other.core))

    def changed(self, other: Recording) -> tuple[int, int]:
        """Return how many nodes carry other arguments in a recording of the same key, and the first of them."""
        first = core.ffi.new("uint32_t *")
        count = int(core.lib.hiprt_recorder_changed(self.core, other.core, first))
        return count, int(first[0])

    def nodes(self) -> list[Node]:
        """Return the nodes in program order."""
        return [self.node(i) for i in range(len(self))]

    def node(self, index: int) -> Node:
        """Return one node."""
        raw = core.ffi.new("hiprt_node *")
        core.call(core.lib.hiprt_recorder_node(self.core, index, raw))
        dims = [0] * 8
        if KINDS[raw.kind] == "kernel":
            dims = list(struct.unpack("<8I", core.ffi.buffer(raw.payload, 32)))
        dependencies = tuple(raw.deps[k] for k in range(raw.n_deps))
        name = core.ffi.string(raw.name).decode()
        grid, block = (dims[0], dims[1], dims[2]), (dims[3], dims[4], dims[5])
        return Node(KINDS[raw.kind], name, grid, block, dims[6], dependencies)
