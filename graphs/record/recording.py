"""Recordings: the nodes of one step in program order, and the edges between them.

Edges follow from what each node declares that it reads and writes: a read waits for the write before it, a write for
the reads and the write before it, by byte range. An edge that others imply is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hiprt import core, module
from hiprt.allocator import Arena, Plan, Pool
from hiprt.array import Array
from hiprt.caller import Caller, caller
from hiprt.errors import UndefinedOutputsError
from hiprt.flags import flags
from hiprt.graphs.record.argument_difference import ArgumentDifference
from hiprt.graphs.record.declarations import outlined
from hiprt.graphs.record.node import Node, launched, node_of, raw_launch
from hiprt.stream import Move, Stream

__all__ = ["Recording"]

EDGES = {
    "data": core.lib.HIPRT_EDGES_DATA,
    "chain": core.lib.HIPRT_EDGES_CHAIN,
    "both": core.lib.HIPRT_EDGES_BOTH,
}
MOST_COMPARED = 4096  # nodes of two recordings


def note_caller(owner: Any) -> None:
    """Note the line that launched the node which a recording was just given."""
    core.ffi.from_handle(owner).append(caller())


added = core.ffi.callback("void(void *)", note_caller)


def callers_are_wanted() -> bool:
    """Whether a flag is set whose output names the lines that launched nodes."""
    return bool(flags.graph_dump or flags.graph_trace or flags.graph_explain or flags.graph_verify)


class Recording:
    """What a function launched while its stream recorded.

    Parameters
    ----------
    memory : Pool or Arena, optional
        Where arrays live that are made while recording; the recording keeps it alive.
    edges : str, optional
        ``data`` derives edges from what nodes declare, ``chain`` puts the nodes in program order, ``both`` does both;
        ``HIPRT_GRAPH_EDGES`` by default.

    Attributes
    ----------
    callers : list of Caller or None
        The line of the program that launched each node, noted where a flag is set whose output names it; else empty.
    layout : tuple of int and Plan, or None
        The address of the block that the intermediates share, and how they share it, once that is settled.
    """

    def __init__(self, memory: Pool | Arena | None = None, edges: str = "") -> None:
        self.memory = memory
        self.keep: list[Any] = []
        self.mode = edges or flags.graph_edges
        lib = core.lib
        self.core = core.create(
            "hiprt_recorder", lib.hiprt_recorder_release, lib.hiprt_recorder_create, EDGES[self.mode]
        )
        self.callers: list[Caller | None] = []
        self.layout: tuple[int, Plan] | None = None

    @classmethod
    def of_graph(cls, graph: int, device: int, *, is_given: bool, like: Recording | None = None) -> Recording:
        """Return the nodes and edges of a graph that other code made.

        Parameters
        ----------
        graph : int
            The ``hipGraph_t``.
        device : int
            Index of its device.
        is_given : bool
            Whether the graph is hiprt's from now on, also if this fails; else it is copied where it must last.
        like : Recording, optional
            Of a graph before, with which this one is compared first: it is returned itself where all is the same.

        Raises
        ------
        HipError
            ``HIPRT_E_FOREIGN``: some node is none that can be launched again.
        """
        out = core.ffi.new("hiprt_recorder **")
        if like is not None:
            core.lib.hiprt_flatten_like(like.core, graph, device, is_given, out)
            if out[0] == like.core:
                return like
        recording = cls(edges="data")
        if out[0]:
            recording.core = core.owned(out, core.lib.hiprt_recorder_release)
        else:
            core.call(core.lib.hiprt_flatten_graph(recording.core, graph, device, is_given))
        return recording

    @contextmanager
    def record(self, stream: Stream) -> Iterator[None]:
        """Record what this thread launches on `stream` within the block.

        Raises
        ------
        HipError
            A thread records on the stream already.
        """
        self.start(stream)
        try:
            yield
        finally:
            self.stop(stream)

    def start(self, stream: Stream, *, is_shared: bool = False) -> None:
        """Take what this thread launches on `stream` from now on, instead of running it.

        Parameters
        ----------
        stream : Stream
        is_shared : bool
            Whether to take what other threads launch as well.

        Raises
        ------
        HipError
            A thread records on the stream already.
        """
        if callers_are_wanted():
            self.handle = core.ffi.new_handle(self.callers)
            core.lib.hiprt_recorder_watch(self.core, added, self.handle)
        if self.memory is not None:
            core.call(core.lib.hiprt_recorder_touch(self.core, self.memory.uses, module.READ_WRITE))
        core.call(core.lib.hiprt_recorder_start(self.core, stream.core, is_shared))
        stream.memory, stream.keep = self.memory, self.keep

    def stop(self, stream: Stream) -> None:
        """Let the stream run its work again."""
        # The memory goes first: once the stream records no more, other threads see what it allocates from.
        stream.memory, stream.keep = None, []
        core.lib.hiprt_stream_stop(stream.core)
        core.lib.hiprt_recorder_end(self.core)
        if len(self.keep) > 1:
            self.keep[:] = {id(buffer): buffer for buffer in self.keep}.values()

    def follow(self, earlier: Recording) -> None:
        """Expect the nodes of an earlier recording again; those that are the same take their edges from there."""
        core.lib.hiprt_recorder_follow(self.core, earlier.core)

    def settle(self, stream: Stream) -> None:
        """Give what was recorded in an arena the addresses that the arena's plan says.

        Raises
        ------
        OutOfMemoryError
            There is no memory for it; nothing has moved.
        """
        if isinstance(self.memory, Arena):
            plans = len(self.memory.plans)
            self.relocate(self.memory.settle(stream, partial(outlined, self)))
            if len(self.memory.plans) > plans:
                self.layout = self.memory.chunks[len(self.memory.chunks) - 1].address, self.memory.plans[-1]

    def relocate(self, moves: Sequence[Move]) -> None:
        """Give all nodes the addresses they have when memory moves: (start, end, new start), ascending."""
        core.lib.hiprt_recorder_relocate(self.core, len(moves), moves)

    def point(self, pointers: Any, starts: Any) -> None:
        """Give argument words the addresses that they have where memory begins elsewhere.

        Parameters
        ----------
        pointers : hiprt_pointers *
            The words, and the memory into which each of them points.
        starts : uint64_t *
            Where each memory begins.
        """
        core.call(core.lib.hiprt_recorder_point(self.core, pointers, starts))

    def order(self, stream: Stream) -> None:
        """Order what is put on the stream next with other streams' work on memory that the nodes use (G13)."""
        core.call(core.lib.hiprt_recorder_order(self.core, stream.core))

    def touch(self, array: Array, access: int) -> None:
        """Note what the nodes do (`module.READ`, `WRITE`) with the memory of an array, for the order with others."""
        core.call(core.lib.hiprt_recorder_touch(self.core, core.ffi.cast("hiprt_uses *", array.buffer.uses), access))

    def set_apart(self, array: Array, *, is_shared: bool) -> None:
        """Note that the step's next argument is this array, for which another may be given later.

        Parameters
        ----------
        array : Array
        is_shared : bool
            Whether the nodes use its buffer in another way as well.
        """
        uses = core.ffi.cast("hiprt_uses *", array.buffer.uses)
        core.call(core.lib.hiprt_recorder_set_apart(self.core, uses, is_shared))

    def run(self, stream: Stream) -> None:
        """Launch every node eagerly, in program order.

        Raises
        ------
        UndefinedOutputsError
            A launch failed, and some nodes may have run.
        HipError
            A launch failed, and no node has run.
        """
        ran = core.ffi.new("int *")
        status = core.lib.hiprt_recorder_run(self.core, stream.core, ran)
        if status:
            error = core.failure(status)
            raise UndefinedOutputsError.of(error, "some of its nodes may have run") if ran[0] else error

    def __len__(self) -> int:
        return int(core.lib.hiprt_recorder_size(self.core))

    @property
    def is_carried(self) -> bool:
        """Whether an executable graph carries it, or is being made from it, so that it must not change."""
        return bool(core.lib.hiprt_recorder_references(self.core) > 1)

    @property
    def is_in_use(self) -> bool:
        """Whether executable graphs, or other recordings, have nodes of the capture that it was made of."""
        return bool(core.lib.hiprt_recorder_is_in_use(self.core))

    @property
    def foreign(self) -> int:
        """Number of nodes that other code launched."""
        return int(core.lib.hiprt_recorder_foreign(self.core))

    @property
    def nbytes(self) -> int:
        """Size of all nodes' arguments."""
        return int(core.lib.hiprt_recorder_bytes(self.core))

    @property
    def edges(self) -> int:
        """Number of dependencies."""
        return int(core.lib.hiprt_recorder_edges(self.core))

    @property
    def key(self) -> int:
        """Hash of the topology key; recordings with equal hashes may still differ (`same_key`)."""
        return int(core.lib.hiprt_recorder_key(self.core))

    @property
    def arguments(self) -> int:
        """Hash of all argument bytes."""
        return int(core.lib.hiprt_recorder_arguments(self.core))

    def same_key(self, other: Recording) -> bool:
        """Whether both have the same functions, dimensions, shared memory and edges, by content (G3)."""
        return bool(core.lib.hiprt_recorder_same_key(self.core, other.core))

    def changed(self, other: Recording) -> tuple[int, int, int]:
        """Compare with a recording of the same key.

        Returns
        -------
        count : int
            Number of nodes that carry other arguments.
        nbytes : int
            Size of those nodes' arguments.
        first : int
            The first of them.
        """
        first, nbytes = core.ffi.new("uint32_t *"), core.ffi.new("uint64_t *")
        count = int(core.lib.hiprt_recorder_changed(self.core, other.core, first, nbytes))
        return count, int(nbytes[0]), int(first[0])

    def difference(self, other: Recording, index: int) -> str | ArgumentDifference:
        """Describe how the arguments of one node differ from those in a recording of the same key."""
        found = core.ffi.new("hiprt_difference *")
        if core.lib.hiprt_recorder_difference(self.core, other.core, index, found):
            return ArgumentDifference.of(index, found)
        mine, its = self.node(index), other.node(index)
        for name in mine.arguments:
            if mine.arguments[name] != its.arguments[name]:
                return f"node {index} ({mine.name}) {name}: {mine.arguments[name]} -> {its.arguments[name]}"
        return f"node {index} ({mine.name})"

    def first_other(self, other: Recording) -> str:
        """Describe the first node that a recording of another key has in another form, or has not, or has besides."""
        size = min(len(self), len(other), MOST_COMPARED)
        for index in range(size):
            raws = self.raw(index), other.raw(index)
            if launched(raws[0]) != launched(raws[1]):
                was, now = map(raw_launch, raws)
                return f"node {index}: {was} -> {now}{' with other launch attributes' if was == now else ''}"
        if size == MOST_COMPARED:
            return ""
        if len(self) == len(other):
            return "the same nodes, with other edges"
        longer, word = (self, "not launched") if len(self) > size else (other, "launched besides")
        return f"node {size} ({longer.node(size).name}) is {word}"

    def copy(self) -> Recording:
        """Return a recording of the same nodes; it shares memory and buffers."""
        return self.slice(0, len(self))

    def slice(self, begin: int, end: int) -> Recording:
        """Return a recording of nodes [begin, end), with edges among themselves; it shares memory and buffers."""
        part = Recording(self.memory, self.mode)
        part.keep = self.keep
        part.callers = self.callers[begin:end]
        part.layout = self.layout if begin == 0 and end == len(self) else None
        core.call(core.lib.hiprt_recorder_slice(self.core, begin, end, part.core))
        return part

    def users(self, start: int, end: int) -> list[int]:
        """Return the nodes with a buffer that begins in memory [start, end), or with another address there."""
        out = core.ffi.new("uint32_t[]", max(1, len(self)))
        count = core.lib.hiprt_recorder_users(self.core, start, end, out)
        return list(core.ffi.unpack(out, count)) if count else []

    def node_bytes(self, index: int) -> int:
        """Return the size of a node's arguments."""
        return int(self.raw(index).payload_size)

    def dependencies(self) -> list[list[int]]:
        """Return, for each node, the earlier nodes that it waits for."""
        nodes = map(self.raw, range(len(self)))
        return [list(core.ffi.unpack(raw.deps, raw.n_deps)) if raw.n_deps else [] for raw in nodes]

    def raw(self, index: int) -> Any:
        """Return one node as the C core shows it, a ``hiprt_node *``."""
        raw = core.ffi.new("hiprt_node *")
        core.call(core.lib.hiprt_recorder_node(self.core, index, raw))
        return raw

    def nodes(self) -> list[Node]:
        """Return the nodes in program order."""
        return [self.node(i) for i in range(len(self))]

    def node(self, index: int) -> Node:
        """Return one node."""
        return node_of(self.raw(index))
