"""hipDeviceSynchronize is illegal while anything captures, on any device (CLR hip_internal.hpp:225)."""

from helpers.child import child
from helpers.hip_calls import ok
from quirks.capture_calls import RELAXED, begin, capturing, end, new_stream
from quirks.decode import decode, expected
from rocm.bindings import hip

import hiprt

QUIRK = "capture_devsync_900"
REFUSED = "hipErrorStreamCaptureUnsupported"


def synchronise_another_device():
    ok(hip.hipSetDevice(1))
    stream = new_stream()
    begin(stream, RELAXED)
    ok(hip.hipSetDevice(0))
    waits = [hip.hipDeviceSynchronize()[0].name for _ in range(2)]
    ok(hip.hipSetDevice(1))
    return [*waits, end(stream)[0], hip.hipDeviceSynchronize()[0].name]


def allocate_after_close():
    """Memory is asked for while somebody captures and a stream that used memory has been closed."""
    with hiprt.Stream() as closed:
        hiprt.zeros(1000, stream=closed)
    with capturing(RELAXED), hiprt.Stream() as stream:
        array = hiprt.zeros(1000, stream=stream)
        return float(array.numpy(stream).sum())


def decode_beside():
    return decode(beside=capturing(RELAXED))


def test_captures_of_other_devices_count_until_they_end():
    got = child(synchronise_another_device, quirks=QUIRK, HIPRT_CPU_DEVICES="2")
    assert got == [REFUSED, REFUSED, "hipErrorStreamCaptureInvalidated", "hipSuccess"]
    assert child(synchronise_another_device, HIPRT_CPU_DEVICES="2") == ["hipSuccess"] * 4


def test_memory_of_a_closed_stream():
    assert child(allocate_after_close, quirks=QUIRK) == 0.0


def test_steps_wait_for_streams_only():
    assert child(decode_beside, quirks=QUIRK) == expected()
