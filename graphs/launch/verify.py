"""Verification (``HIPRT_GRAPH_VERIFY=1``): every graph launch is run eagerly as well, and all written memory compared.

On a mismatch the first node that differs is named, the exec is discarded, and the eager results stay. Each launch costs
two copies of everything that the graph writes, so this is a tool to find defects with.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.snapshot import Snapshot
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.extents import Extent, coalesce, subtract
from hiprt.graphs.record.recording import Recording
from hiprt.module import WRITE
from hiprt.stream import Stream

__all__ = ["Mismatch", "launch_verified"]


@dataclass(frozen=True)
class Mismatch:
    """The first node whose result differs between a graph and its nodes run eagerly.

    Attributes
    ----------
    node : int
        The node's index in program order.
    name : str
        The node's name.
    is_stale : bool
        Whether a graph made afresh from the same recording is right. Then this exec carries other arguments or edges,
        as after an update that reported success and changed nothing.
    inputs, graph, eager : str
        The CRC-32 of what the node reads, of what it wrote in the graph, and of what it wrote eagerly.
    """

    node: int
    name: str
    is_stale: bool
    inputs: str
    graph: str
    eager: str

    def __str__(self) -> str:
        cause = (
            "the executable graph is stale, one made afresh is right" if self.is_stale else "a fresh graph is wrong too"
        )
        sums = f"inputs {self.inputs}, outputs {self.graph} in the graph, {self.eager} eagerly"
        return f"verify: node {self.node} ({self.name}) differs; {sums}; {cause}"


def launch_verified(exec_: Exec, stream: Stream) -> Mismatch | None:
    """Launch an exec, and then its nodes eagerly from the same state. The eager results stay.

    Returns
    -------
    Mismatch or None
        The first difference.

    Raises
    ------
    UndefinedOutputsError
        Something failed, and some of the nodes may have run.
    HipError
        Something failed before the launch.
    """
    recording = exec_.recording
    written = coalesce(piece for i in range(len(recording)) for piece in writes(recording, i))
    before = Snapshot(written, stream)
    exec_.launch(stream)
    try:
        return compare(recording, before, Snapshot(written, stream), stream)
    except HipError as error:
        raise UndefinedOutputsError.of(error, "the graph has run, and could not be compared") from error


def compare(recording: Recording, before: Snapshot, graph: Snapshot, stream: Stream) -> Mismatch | None:
    """Run the nodes eagerly from the state `before`, and compare what they wrote with what the graph wrote."""
    before.restore()
    recording.run(stream)
    eager = Snapshot(before.extents, stream)
    if graph == eager:
        return None
    found = locate(recording, before, graph, eager, stream)
    eager.restore()
    return found


def writes(recording: Recording, index: int) -> list[Extent]:
    """Return the memory a node writes."""
    return [(start, end) for start, end, access in declared(recording, index) if access & WRITE and start < end]


def locate(recording: Recording, before: Snapshot, graph: Snapshot, eager: Snapshot, stream: Stream) -> Mismatch:
    """Name the first node that differs."""
    first = first_that_differs(recording, graph, eager)
    fresh = first_wrong_prefix(recording, before, stream)
    # Either may come behind the culprit: its result may be overwritten, and a race does not show every time.
    index = first if fresh is None else min(first, fresh)
    before.restore()
    recording.slice(0, index).run(stream)
    reads = coalesce((start, end) for start, end, access in declared(recording, index) if access != WRITE)
    inputs = checksum(Snapshot(reads, stream), reads)
    own = writes(recording, index)
    return Mismatch(
        index, recording.node(index).name, fresh is None, inputs, checksum(graph, own), checksum(eager, own)
    )  # fmt: skip


def first_that_differs(recording: Recording, graph: Snapshot, eager: Snapshot) -> int:
    """Return the first node that differs in results which no later node overwrote."""
    later: list[Extent] = []
    found = len(recording) - 1
    for i in reversed(range(len(recording))):
        for piece in subtract(writes(recording, i), later):
            if bytes(graph.read(piece)) != bytes(eager.read(piece)):
                found = i
        later = coalesce([*later, *writes(recording, i)])
    return found


def first_wrong_prefix(recording: Recording, before: Snapshot, stream: Stream) -> int | None:
    """Return the last node of the shortest graph of first nodes that is wrong when made afresh, or None."""
    if not is_wrong(recording, len(recording), before, stream):
        return None
    right, wrong = 0, len(recording)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(recording, middle, before, stream):
            wrong = middle
        else:
            right = middle
    return wrong - 1


def is_wrong(recording: Recording, nodes: int, before: Snapshot, stream: Stream) -> bool:
    """Whether a fresh graph of the first nodes gives other bits than running them eagerly."""
    part = recording.slice(0, nodes)
    before.restore()
    part.run(stream)
    expected = Snapshot(before.extents, stream)
    before.restore()
    try:
        Exec(part, stream.device.index).launch(stream)
    except HipError:
        return True
    return Snapshot(before.extents, stream) != expected


def checksum(snapshot: Snapshot, extents: list[Extent]) -> str:
    """Return the CRC-32 of some of a snapshot's memory."""
    value = 0
    for extent in extents:
        value = zlib.crc32(bytes(snapshot.read(extent)), value)
    return f"{value:08x}"
