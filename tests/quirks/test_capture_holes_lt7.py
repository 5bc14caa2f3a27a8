"""Calls that are illegal during a capture and that CLR before 7.0 lets through (pytorch#155684, ROCm/hip#3876)."""

import ctypes

from helpers.child import child
from helpers.hip_calls import E, Ints, listed, ok, raw
from quirks.capture_calls import begin, capturing, end, fill, new_stream
from quirks.decode import decode, expected
from quirks.pool_calls import new_pool
from rocm.bindings import hip

QUIRK = "capture_holes_lt7"


def attempts():
    """By name, what a call that is illegal in a capture returned, and how the capture ended."""
    calls, idle = [], new_stream()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *_: calls.append(1))
    event, managed = ok(hip.hipEventCreate()), ok(hip.hipMallocManaged(64, 1))
    default = ok(hip.hipDeviceGetDefaultMemPool(0))
    advice, prefer = hip.hipMemoryAdvise.hipMemAdviseSetReadMostly, hip.hipFuncCache_t.hipFuncCachePreferNone
    callback = ctypes.cast(function, ctypes.c_void_p).value
    illegal = {
        "hipMemPoolCreate": new_pool,
        "hipDeviceSetMemPool": lambda: hip.hipDeviceSetMemPool(0, default)[0],
        "hipMemAdvise": lambda: hip.hipMemAdvise(managed, 64, advice, 0)[0],
        "hipDeviceSetCacheConfig": lambda: hip.hipDeviceSetCacheConfig(prefer)[0],
        "hipEventQuery": lambda: hip.hipEventQuery(event)[0],
        "hipStreamAddCallback": lambda: raw("hipStreamAddCallback", idle, callback, None, ctypes.c_uint(0)),
    }
    results = {}
    for name, call in illegal.items():
        stream = new_stream()
        begin(stream)
        try:
            done = call()
        except Exception as error:
            done = error.args[0]
        results[name] = [getattr(done, "name", "hipSuccess"), end(stream)[0]]
    ok(hip.hipDeviceSynchronize())
    return {**results, "callbacks": len(calls)}


def callback_in_capture():
    """A callback on the capturing stream itself: whether it ran before the capture ended, and the graph's nodes."""
    stream, ran = new_stream(), []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(lambda *_: ran.append(1))
    begin(stream)
    raw("hipStreamAddCallback", stream, ctypes.cast(function, ctypes.c_void_p).value, None, ctypes.c_uint(0))
    result, graph = end(stream)
    ok(hip.hipStreamSynchronize(stream))
    return [result, len(ran), len(listed("hipGraphGetNodes", graph))]


def wait_for_outside():
    """A wait for an event recorded outside: what it returned, how the capture ended, and the graph's node types."""
    stream, event, x = new_stream(), ok(hip.hipEventCreate()), Ints(1)
    ok(hip.hipEventRecord(event, new_stream()))
    begin(stream)
    waited = hip.hipStreamWaitEvent(stream, event, 0)[0].name
    fill(stream, x, 1)
    result, graph = end(stream)
    return [waited, result, len(listed("hipGraphGetNodes", graph)) if graph else 0]


def decode_beside():
    with capturing(0):
        pass
    return decode()


def test_illegal_calls_pass():
    passed = child(attempts, quirks=QUIRK)
    assert passed.pop("callbacks") == 1
    assert all(result == ["hipSuccess", "hipSuccess"] for result in passed.values()), passed
    refused = child(attempts)
    assert refused.pop("callbacks") == 0
    wanted = [E.hipErrorStreamCaptureUnsupported.name, E.hipErrorStreamCaptureInvalidated.name]
    assert all(result == wanted for result in refused.values()), refused


def test_callbacks_run_at_once():
    assert child(callback_in_capture, quirks=QUIRK) == ["hipSuccess", 1, 0]


def test_the_graph_forgets_outside_events():
    assert child(wait_for_outside, quirks=QUIRK) == ["hipSuccess", "hipSuccess", 1]
    assert child(wait_for_outside)[:2] == ["hipErrorStreamCaptureIsolation", "hipErrorStreamCaptureInvalidated"]


def test_steps_rely_on_no_refusal():
    assert child(decode_beside, quirks=QUIRK) == expected()
