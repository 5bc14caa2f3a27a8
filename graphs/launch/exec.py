"""Execs: executable graphs; launched, patched, moved, updated."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from hiprt import core
from hiprt.flags import flags
from hiprt.graphs.launch.canary import canary
from hiprt.graphs.record.recording import Recording
from hiprt.runtimes import FANOUT
from hiprt.stream import Stream

if TYPE_CHECKING:
    from hiprt.graphs.launch.successor import Successor

__all__ = ["Exec", "locks"]

# One build, patch or update at a time a device: HIP's graph objects are not thread safe, and CLR before 7.14 loses
# nodes of graphs built in parallel. Launches of different execs need no lock.
locks: defaultdict[int, threading.RLock] = defaultdict(threading.RLock)


class Exec:
    """An executable graph made from a recording; destroyed after its last launch has finished.

    Parameters
    ----------
    recording : Recording
        Kept: its buffers are in use as long as the exec is.
    device : int
        Index of the device it is instantiated on.
    fanout : int
        Most edges that leave a node; 0: no bound, and as many roots as there are.
    overlap : bool
        Whether kernels that wait for earlier ones by themselves may start before those have finished.

    Attributes
    ----------
    recording : Recording
        The arguments the exec carries.
    holders : int
        Call signatures that launch it again as it is. While there are any, it is not patched for others.

    Raises
    ------
    HipError
        A node was refused, or the graph could not be instantiated; nothing is left behind.
    """

    def __init__(self, recording: Recording, device: int, fanout: int = FANOUT, *, overlap: bool = False) -> None:
        out = core.ffi.new("hiprt_exec **")
        guard = canary(device).core if flags.graph_canary else core.ffi.NULL
        core.call(core.lib.hiprt_exec_create(recording.core, device, fanout, overlap, guard, out))
        self.core = core.ffi.gc(out[0], core.lib.hiprt_exec_release)
        self.recording = recording
        self.fanout = fanout
        self.overlap = overlap
        self.address = core.address(self.core)
        self.holders = 0
        self.stream = -1
        self.successor: Successor | None = None

    def launch(self, stream: Stream) -> None:
        """Launch on a stream of the exec's device."""
        status = core.lib.hiprt_exec_launch(self.core, stream.core, True)
        if status:
            raise core.failure(status)
        self.stream = stream.number

    @property
    def launched(self) -> int:
        """Number of its last launch, counted over all execs; 0 before the first."""
        return int(core.lib.hiprt_exec_launched(self.core))

    def may_launch(self, stream: Stream) -> bool:
        """Whether a launch on `stream` now is ordered behind the one before (G6: one stream at a time)."""
        return self.stream in (-1, stream.number) or not self.busy

    @property
    def busy(self) -> bool:
        """Whether a launch is still in flight."""
        status = core.lib.hiprt_exec_busy(self.core)
        if status not in (0, 1):
            raise core.failure(status)
        return bool(status)

    def wait(self) -> None:
        """Wait until no launch is in flight."""
        core.call(core.lib.hiprt_exec_wait(self.core))

    def patch(self, recording: Recording) -> int:
        """Give the nodes that differ the arguments of a recording of the same key; the exec must not be `busy`.

        Returns
        -------
        int
            Number of nodes patched.

        Raises
        ------
        HipError
            A node refused its arguments; the exec must be discarded (some nodes are patched already).
        """
        patched = core.ffi.new("uint32_t *")
        core.call(core.lib.hiprt_exec_patch(self.core, recording.core, patched))
        self.recording = recording
        return int(patched[0])

    def update(self, recording: Recording) -> None:
        """Give all nodes the arguments of a recording of the same key, by hipGraphExecUpdate; as `patch` otherwise."""
        core.call(core.lib.hiprt_exec_update(self.core, recording.core))
        self.recording = recording

    def move(self, nodes: Any, count: int, ranges: Any, moves: int) -> None:
        """Give nodes the addresses they have when memory moves; the exec must not be `busy`.

        Parameters
        ----------
        nodes : uint32_t *
            The nodes that use any of the memory.
        count : int
            Of nodes.
        ranges : hiprt_move *
            First address, one past the last, and the new first address; ascending.
        moves : int
            Of ranges.
        """
        core.call(core.lib.hiprt_exec_move(self.core, count, nodes, moves, ranges))

    @property
    def overlaps(self) -> int:
        """Nodes that may start before the one they depend on has finished."""
        return int(core.lib.hiprt_exec_overlaps(self.core))

    @property
    def updated_nodes(self) -> int:
        """Nodes written by patches and updates so far."""
        return int(core.lib.hiprt_exec_updated_nodes(self.core))

    @property
    def updated_bytes(self) -> int:
        """Argument bytes written by patches and updates so far."""
        return int(core.lib.hiprt_exec_updated_bytes(self.core))
