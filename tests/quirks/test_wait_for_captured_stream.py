"""wait_for_captured_stream: no stream can wait for what a stream did before it was captured, until the capture ends
(ROCm/clr @f9f995c6d, hip_stream.cpp:478; ROCm/rocm-systems @02bb78cf): hipErrorStreamCaptureIsolation.

Ours: before a capture, puts an event behind that work on a stream that nobody captures.
"""

from helpers.child import child
from helpers.hip_calls import error, ok
from quirks.capture_calls import begin, end, new_stream
from quirks.test_event_of_captured_stream import N, reading as read_beside
from rocm.bindings import hip

QUIRK = "wait_for_captured_stream"


def raw():
    """Wait for an event of a stream that is captured by now; the statuses of that and of the capture's end."""
    event, stream, other = ok(hip.hipEventCreate()), new_stream(), new_stream()
    ok(hip.hipEventRecord(event, stream))
    begin(stream)
    waited = error(hip.hipStreamWaitEvent(other, event, 0)).name
    return [waited, end(stream)[0]]


def reading():
    return read_beside()


def test_the_wait_is_refused():
    assert child(raw) == ["hipSuccess"] * 2
    refused = ["hipErrorStreamCaptureIsolation", "hipSuccess"]
    assert child(raw, quirks=QUIRK) == child(raw, profile="clr-7.2") == refused


def test_ours_waits():
    assert child(reading, quirks=QUIRK) == child(reading, quirks=f"{QUIRK},event_of_captured_stream")
    assert child(reading, quirks=QUIRK) == [[N] * 2, [0] * 2, 0]
