"""event_of_captured_stream: up to HIP 6.4 asking or waiting for an event ends the capture of the stream where it was
recorded, also if that was before the capture (ROCm/clr @f9f995c6d, hip_event.cpp:432-470).

Ours: while a stream is captured, asks nothing about events that were recorded there.
"""

import ctypes

import numpy as np
import pytest
from helpers import foreign
from helpers.child import child
from helpers.hip_calls import Gate, error, ok, raw as called
from quirks.capture_calls import RELAXED, begin, end, new_stream, on_thread
from quirks.workloads import ours
from rocm.bindings import hip

import hiprt
from hiprt import graphs, kernels as k

QUIRK = "event_of_captured_stream"
N = 1000
PROFILES = ("cuda", "clr-6.2", "clr-6.4", "clr-7.2", "clr-10", "paranoid")


def raw(call):
    """Ask about an event that was recorded before the capture; the statuses of that and of the capture's end."""
    event, stream = ok(hip.hipEventCreate()), new_stream()
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamSynchronize(stream))
    begin(stream, RELAXED)
    called("hipThreadExchangeStreamCaptureMode", ctypes.byref(ctypes.c_int(RELAXED)))
    asked = error(getattr(hip, call)(event)).name
    return [asked, end(stream)[0]]


def steps(stream, x, beside):
    """A step beside whose capture another thread runs `beside`: what both give, and the eager launches."""
    results, handle = [], stream.handle

    def function():
        y = hiprt.zeros(N, np.uint32)
        with graphs.capture(reads=[x], writes=[y]):
            results.append(on_thread(beside))
            foreign.affine(handle, y, x, 3, 1)
        return y

    step = graphs.Step(function, stream=stream, keep=False)
    sums = [int(step().numpy(stream=stream).sum()) for _ in range(2)]
    return [sums, results, step.rungs["eager"]]


def allocation():
    """Beside the capture memory is asked for that its stream has freed, with a fence behind that."""
    stream, gate = hiprt.Stream(), Gate()
    with hiprt.use_stream(stream):
        gate.hold(stream.hip_stream)
        hiprt.zeros(1 << 20)
    with hiprt.Stream() as other:
        hiprt.zeros(1 << 20, stream=other)
    gate.open()

    def allocate():
        with hiprt.Stream() as other:
            return float(hiprt.zeros(1 << 20, stream=other).numpy(other).sum())

    return steps(stream, hiprt.array(np.ones(N, np.uint32)), allocate)


def reading():
    """Beside the capture an array is read that its stream has written."""
    stream = hiprt.Stream()
    x = hiprt.zeros(N, np.uint32, stream=stream)

    def read():
        with hiprt.Stream() as other, hiprt.use_stream(other):
            return int(k.add(x, x).numpy(stream=other).sum())

    return steps(stream, x, read)


@pytest.mark.parametrize("call", ["hipEventQuery", "hipEventSynchronize"])
def test_the_capture_ends(call):
    assert child(raw, call) == ["hipSuccess"] * 2
    refused = ["hipErrorCapturedEvent", "hipErrorStreamCaptureInvalidated"]
    assert child(raw, call, quirks=QUIRK) == child(raw, call, profile="clr-6.4") == refused
    assert child(raw, call, profile="clr-7.2") == ["hipSuccess"] * 2


@pytest.mark.every(3)
@pytest.mark.parametrize("profile", PROFILES)
def test_memory_is_found_beside_a_capture(profile):
    assert child(allocation, profile=profile) == [[4 * N] * 2, [0.0] * 2, 0]


@pytest.mark.every(3)
@pytest.mark.parametrize("profile", PROFILES)
def test_work_of_a_captured_stream_is_waited_for(profile):
    assert child(reading, profile=profile) == [[N] * 2, [0] * 2, 0]


def test_both_under_the_quirk():
    assert child(allocation, quirks=QUIRK)[2] == child(reading, quirks=QUIRK)[2] == 0


def test_ours_ends_no_capture():
    ours("kept", "fan", quirks=QUIRK)
