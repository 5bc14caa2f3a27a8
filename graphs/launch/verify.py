"""Verification (``HIPRT_GRAPH_VERIFY``): every graph launch is run eagerly as well, and all memory compared.

Compared is everything that the nodes declare, whether they read or write it, and the rest of the buffers that it lies
in, by fingerprints that the device takes of pieces of it. The first node that differs is named, or the node that wrote
what it does not declare. Then the exec is discarded, and the eager results stay.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.mirror import mirror
from hiprt.graphs.launch.pieces import Sums
from hiprt.graphs.launch.reach import reach_of
from hiprt.graphs.record.dump import accesses
from hiprt.graphs.record.extents import Extent
from hiprt.module import Function
from hiprt.stream import Stream

__all__ = ["Mismatch", "launch_verified"]

logger = logging.getLogger("hiprt.graphs")

TRIES = 4  # launches from the same state, to tell what is wrong each time from what is wrong now and then
EAGER = "run eagerly twice, it gives two results: the kernel is not deterministic"
FRESH = "a graph made afresh is wrong too: an edge is missing, or the kernel is not deterministic"
STALE = "the executable graph is stale: it is wrong in the same way each time, and one made afresh is right"
RACE = "the graph is not wrong each time: an edge is missing, or the kernel is not deterministic"

# What launches of kernels were seen to write nothing but what they declare: dimensions and sizes of buffers.
honest: WeakKeyDictionary[Function, set[tuple[object, ...]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Mismatch:
    """What is wrong with a graph, and the first node that shows it.

    Attributes
    ----------
    node : int
        The node's index in program order.
    name : str
        The node's name.
    caller : str
        The line of the program that launched it; empty where that is not known.
    cause : str
        What was found out about the node.
    is_stale : bool
        Whether the exec carries other arguments than it should, as after an update that reported success and changed
        nothing. A race is never taken for that.
    sums : str
        For a node whose results differ, fingerprints of what it reads, and of what it wrote in the graph and eagerly.
    """

    node: int
    name: str
    caller: str
    cause: str
    is_stale: bool = False
    sums: str = ""

    def __str__(self) -> str:
        line = f", launched at {self.caller}," if self.caller else ""
        differs = f" differs; {self.sums};" if self.sums else ""
        return f"verify: node {self.node} ({self.name}){line}{differs} {self.cause}"


def launch_verified(exec_: Exec, stream: Stream) -> Mismatch | None:
    """Launch an exec, and then its nodes eagerly from the same state. The eager results stay.

    Every kernel must declare an output (`why_once`).

    Returns
    -------
    Mismatch or None
        The first thing that is wrong.

    Raises
    ------
    UndefinedOutputsError
        Something failed, and some of the nodes may have run.
    HipError
        Something failed before the launch.
    """
    exec_.recording.order(stream)
    memory = Memory(exec_, stream)
    exec_.launch(stream)
    try:
        return compare(exec_, memory)
    except (HipError, MemoryError) as error:
        raise UndefinedOutputsError.of(error, "the graph has run, and could not be compared") from error


class Memory:
    """What the nodes of an exec reach, and what it holds before a launch.

    Parameters
    ----------
    exec_ : Exec
    stream : Stream

    Attributes
    ----------
    recording : Recording
    reach : Reach
    pieces : Pieces
        Those of `reach`.
    before : array of uint64
        Their fingerprints.
    lost : bool
        Whether memory was overwritten of which the host has no copy.
    """

    def __init__(self, exec_: Exec, stream: Stream) -> None:
        self.recording, self.stream = exec_.recording, stream
        self.reach = reach_of(exec_, stream)
        self.pieces = self.reach.pieces
        self.before = self.pieces.fingerprints()
        mirror.hold(self.pieces, self.before, self.reach.is_written)
        self.lost = False

    def differ(self, one: Sums, other: Sums) -> NDArray[np.intp]:
        """Return the declared pieces whose fingerprints differ."""
        return np.flatnonzero((one != other) & self.reach.is_declared)

    def run(self, begin: int, end: int) -> None:
        """Run nodes eagerly."""
        if begin < end:
            self.recording.slice(begin, end).run(self.stream)

    def restore(self, now: Sums | None = None) -> None:
        """Put back what the nodes declare and what is not as it was; `now`: the fingerprints, where they are known.

        Memory that no node declares stays: something else may be using it.
        """
        changed = self.differ(self.before, self.pieces.fingerprints() if now is None else now)
        self.lost |= bool(len(mirror.restore(self.pieces, self.before, changed)))

    def run_watched(self, nodes: Iterable[int]) -> tuple[int, NDArray[np.intp]] | None:
        """Run all nodes eagerly, and return the first of some nodes that writes what it does not declare.

        Parameters
        ----------
        nodes : iterable of int
            The nodes that are watched, ascending.

        Returns
        -------
        tuple of int and array of int, or None
            The node, and the pieces that it writes.
        """
        done, sums, found = 0, None, None
        for i in nodes:
            if i > done or sums is None:
                self.run(done, i)
                sums = self.pieces.fingerprints()
            self.run(i, i + 1)
            after, done = self.pieces.fingerprints(), i + 1
            changed = np.flatnonzero((sums != after) & ~self.pieces.within(self.reach.writes(i)))
            if found is None and len(changed):
                found = i, changed
            sums = after
        self.run(done, len(self.recording))
        return found

    def unknown(self) -> list[int]:
        """Return the nodes that were not seen to write nothing but what they declare."""
        return [] if self.reach.is_honest else [i for i in self.kernels() if not self.is_honest(i)]

    def kernels(self) -> list[int]:
        """Return the nodes that are kernels: what the others write is known."""
        return [i for i in range(len(self.recording)) if self.recording.node(i).kind == "kernel"]

    def is_honest(self, index: int, *, seen: bool = False) -> bool:
        """Whether a node is like one that was seen to write what it declares; `seen`: from now on it is."""
        node = self.recording.node(index)
        if node.function is None:
            return False
        known = honest.setdefault(node.function, set())
        launch = (node.grid, node.block, node.shared, *(end - start for start, end, _ in self.reach.touched[index]))
        if seen:
            known.add(launch)
        return launch in known

    def mismatch(self, index: int, cause: str, *, is_stale: bool = False, sums: str = "") -> Mismatch:
        """Return what is wrong, with the node's name and line."""
        callers = self.recording.callers
        caller = callers[index] if index < len(callers) else None
        if self.lost:
            cause += "; what was overwritten before cannot be put back, since the host has no memory for a copy of it"
        return Mismatch(index, self.recording.node(index).name, str(caller or ""), cause, is_stale, sums)


def compare(exec_: Exec, memory: Memory) -> Mismatch | None:
    """Run the nodes eagerly from the state before the launch, and compare."""
    graph = memory.pieces.fingerprints()
    memory.restore(graph)
    watched = memory.unknown()
    found = memory.run_watched(watched)
    eager = memory.pieces.fingerprints()
    undeclared = (
        memory.reach.is_declared & ~memory.reach.is_written & ((graph != memory.before) | (eager != memory.before))
    )
    is_right = not len(memory.differ(graph, eager)) and not undeclared.any()
    if found is None and is_right:
        for i in watched:
            memory.is_honest(i, seen=True)
        memory.reach.is_honest = not memory.unknown()
        return None
    if found is None:
        memory.restore(eager)
        found = memory.run_watched(memory.kernels())
    if found is not None and not memory.reach.is_declared[found[1]].any():
        logger.warning("verify: %s", memory.mismatch(found[0], outside(memory, *found)))
        found = None
        if is_right:
            return None
    if found is not None:
        return memory.mismatch(found[0], trespass(memory, *found))
    mismatch = locate(exec_, memory, graph, eager)
    memory.restore()
    memory.run(0, len(memory.recording))
    return mismatch


def outside(memory: Memory, index: int, changed: NDArray[np.intp]) -> str:
    """Describe a change of memory that no node declares."""
    nbytes = int((memory.pieces.ends - memory.pieces.starts)[changed].sum())
    return (
        f"ran when something changed within {nbytes} bytes of the step's buffers that no node declares: it writes "
        "outside of what it declares, or other work does at the same time"
    )


def trespass(memory: Memory, index: int, changed: NDArray[np.intp]) -> str:
    """Describe what a node writes without declaring it, by the name of its own argument or of another node's."""
    piece = int(changed[memory.reach.is_declared[changed]][0])
    start, end = int(memory.pieces.starts[piece]), int(memory.pieces.ends[piece])
    for i in (index, *range(len(memory.recording))):
        node = memory.recording.node(i)
        for access in accesses(memory.recording, i, node):
            if access.start <= start and end <= access.end:
                if i == index:
                    return f"writes {access.buffer}, which it declares as read"
                return f"writes memory that it does not declare: what node {i} ({node.name}) calls {access.buffer}"
    raise AssertionError("a piece that is declared is declared by a node")


def locate(exec_: Exec, memory: Memory, graph: Sums, eager: Sums) -> Mismatch:
    """Name the first node whose result differs, and say why it does."""
    memory.restore()
    memory.run(0, len(memory.recording))
    again = memory.pieces.fingerprints()
    is_stale = False
    if len(memory.differ(eager, again)):
        index, cause = first_that_differs(memory, eager, again), EAGER
    else:
        index, wrong = first_that_differs(memory, graph, eager), first_wrong_prefix(exec_, memory)
        if wrong is not None:
            # Either may come behind the culprit: its result may be overwritten, and a race does not show every time.
            index, cause = min(index, wrong), FRESH
        else:
            is_stale = exec_.updated_nodes > 0 and not gives_other_bits(exec_, memory, graph)
            cause = STALE if is_stale else RACE
    memory.restore()
    memory.run(0, index)
    texts = [
        checksum(memory, memory.pieces.fingerprints(), memory.reach.reads(index)),
        *(checksum(memory, sums, memory.reach.writes(index)) for sums in (graph, eager)),
    ]
    return memory.mismatch(
        index, cause, is_stale=is_stale, sums="inputs {}, outputs {} in the graph, {} eagerly".format(*texts)
    )


def first_that_differs(memory: Memory, one: Sums, other: Sums) -> int:
    """Return the first node that differs in results which no later node overwrote."""
    differs = np.zeros(len(memory.pieces), np.bool_)
    differs[memory.differ(one, other)] = True
    found = len(memory.recording) - 1
    for i in reversed(range(len(memory.recording))):
        own = memory.pieces.within(memory.reach.writes(i))
        if (differs & own).any():
            found = i
        differs &= ~own
    return found


def first_wrong_prefix(exec_: Exec, memory: Memory) -> int | None:
    """Return the last node of the shortest graph of first nodes that is wrong when made afresh, or None."""
    if not is_wrong(exec_, memory, len(memory.recording)):
        return None
    right, wrong = 0, len(memory.recording)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if is_wrong(exec_, memory, middle):
            wrong = middle
        else:
            right = middle
    return wrong - 1


def is_wrong(exec_: Exec, memory: Memory, nodes: int) -> bool:
    """Whether a graph made afresh of the first nodes gives other bits than they do eagerly, in any of some launches."""
    part = memory.recording.slice(0, nodes)
    memory.restore()
    part.run(memory.stream)
    expected = memory.pieces.fingerprints()
    device = memory.stream.device.index
    fresh = Exec(part, device, exec_.fanout, overlap=exec_.overlap)
    return gives_other_bits(fresh, memory, expected)


def gives_other_bits(exec_: Exec, memory: Memory, expected: Sums) -> bool:
    """Whether an exec gives other bits than expected in any of some launches from the same state."""
    for _ in range(TRIES):
        memory.restore()
        exec_.launch(memory.stream)
        if len(memory.differ(memory.pieces.fingerprints(), expected)):
            return True
    return False


def checksum(memory: Memory, sums: Sums, extents: list[Extent]) -> str:
    """Return a fingerprint of some of the memory."""
    total = int(sums[memory.pieces.within(extents)].sum(dtype=np.uint64))
    return f"{total >> 32 ^ total & 0xFFFFFFFF:08x}"
