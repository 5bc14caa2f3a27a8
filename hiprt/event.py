"""Events: points in a stream's work, to wait for and to measure between."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from hiprt import library
from hiprt.errors import HipWarning
from hiprt.hip import call, handle, lib, result
from hiprt.stream import Stream

__all__ = ["Event"]


class Event:
    """A HIP event, which is destroyed when the last reference to it goes, or by `close`.

    Parameters
    ----------
    timing : bool
        Whether `elapsed_ms` will be asked for.

    Attributes
    ----------
    handle : int
        The ``hipEvent_t``; 0 once the event is closed.
    """

    def __init__(self, *, timing: bool = True) -> None:
        library.current()
        self.handle = handle(lib.hipEventCreateWithFlags, lib.hipEventDefault if timing else lib.hipEventDisableTiming)

    @property
    def hip_event(self) -> Any:
        """The event as hip-python has it."""
        return library.hip().ihipEvent_t.fromObj(self.handle)

    def record(self, stream: Stream) -> None:
        """Mark the point behind everything launched on the stream so far."""
        stream.check_open()
        with stream.outside("record of an event"):
            call(lib.hipEventRecord(self.handle, stream.raw))

    def wait(self, stream: Stream) -> None:
        """Hold back later work of the stream until the event has happened."""
        stream.check_open()
        with stream.outside("wait for an event"):
            call(lib.hipStreamWaitEvent(stream.raw, self.handle, 0))

    def synchronize(self) -> None:
        """Wait on the host until the event has happened."""
        call(lib.hipEventSynchronize(self.handle))

    def elapsed_ms(self, start: Event) -> float:
        """Return the time since `start` happened, in milliseconds."""
        return float(result("float", lib.hipEventElapsedTime, start.handle, self.handle))

    def close(self) -> None:
        """Destroy the event."""
        # It is let go of first: what is known of an event whose destruction failed is that it must not be used again.
        event, self.handle = self.handle, 0
        if event:
            call(lib.hipEventDestroy(event))

    def __del__(self, finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At interpreter shutdown modules may be gone, and the process takes its events with it.
        if not getattr(self, "handle", 0) or finalizing():
            return
        try:
            self.close()
        except Exception as error:
            warnings.warn(f"an event was not destroyed: {error}", HipWarning, stacklevel=1)
