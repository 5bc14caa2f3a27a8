"""A failed hipStreamEndCapture writes junk, and its streams go on capturing (CLR hip_graph.cpp:977-1078)."""

from helpers.child import child
from helpers.hip_calls import E, Ints, ok
from quirks.capture_calls import begin, end, fill, new_stream, on_thread, status, unjoined
from quirks.decode import decode, expected
from rocm.bindings import hip

QUIRK = "endcapture_garbage_handle"


def unjoined_capture():
    stream, other, _ = unjoined()
    errors = [end(stream), end(stream), end(other)]
    states = [status(stream), status(other)]
    again, allocated = begin(stream), hip.hipMalloc(64)[0].name
    ok(hip.hipStreamDestroy(stream))
    return {"errors": errors, "states": states, "again": again, "allocated": allocated, "after": status(other)}


def invalid_capture():
    stream, x = new_stream(), Ints(1)
    begin(stream)
    hip.hipStreamQuery(stream)
    result = {"end": end(stream), "state": status(stream), "fill": fill(stream, x, 1)}
    again = begin(stream), fill(stream, x, 2)
    return {**result, "again": again, "works": end(stream)[0], "last": status(stream)}


def other_errors():
    stream = new_stream()
    idle = end(stream)
    begin(stream)
    return {"idle": idle, "null": end(None), "elsewhere": on_thread(lambda: end(stream)), "end": end(stream)[0]}


def decode_beside():
    unjoined_capture()
    end(unjoined()[0])
    return decode()


def test_unjoined_streams_stay_in_capture():
    junk = 0xFBFBFBFBFBFBFBF0
    got = child(unjoined_capture, quirks=QUIRK)
    names = [E.hipErrorStreamCaptureUnjoined, E.hipErrorStreamCaptureWrongThread, E.hipErrorStreamCaptureUnmatched]
    assert got["errors"] == [[name.name, junk] for name in names]
    assert got["states"] == ["Active", "Active"]
    assert got["again"] == E.hipErrorIllegalState.name
    assert got["allocated"] == "hipSuccess"  # no rule counts this capture any more
    assert got["after"] == "None"
    assert child(unjoined_capture)["errors"][0] == [E.hipErrorStreamCaptureUnjoined.name, 0]


def test_an_invalid_capture_lasts_until_the_next():
    got = child(invalid_capture, quirks=QUIRK)
    invalid = E.hipErrorStreamCaptureInvalidated.name
    assert got == {
        "end": [invalid, 0],
        "state": "Invalidated",
        "fill": invalid,
        "again": ["hipSuccess", "hipSuccess"],
        "works": "hipSuccess",
        "last": "None",
    }


def test_every_other_error_writes_junk():
    got = child(other_errors, quirks=QUIRK)
    assert got.pop("end") == "hipSuccess"
    assert [name for name, _ in got.values()] == [
        E.hipErrorIllegalState.name, E.hipErrorIllegalState.name, E.hipErrorStreamCaptureWrongThread.name
    ]  # fmt: skip
    assert all(graph for _, graph in got.values())


def test_steps_go_on_after_a_capture_that_went_wrong():
    assert child(decode_beside, quirks=QUIRK) == expected()
