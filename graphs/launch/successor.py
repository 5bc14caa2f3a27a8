"""Successors: execs that another thread makes ahead, to take the place of those whose budget will be spent (G7)."""

from __future__ import annotations

import threading

from hiprt.errors import HipError
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.record.recording import Recording

__all__ = ["Successor"]


class Successor:
    """An exec that is being made on a thread of its own.

    Parameters
    ----------
    recording : Recording
        What it is made of. No other code may change it, because the thread reads it.
    device : int
        Index of the device.
    old : Exec
        The exec whose place it will take; it is made with the same bounds.
    """

    def __init__(self, recording: Recording, device: int, old: Exec) -> None:
        self.made: Exec | None = None
        self.error: HipError | None = None
        self.thread = threading.Thread(
            target=self.make, args=(recording, device, old.fanout, old.overlap), name="hiprt-successor", daemon=True
        )
        try:
            self.thread.start()
        except RuntimeError:  # the process may have no more threads now
            self.make(recording, device, old.fanout, old.overlap)

    def make(self, recording: Recording, device: int, fanout: int, overlap: bool) -> None:
        """Make the exec; this is what the thread runs."""
        try:
            self.made = Exec(recording, device, fanout, overlap=overlap)
        except HipError as error:
            self.error = error

    def take(self) -> Exec:
        """Return the exec, once it is made.

        Raises
        ------
        HipError
            It could not be made.
        """
        if self.thread.ident is not None:
            self.thread.join()
        if self.made is None:
            raise self.error or HipError(-1, "HIPRT_E_MEMORY", "hiprt_exec_create")
        return self.made
