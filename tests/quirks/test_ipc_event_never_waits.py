"""ipc_event_never_waits: up to HIP 6.4 nobody waits for an event that other processes see (ROCm/clr @f9f995c6d,
hip_event_ipc.cpp:156: its recordings never get into the memory that the processes share).

Ours: has no such events.
"""

from helpers.child import child
from helpers.hip_calls import Gate, error, ok
from quirks.workloads import ours
from rocm.bindings import hip

QUIRK = "ipc_event_never_waits"


def raw():
    """Return the status of an event that is recorded and not reached."""
    event = ok(hip.hipEventCreateWithFlags(hip.hipEventInterprocess | hip.hipEventDisableTiming))
    stream, gate = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)), Gate()
    gate.hold(stream)
    ok(hip.hipEventRecord(event, stream))
    status = error(hip.hipEventQuery(event)).name
    gate.open()
    ok(hip.hipEventSynchronize(event))
    return status


def test_the_event_counts_as_reached():
    assert child(raw) == "hipErrorNotReady"
    assert child(raw, quirks=QUIRK) == child(raw, profile="clr-6.4") == "hipSuccess"


def test_ours_has_no_such_events():
    ours("kept", quirks=QUIRK)
