"""Execs: executable graphs, and what can be done with one: launch, patch, update, move."""

from __future__ import annotations

from typing import Any

from hiprt import core
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.flags import flags
from hiprt.graphs.launch.canary import canary
from hiprt.graphs.record.recording import Recording
from hiprt.hip_versions import FANOUT
from hiprt.stream import Stream

__all__ = ["Exec", "launch_failure"]


def launch_failure(status: int, ran: bool) -> HipError:
    """Return the exception for a launch of an exec that failed; `ran`: whether its graph may have run."""
    error = core.failure(status)
    return UndefinedOutputsError.of(error, "the graph may have run, in whole or in part") if ran else error


class Exec:
    """An executable graph made from a recording. It is destroyed after its last launch has finished (G2).

    Parameters
    ----------
    recording : Recording
        The nodes and edges. The exec keeps it, and with it the buffers that its nodes name (G1).
    device : int
        Index of the device that it is instantiated on.
    fanout : int
        The most edges that leave a node (G6); 0 is no bound, and allows several roots.
    overlap : bool
        Whether kernels that wait for earlier ones by themselves may start before those have finished.

    Attributes
    ----------
    recording : Recording
        The arguments that the exec carries.

    Raises
    ------
    HipError
        A node was refused, or the graph could not be instantiated; nothing is left behind.
    """

    def __init__(self, recording: Recording, device: int, fanout: int = FANOUT, *, overlap: bool = False) -> None:
        out = core.ffi.new("hiprt_exec **")
        guard = canary(device).core if flags.graph_canary else core.ffi.NULL
        core.call(core.lib.hiprt_exec_create(recording.core, device, fanout, overlap, guard, out))
        self.take(out, recording, fanout, overlap)

    @classmethod
    def of(cls, pointer: Any, recording: Recording, rules: Any) -> Exec:
        """Return the exec behind a ``hiprt_exec *``, which was made by rules and carries a recording's arguments."""
        made = cls.__new__(cls)
        out = core.ffi.new("hiprt_exec **", pointer)
        core.lib.hiprt_exec_retain(pointer)
        made.take(out, recording, rules.fanout, bool(rules.overlap))
        return made

    def take(self, out: Any, recording: Recording, fanout: int, overlap: bool) -> None:
        """Own a reference to an exec of the core."""
        # It stands before the recording: what goes first waits for the last launch, which uses the recording's buffers.
        self.core = core.owned(out, core.lib.hiprt_exec_release)
        self.recording = recording
        self.fanout = fanout
        self.overlap = overlap
        self.address = core.address(self.core)
        self.ran = core.ffi.new("int *")  # kept for launches, which one thread at a time makes

    def launch(self, stream: Stream) -> None:
        """Launch on a stream of the exec's device.

        Raises
        ------
        UndefinedOutputsError
            The launch failed, and the graph may have run, in whole or in part.
        HipError
            The launch failed, and the graph has certainly not been launched: its nodes may be run instead.
        """
        status = core.lib.hiprt_exec_launch(self.core, stream.core, True, self.ran)
        if status:
            raise launch_failure(status, bool(self.ran[0]))

    @property
    def launched(self) -> int:
        """The number of its last launch, counted over all execs; 0 before the first."""
        return int(core.lib.hiprt_exec_launched(self.core))

    def may_launch(self, stream: Stream) -> bool:
        """Whether a launch on `stream` now is ordered behind the last one: an exec is on one stream at a time (G6)."""
        answer = core.lib.hiprt_exec_may_launch(self.core, stream.core)
        if answer == 1:
            return True
        core.call(answer)
        return False

    def hold(self, by: int) -> None:
        """Change the number of kept calls that launch it again as it is."""
        core.lib.hiprt_exec_hold(self.core, by)

    @property
    def holders(self) -> int:
        """Number of those calls. While there are any, it is not patched for other recordings."""
        return int(core.lib.hiprt_exec_hold(self.core, 0))

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
        """Give the nodes that differ the arguments of a recording of the same topology. The exec must not be `busy`.

        Returns
        -------
        int
            Number of nodes patched.

        Raises
        ------
        HipError
            A node refused its arguments. The exec must be discarded, since other nodes are patched already (G8).
        """
        patched = core.ffi.new("uint32_t *")
        core.call(core.lib.hiprt_exec_patch(self.core, recording.core, patched))
        self.recording = recording
        return int(patched[0])

    def update(self, recording: Recording) -> None:
        """Give all nodes the arguments of a recording of the same topology by hipGraphExecUpdate.

        The exec must not be `busy`.

        Raises
        ------
        HipError
            The update failed. The exec must be discarded (G8).
        """
        core.call(core.lib.hiprt_exec_update(self.core, recording.core))
        self.recording = recording

    def move(self, nodes: bytes, ranges: bytes) -> None:
        """Give nodes the addresses that they have when memory moves. The exec must not be `busy`.

        Parameters
        ----------
        nodes : bytes
            The nodes that use any of the memory, each a ``uint32_t``.
        ranges : bytes
            What moves, each a ``hiprt_move``: first address, one past the last, and the new first address; ascending.

        Raises
        ------
        HipError
            A node refused its arguments. The exec must be discarded (G8).
        """
        users, moves = core.ffi.from_buffer("uint32_t[]", nodes), core.ffi.from_buffer("hiprt_move[]", ranges)
        core.call(core.lib.hiprt_exec_move(self.core, len(users), users, len(moves), moves))

    @property
    def overlaps(self) -> int:
        """Number of nodes that may start before the one that they depend on has finished."""
        return int(core.lib.hiprt_exec_overlaps(self.core))

    @property
    def updated_nodes(self) -> int:
        """Number of nodes that patches and updates have written so far."""
        return int(core.lib.hiprt_exec_updated_nodes(self.core))

    @property
    def updated_bytes(self) -> int:
        """Bytes of arguments that patches and updates have written so far."""
        return int(core.lib.hiprt_exec_updated_bytes(self.core))
