"""A synchronous copy or fill is illegal while anything captures, and invalidates it all (CLR hip_internal.hpp:236)."""

from helpers.child import child
from helpers.hip_calls import Ints
from quirks.capture_calls import RELAXED, begin, capturing, end, fill, new_stream, on_thread, status, unjoined
from quirks.decode import decode, expected
from rocm.bindings import hip

QUIRK = "capture_sync_invalidates_all"


def copy_beside_relaxed_captures():
    streams, x = [new_stream(), new_stream()], Ints(1)
    begin(streams[0], RELAXED)
    on_thread(lambda: begin(streams[1], RELAXED))
    copied = hip.hipMemset(x.memory, 0, 4)[0].name
    ends = [end(streams[0])[0], on_thread(lambda: end(streams[1])[0])]
    return [copied, *ends]


def forked_capture():
    stream, other, y = unjoined()
    errors = [hip.hipMemset(y.memory, 0, 4)[0].name for _ in range(2)]
    return [*errors, status(stream), status(other), fill(other, y, 3), end(stream)[0]]


def decode_beside():
    return decode(beside=capturing(RELAXED))


def test_even_relaxed_captures_of_other_threads_are_invalidated():
    invalid = "hipErrorStreamCaptureInvalidated"
    got = child(copy_beside_relaxed_captures, quirks=QUIRK)
    assert got == ["hipErrorStreamCaptureImplicit", invalid, invalid]
    assert child(copy_beside_relaxed_captures) == ["hipSuccess"] * 3


def test_only_the_origin_stream_is_marked():
    """A forked stream goes on capturing work that is lost, and the capture is in the way until it ends."""
    implicit = "hipErrorStreamCaptureImplicit"
    expected_states = ["Invalidated", "Active", "hipSuccess", "hipErrorStreamCaptureInvalidated"]
    assert child(forked_capture, quirks=QUIRK) == [implicit, implicit, *expected_states]


def test_steps_copy_without_it():
    assert child(decode_beside, quirks=QUIRK) == expected()
