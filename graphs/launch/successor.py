"""Successors: execs made ahead, off the hot path, for when the update budget of another is used up (G7)."""

from __future__ import annotations

import threading

from hiprt.errors import HipError
from hiprt.graphs.launch.exec import Exec, locks
from hiprt.graphs.record.recording import Recording

__all__ = ["Successor"]


class Successor:
    """An exec in the making, on a thread of its own.

    Parameters
    ----------
    recording : Recording
        Nobody else's: it is read while other threads go on.
    device : int
        Index.
    old : Exec
        Whose place it is for: made in the same way.
    """

    def __init__(self, recording: Recording, device: int, old: Exec) -> None:
        self.made: Exec | None = None
        self.error: HipError | None = None
        self.thread = threading.Thread(
            target=self.make, args=(recording, device, old.fanout, old.overlap), name="hiprt-successor", daemon=True
        )
        self.thread.start()

    def make(self, recording: Recording, device: int, fanout: int, overlap: bool) -> None:
        """Instantiate."""
        try:
            with locks[device]:
                self.made = Exec(recording, device, fanout, overlap=overlap)
        except HipError as error:
            self.error = error

    def take(self) -> Exec:
        """Wait for it.

        Raises
        ------
        HipError
            It could not be made.
        """
        self.thread.join()
        if self.made is None:
            raise self.error or HipError(-1, "HIPRT_E_MEMORY", "hiprt_exec_create")
        return self.made
