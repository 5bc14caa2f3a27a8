"""Events: points in a stream's work, to wait for and to measure between."""

from __future__ import annotations

from hiprt import library
from hiprt.errors import check
from hiprt.stream import Stream

__all__ = ["Event"]


class Event:
    """A HIP event.

    Parameters
    ----------
    timing : bool
        Whether `elapsed_ms` will be asked for.
    """

    def __init__(self, *, timing: bool = True) -> None:
        hip = library.hip()
        flag = hip.hipEventDefault if timing else hip.hipEventDisableTiming
        self.hip_event = check(hip.hipEventCreateWithFlags(flag), "hipEventCreateWithFlags")

    @property
    def handle(self) -> int:
        """The ``hipEvent_t``."""
        return int(self.hip_event)

    def record(self, stream: Stream) -> None:
        """Mark the point behind everything launched on the stream so far."""
        check(library.hip().hipEventRecord(self.hip_event, stream.hip_stream), "hipEventRecord")

    def wait(self, stream: Stream) -> None:
        """Hold back later work of the stream until the event has happened."""
        check(library.hip().hipStreamWaitEvent(stream.hip_stream, self.hip_event, 0), "hipStreamWaitEvent")

    def synchronize(self) -> None:
        """Wait on the host until the event has happened."""
        check(library.hip().hipEventSynchronize(self.hip_event), "hipEventSynchronize")

    def elapsed_ms(self, start: Event) -> float:
        """Return the time since `start` happened, in milliseconds."""
        return float(check(library.hip().hipEventElapsedTime(start.hip_event, self.hip_event), "hipEventElapsedTime"))

    def close(self) -> None:
        """Destroy the event."""
        if self.hip_event is not None:
            check(library.hip().hipEventDestroy(self.hip_event), "hipEventDestroy")
            self.hip_event = None
