"""hipStreamWaitEvent with hipEventWaitExternal in a capture crashes (CLR 7, Graph::AddExternalEventWaitNode)."""

from helpers.child import child, crash
from helpers.hip_calls import ok
from quirks.capture_calls import begin, end, new_stream
from quirks.decode import decode, expected
from rocm.bindings import hip

QUIRK = "capture_external_wait_crash"


def external_wait():
    stream, event = new_stream(), ok(hip.hipEventCreate())
    begin(stream)
    ok(hip.hipStreamWaitEvent(stream, event, 1))
    return end(stream)[0]


def test_it_crashes():
    assert "capture_external_wait_crash: hipStreamWaitEvent" in crash(external_wait, quirks=QUIRK)
    assert child(external_wait) == "hipSuccess"


def test_steps_do_without_it():
    assert child(decode, quirks=QUIRK) == expected()
