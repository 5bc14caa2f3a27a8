"""Execs: executable graphs, launched and patched."""

from __future__ import annotations

from hiprt import core
from hiprt.flags import flags
from hiprt.graphs.recording import Recording
from hiprt.stream import Stream

__all__ = ["Exec"]


class Exec:
    """An executable graph made from a recording; destroyed after its last launch has finished.

    Parameters
    ----------
    recording : Recording
        Kept: its buffers are in use as long as the exec is.
    device : int
        Index of the device it is instantiated on.

    Raises
    ------
    HipError
        A node was refused, or the graph could not be instantiated; nothing is left behind.
    """

    def __init__(self, recording: Recording, device: int) -> None:
        out = core.ffi.new("hiprt_exec **")
        core.call(core.lib.hiprt_exec_create(recording.core, device, flags.graph_fanout, out))
        self.core = core.ffi.gc(out[0], core.lib.hiprt_exec_release)
        self.recording = recording

    def launch(self, stream: Stream) -> None:
        """Launch on a stream of the exec's device."""
        core.call(core.lib.hiprt_exec_launch(self.core, stream.core))

    @property
    def busy(self) -> bool:
        """Whether a launch is still in flight."""
        status = core.lib.hiprt_exec_busy(self.core)
        if status not in (0, 1):
            raise core.failure(status)
        return bool(status)

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
