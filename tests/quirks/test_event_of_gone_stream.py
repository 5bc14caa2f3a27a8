"""event_of_gone_stream: hipEventQuery and hipEventSynchronize look at the stream where the event was recorded, also if
that has been destroyed since (ROCm/clr @f9f995c6d, hip_event.cpp:432-470; ROCm/rocm-systems @06d4c70a,
checkEventCaptureRestrictions): freed memory may say that it is being captured.

Ours: asks only about events that were recorded on streams that are still there.
"""

import gc

import numpy as np
import pytest
from helpers.child import child
from helpers.hip_calls import Gate, error, ok
from quirks.workloads import ours
from rocm.bindings import hip

import hiprt
from hiprt import graphs, kernels as k
from hiprt.allocator import default_pool

QUIRK = "event_of_gone_stream"
N = 1 << 18
PROFILES = ("clr-6.2", "clr-7.2", "clr-10")


def raw(call):
    event, stream = ok(hip.hipEventCreate()), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipStreamDestroy(stream))
    return error(getattr(hip, call)(event)).name


def memory():
    """Whether the memory of streams that are gone is used again: what the pool has after each of some."""
    sizes = []
    for _ in range(5):
        gate, stream = Gate(), hiprt.Stream()
        with hiprt.use_stream(stream):
            gate.hold(stream.hip_stream)
            hiprt.zeros(N)
        with hiprt.Stream() as asks:
            hiprt.zeros(16, stream=asks)
        gate.open()
        stream.close()
        gc.collect()
        hiprt.current_device().synchronize()
        sizes.append(default_pool.stats().reserved)
    return sizes


def steps():
    """A step that is launched on streams which are closed at once, with other arguments each time."""
    x, results, factor = hiprt.array(np.ones(N, np.float32)), [], 1.0
    step = graphs.Step(lambda: k.multiply(x, factor), name="moving", keep=False)
    for i in range(6):
        factor = 1.0 + i
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            results.append(step())
    return [[float(each.numpy()[0]) for each in results], step.rungs["eager"]]


def uploads():
    """Arrays come from the host on streams which are closed at once."""
    out = []
    for i in range(4):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            array = hiprt.array(np.full(N, i, np.float32))
        out.append(float((array + array).numpy()[0]))
    return out


@pytest.mark.parametrize("call", ["hipEventQuery", "hipEventSynchronize"])
def test_the_event_seems_captured(call):
    assert child(raw, call) == "hipSuccess"
    assert child(raw, call, quirks=QUIRK) == child(raw, call, profile="clr-7.2") == "hipErrorCapturedEvent"


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_steps_on_streams_that_go(profile):
    assert child(steps, profile=profile) == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0]


def test_steps_and_arrays_of_streams_that_went():
    assert child(steps, quirks=QUIRK) == [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0]
    assert child(uploads, quirks=QUIRK) == [0.0, 2.0, 4.0, 6.0]


def test_memory_of_streams_that_went():
    sizes = child(memory, quirks=QUIRK)
    assert sizes == child(memory)
    assert sizes[-1] == sizes[2]


def test_ours_asks_no_gone_stream():
    ours("kept", "fan", quirks=QUIRK)
