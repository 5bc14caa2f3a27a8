"""Stream capture: what becomes a node, forks and joins, and the legality rules."""

import ctypes
import threading

import numpy as np
import pytest
from helpers.hip_calls import (
    KIND,
    MODE,
    STATUS,
    E,
    Ints,
    KernelCall,
    add_fill,
    edges,
    error,
    functions,
    handles,
    instantiate,
    new_graph,
    nodes,
    ok,
    raw,
    run,
)
from rocm.bindings import hip

GLOBAL = MODE.hipStreamCaptureModeGlobal
LOCAL = MODE.hipStreamCaptureModeThreadLocal
RELAXED = MODE.hipStreamCaptureModeRelaxed
TYPE = hip.hipGraphNodeType


@pytest.fixture
def stream():
    """A stream that does not synchronise with the null stream. A capture that a test leaves is ended."""
    made = ok(hip.hipStreamCreateWithFlags(1))
    yield made
    end(made)
    ok(hip.hipStreamDestroy(made))


def begin(stream, mode=GLOBAL):
    ok(hip.hipStreamBeginCapture(stream, mode))


def end(stream):
    """End a capture; return the status and the graph, or None."""
    out = ctypes.c_void_p(12345)
    return raw("hipStreamEndCapture", stream, ctypes.byref(out)), out.value


def status(stream):
    return ok(hip.hipStreamIsCapturing(stream))


def fill(stream, target, value):
    ok(hip.hipMemsetD32Async(target.memory, value, target.n, stream))


def copy(stream, target, source):
    ok(hip.hipMemcpyDtoDAsync(target.memory, source.memory, 4 * target.n, stream))


def side_stream():
    return ok(hip.hipStreamCreateWithFlags(1))


def fork(stream, other):
    """Make `other` continue after all that `stream` has so far."""
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamWaitEvent(other, event, 0))
    return event


def types(graph):
    return [ok(hip.hipGraphNodeGetType(node)) for node in nodes(graph)]


def in_thread(call):
    """Make a call on another thread and return its result."""
    out = []
    thread = threading.Thread(target=lambda: out.append(call()))
    thread.start()
    thread.join()
    return out[0]


def test_work_becomes_a_chain(stream):
    x, y, z = Ints(4), Ints(4), Ints(4)
    begin(stream)
    assert status(stream) == STATUS.hipStreamCaptureStatusActive
    fill(stream, x, 5)
    copy(stream, y, x)
    copy(stream, z, y)
    result, graph = end(stream)
    assert result == E.hipSuccess
    assert status(stream) == STATUS.hipStreamCaptureStatusNone
    a, b, c = nodes(graph)
    assert edges(graph) == {(a, b), (b, c)}
    assert types(graph) == [TYPE.hipGraphNodeTypeMemset, TYPE.hipGraphNodeTypeMemcpy, TYPE.hipGraphNodeTypeMemcpy]
    assert z.read().tolist() == [0] * 4
    run(instantiate(graph))
    assert z.read().tolist() == [5] * 4


def test_captured_nodes_show_their_parameters(stream):
    x, y = Ints(6), Ints(6)
    begin(stream)
    fill(stream, x, 5)
    copy(stream, y, x)
    first, second = nodes(end(stream)[1])
    params = ok(hip.hipGraphMemsetNodeGetParams(first))
    assert (int(params.dst), params.elementSize, params.width, params.value) == (int(x), 4, 6, 5)
    params = ok(hip.hipGraphMemcpyNodeGetParams(second))
    assert (int(params.srcPtr.ptr), int(params.dstPtr.ptr), params.extent.width) == (int(x), int(y), 24)
    ok(hip.hipGraphMemcpyNodeSetParams(second, params))


def test_host_functions_are_captured(stream):
    calls = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    begin(stream)
    assert raw("hipLaunchHostFunc", stream, ctypes.cast(function, ctypes.c_void_p).value, 3) == E.hipSuccess
    graph = end(stream)[1]
    assert calls == []
    run(instantiate(graph))
    assert calls == [3]


def test_copies_from_pageable_memory_read_it_at_launch(stream):
    host, x = np.full(4, 1, np.int32), Ints(4)
    begin(stream)
    ok(hip.hipMemcpyAsync(x.memory, host, 16, KIND.hipMemcpyHostToDevice, stream))
    executable = instantiate(end(stream)[1])
    host[:] = 2
    run(executable)
    assert x.read().tolist() == [2] * 4


def test_fork_and_join(stream):
    other = side_stream()
    x, y, z = Ints(1), Ints(1), Ints(1)
    begin(stream)
    fill(stream, x, 3)
    fork(stream, other)
    assert status(other) == STATUS.hipStreamCaptureStatusActive
    copy(other, y, x)
    copy(stream, z, x)
    fork(other, stream)
    copy(stream, x, y)
    result, graph = end(stream)
    assert result == E.hipSuccess
    assert status(other) == STATUS.hipStreamCaptureStatusNone
    a, b, c, d = nodes(graph)
    assert edges(graph) == {(a, b), (a, c), (b, d), (c, d)}
    run(instantiate(graph))
    assert [int(array.read()[0]) for array in (x, y, z)] == [3, 3, 3]


def test_join_without_further_work(stream):
    other, x, y = side_stream(), Ints(1), Ints(1)
    begin(stream)
    fill(stream, x, 3)
    fork(stream, other)
    copy(other, y, x)
    fork(other, stream)
    assert end(stream)[0] == E.hipSuccess


def test_unjoined_fork(stream):
    other, x, y = side_stream(), Ints(1), Ints(1)
    begin(stream)
    fill(stream, x, 3)
    fork(stream, other)
    copy(other, y, x)
    assert end(stream) == (E.hipErrorStreamCaptureUnjoined, None)
    assert status(stream) == status(other) == STATUS.hipStreamCaptureStatusNone
    fill(other, y, 1)
    assert y.read()[0] == 1


def test_fork_without_work_needs_no_join(stream):
    other, x = side_stream(), Ints(1)
    begin(stream)
    fill(stream, x, 3)
    fork(stream, other)
    assert end(stream)[0] == E.hipSuccess


def test_end_errors(stream):
    other, out = side_stream(), ctypes.c_void_p()
    assert end(stream) == (E.hipErrorIllegalState, None)
    assert raw("hipStreamEndCapture", None, ctypes.byref(out)) == E.hipErrorIllegalState
    begin(stream)
    assert error(hip.hipStreamBeginCapture(stream, GLOBAL)) == E.hipErrorIllegalState
    fork(stream, other)
    assert end(other) == (E.hipErrorStreamCaptureUnmatched, None)
    assert in_thread(lambda: end(stream)) == (E.hipErrorStreamCaptureWrongThread, None)
    assert raw("hipStreamEndCapture", stream, None) == E.hipErrorInvalidValue
    assert end(stream)[0] == E.hipSuccess


def test_begin_errors(stream):
    assert error(hip.hipStreamBeginCapture(None, GLOBAL)) == E.hipErrorStreamCaptureUnsupported
    assert raw("hipStreamBeginCapture", stream, ctypes.c_int(7)) == E.hipErrorInvalidValue
    assert raw("hipStreamBeginCapture", 4096, ctypes.c_int(0)) == E.hipErrorInvalidHandle


def test_relaxed_capture_may_end_on_another_thread(stream):
    begin(stream, RELAXED)
    assert in_thread(lambda: end(stream))[0] == E.hipSuccess


def test_merging_two_captures(stream):
    other, event = side_stream(), ok(hip.hipEventCreate())
    begin(stream)
    begin(other)
    ok(hip.hipEventRecord(event, other))
    assert error(hip.hipStreamWaitEvent(stream, event, 0)) == E.hipErrorStreamCaptureMerge
    assert end(stream) == (E.hipErrorStreamCaptureInvalidated, None)
    assert end(other) == (E.hipErrorStreamCaptureInvalidated, None)


def test_waiting_for_an_outside_event(stream):
    event = ok(hip.hipEventCreate())
    ok(hip.hipEventRecord(event, None))
    begin(stream)
    assert error(hip.hipStreamWaitEvent(stream, event, 0)) == E.hipErrorStreamCaptureIsolation
    assert status(stream) == STATUS.hipStreamCaptureStatusInvalidated
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated


def test_calls_on_an_invalidated_stream(stream):
    x = Ints(1)
    begin(stream)
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorStreamCaptureUnsupported
    assert error(hip.hipMemsetD32Async(x.memory, 1, 1, stream)) == E.hipErrorStreamCaptureInvalidated
    assert error(hip.hipEventRecord(ok(hip.hipEventCreate()), stream)) == E.hipErrorStreamCaptureInvalidated
    assert end(stream) == (E.hipErrorStreamCaptureInvalidated, None)
    fill(stream, x, 1)
    assert x.read()[0] == 1


def test_external_events_are_nodes(stream):
    event, other, x, y = ok(hip.hipEventCreate()), side_stream(), Ints(1), Ints(1)
    begin(stream)
    fill(stream, x, 4)
    ok(hip.hipEventRecordWithFlags(event, stream, 1))
    ok(hip.hipStreamWaitEvent(stream, event, 1))
    result, graph = end(stream)
    assert result == E.hipSuccess
    assert types(graph)[1:] == [TYPE.hipGraphNodeTypeEventRecord, TYPE.hipGraphNodeTypeWaitEvent]
    assert int(ok(hip.hipGraphEventRecordNodeGetEvent(nodes(graph)[1]))) == int(event)
    ok(hip.hipGraphLaunch(instantiate(graph), stream))
    ok(hip.hipStreamWaitEvent(other, event, 0))
    copy(other, y, x)
    assert y.read()[0] == 4


def test_captured_events_are_no_good_until_recorded_again(stream):
    event, other = ok(hip.hipEventCreate()), side_stream()
    begin(stream, RELAXED)
    ok(hip.hipEventRecord(event, stream))
    assert error(hip.hipEventQuery(event)) == E.hipErrorCapturedEvent
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated
    assert error(hip.hipEventSynchronize(event)) == E.hipErrorCapturedEvent
    assert error(hip.hipStreamWaitEvent(other, event, 0)) == E.hipErrorCapturedEvent
    ok(hip.hipEventRecord(event, other))
    ok(hip.hipEventSynchronize(event))


FORBIDDEN = {
    "hipMalloc": lambda stream: hip.hipMalloc(64),
    "hipHostMalloc": lambda stream: hip.hipHostMalloc(64, 0),
    "hipMallocManaged": lambda stream: hip.hipMallocManaged(64, 1),
    "hipFree": lambda stream: hip.hipFree(None),
    "hipStreamQuery of another stream": lambda stream: hip.hipStreamQuery(stream),
    "hipStreamSynchronize of another stream": lambda stream: hip.hipStreamSynchronize(stream),
    "hipEventQuery": lambda stream: hip.hipEventQuery(ok(hip.hipEventCreate())),
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_unsafe_calls_follow_the_mode(stream, name):
    other, call = side_stream(), FORBIDDEN[name]
    local = lambda: error(call(other))  # noqa: E731
    refused = E.hipErrorStreamCaptureUnsupported
    for mode, here, elsewhere in [
        (GLOBAL, refused, refused),
        (LOCAL, refused, E.hipSuccess),
        (RELAXED, E.hipSuccess, E.hipSuccess),
    ]:
        begin(stream, mode)
        assert in_thread(local) == elsewhere
        assert end(stream)[0] == (E.hipSuccess if elsewhere == E.hipSuccess else E.hipErrorStreamCaptureInvalidated)
        begin(stream, mode)
        assert local() == here
        assert end(stream)[0] == (E.hipSuccess if here == E.hipSuccess else E.hipErrorStreamCaptureInvalidated)


def exchange(mode):
    """Set this thread's mode; return the previous one."""
    cell = ctypes.c_int(mode)
    assert raw("hipThreadExchangeStreamCaptureMode", ctypes.byref(cell)) == E.hipSuccess
    return cell.value


def test_thread_mode_relaxes_the_rules(stream):
    begin(stream)
    assert exchange(RELAXED) == GLOBAL
    try:
        ok(hip.hipFree(ok(hip.hipMalloc(64))))
    finally:
        assert exchange(GLOBAL) == RELAXED
    assert end(stream)[0] == E.hipSuccess
    bad = ctypes.c_int(9)
    assert raw("hipThreadExchangeStreamCaptureMode", ctypes.byref(bad)) == E.hipErrorInvalidValue
    assert raw("hipThreadExchangeStreamCaptureMode", None) == E.hipErrorInvalidValue


def test_device_synchronize_is_always_refused(stream):
    begin(stream, RELAXED)
    assert error(hip.hipDeviceSynchronize()) == E.hipErrorStreamCaptureUnsupported
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated


def test_synchronous_copies_are_implicit(stream):
    x = Ints(4)
    begin(stream)
    assert error(hip.hipMemset(x.memory, 0, 16)) == E.hipErrorStreamCaptureImplicit
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated
    begin(stream)
    host = np.zeros(4, np.int32)
    assert error(hip.hipMemcpy(host, x.memory, 16, KIND.hipMemcpyDeviceToHost)) == E.hipErrorStreamCaptureImplicit
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated


def test_legacy_stream_and_a_blocking_capture():
    x, blocking, event = Ints(4), ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
    begin(blocking, RELAXED)
    out = ctypes.c_int()
    assert raw("hipStreamIsCapturing", None, ctypes.byref(out)) == E.hipErrorStreamCaptureImplicit
    assert status(blocking) == STATUS.hipStreamCaptureStatusActive
    ok(hip.hipEventRecord(event, blocking))
    assert error(hip.hipStreamWaitEvent(None, event, 0)) == E.hipErrorStreamCaptureImplicit
    assert end(blocking)[0] == E.hipErrorStreamCaptureInvalidated
    begin(blocking, RELAXED)
    assert error(hip.hipMemsetAsync(x.memory, 0, 16, None)) == E.hipErrorStreamCaptureImplicit
    assert end(blocking)[0] == E.hipErrorStreamCaptureInvalidated
    begin(blocking, RELAXED)
    assert error(hip.hipGraphLaunch(instantiate(new_graph()), None)) == E.hipErrorStreamCaptureImplicit
    assert end(blocking)[0] == E.hipErrorStreamCaptureInvalidated


def test_legacy_stream_beside_a_non_blocking_capture(stream):
    x = Ints(4)
    begin(stream, RELAXED)
    ok(hip.hipMemsetAsync(x.memory, 0, 16, None))
    assert status(None) == STATUS.hipStreamCaptureStatusNone
    assert end(stream)[0] == E.hipSuccess


def test_graph_launch_cannot_be_captured(stream):
    executable = instantiate(new_graph())
    begin(stream, RELAXED)
    assert error(hip.hipGraphLaunch(executable, stream)) == E.hipErrorStreamCaptureUnsupported
    assert end(stream)[0] == E.hipErrorStreamCaptureInvalidated


def capture_info(stream):
    """Return a capture's status, id, graph and dependencies."""
    state, number, graph = ctypes.c_int(-1), ctypes.c_ulonglong(), ctypes.c_void_p()
    deps, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    outs = map(ctypes.byref, (state, number, graph, deps, count))
    assert raw("hipStreamGetCaptureInfo_v2", stream, *outs) == E.hipSuccess
    return state.value, number.value, graph.value, [deps[i] for i in range(count.value)]


def test_capture_info_and_dependencies(stream):
    x = Ints(1)
    assert capture_info(stream)[0] == STATUS.hipStreamCaptureStatusNone
    begin(stream)
    fill(stream, x, 1)
    state, number, graph, deps = capture_info(stream)
    assert state == STATUS.hipStreamCaptureStatusActive
    assert number > 0
    assert deps == nodes(graph)
    assert error(hip.hipGraphInstantiateWithFlags(graph, 0)) == E.hipErrorIllegalState
    assert error(hip.hipGraphDestroy(graph)) == E.hipErrorIllegalState
    mine = add_fill(graph, deps, x, 2)
    one = (ctypes.c_void_p * 1)(int(mine))
    args = one, ctypes.c_size_t(1)
    assert raw("hipStreamUpdateCaptureDependencies", stream, *args, ctypes.c_uint(1)) == E.hipSuccess
    assert capture_info(stream)[3] == [int(mine)]
    one[0] = deps[0]
    assert raw("hipStreamUpdateCaptureDependencies", stream, *args, ctypes.c_uint(0)) == E.hipSuccess
    assert capture_info(stream)[3] == [int(mine), deps[0]]
    assert raw("hipStreamUpdateCaptureDependencies", stream, *args, ctypes.c_uint(2)) == E.hipErrorInvalidValue
    fill(stream, x, 3)
    result, captured = end(stream)
    assert (result, captured) == (E.hipSuccess, graph)
    first, second, third = nodes(graph)
    assert edges(graph) == {(first, second), (first, third), (second, third)}
    assert raw("hipStreamUpdateCaptureDependencies", stream, *args, ctypes.c_uint(0)) == E.hipErrorIllegalState
    begin(stream)
    assert capture_info(stream)[1] > number
    assert end(stream)[0] == E.hipSuccess


def test_capture_into_an_existing_graph(stream):
    x, graph = Ints(1), new_graph()
    first = add_fill(graph, [], x, 1)
    deps, count = handles([first])
    capture = lambda *args: raw("hipStreamBeginCaptureToGraph", stream, graph, *args, ctypes.c_int(0))  # noqa: E731
    array = (ctypes.c_void_p * 1)(int(first))
    edge = ctypes.create_string_buffer(8)
    assert capture(array, edge, ctypes.c_size_t(1)) == E.hipErrorNotSupported
    assert capture(array, None, ctypes.c_size_t(0)) == E.hipErrorInvalidValue
    assert capture(array, None, ctypes.c_size_t(count)) == E.hipSuccess
    fill(stream, x, 2)
    assert end(stream) == (E.hipSuccess, int(graph))
    a, b = nodes(graph)
    assert edges(graph) == {(a, b)}
    assert int(deps[0]) == a
    run(instantiate(graph))
    assert x.read()[0] == 2
    assert capture(array, None, ctypes.c_size_t(1)) == E.hipSuccess
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorStreamCaptureUnsupported
    assert end(stream) == (E.hipErrorStreamCaptureInvalidated, None)
    assert len(nodes(graph)) == 2


def test_capture_into_a_child_graph(stream):
    """A node's child graph takes what is captured; meanwhile its node and the graphs around it stay."""
    x, y, graph, inner = Ints(1), Ints(1), new_graph(), new_graph()
    add_fill(inner, [], x, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner))
    child = ok(hip.hipGraphChildGraphNodeGetGraph(node))
    begin_to = lambda: raw(  # noqa: E731
        "hipStreamBeginCaptureToGraph", stream, child, None, None, ctypes.c_size_t(0), ctypes.c_int(0)
    )
    assert begin_to() == E.hipSuccess
    assert error(hip.hipGraphDestroy(graph)) == error(hip.hipGraphDestroyNode(node)) == E.hipErrorIllegalState
    assert error(hip.hipGraphInstantiateWithFlags(graph, 0)) == E.hipErrorIllegalState
    fill(stream, y, 2)
    memory = ctypes.c_void_p()
    assert raw("hipMallocAsync", ctypes.byref(memory), ctypes.c_size_t(64), stream) == E.hipErrorNotSupported
    assert end(stream) == (E.hipSuccess, int(child))
    run(instantiate(graph))
    assert (x.read()[0], y.read()[0]) == (1, 2)
    ok(hip.hipGraphDestroyNode(node))
    ok(hip.hipGraphDestroy(graph))


def test_destroying_streams_of_a_capture(stream):
    origin, other = side_stream(), side_stream()
    begin(origin)
    fork(origin, other)
    ok(hip.hipStreamDestroy(other))
    assert status(origin) == STATUS.hipStreamCaptureStatusInvalidated
    fork_target = side_stream()
    assert end(origin)[0] == E.hipErrorStreamCaptureInvalidated
    begin(origin)
    fork(origin, fork_target)
    ok(hip.hipStreamDestroy(origin))
    assert status(fork_target) == STATUS.hipStreamCaptureStatusNone
    ok(hip.hipFree(ok(hip.hipMalloc(64))))


def test_allocations_become_memory_nodes(stream):
    x = Ints(16)
    begin(stream)
    memory = ok(hip.hipMallocAsync(64, stream))
    ok(hip.hipMemsetD32Async(memory, 6, 16, stream))
    ok(hip.hipMemcpyDtoDAsync(x.memory, memory, 64, stream))
    ok(hip.hipFreeAsync(memory, stream))
    assert error(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue
    result, graph = end(stream)
    assert result == E.hipSuccess
    assert types(graph)[0] == TYPE.hipGraphNodeTypeMemAlloc
    assert types(graph)[-1] == TYPE.hipGraphNodeTypeMemFree
    executable = instantiate(graph)
    run(executable)
    run(executable)
    assert x.read().tolist() == [6] * 16


def test_freeing_pool_memory_in_a_capture_is_refused(stream):
    memory = ok(hip.hipMallocAsync(64, stream))
    begin(stream)
    assert error(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue
    end(stream)
    ok(hip.hipFreeAsync(memory, stream))


def test_kernels_are_captured(stream):
    x, y = Ints(100), Ints(100)
    x.write(range(100))
    call = KernelCall("scale_add", y, x, 2, 1, 100)
    begin(stream)
    geometry = map(ctypes.c_uint, (2, 1, 1, 64, 1, 1, 0))
    array = (ctypes.c_void_p * 5)(*map(int, call.pointers))
    assert raw("hipModuleLaunchKernel", functions()["scale_add"], *geometry, stream, array, None) == E.hipSuccess
    graph = end(stream)[1]
    call.forget()
    run(instantiate(graph))
    assert y.read().tolist() == [2 * i + 1 for i in range(100)]
    params = ok(hip.hipGraphKernelNodeGetParams(nodes(graph)[0]))
    assert int(params.func) == int(functions()["scale_add"])
    assert params.gridDim.x == 2
    ok(hip.hipGraphKernelNodeSetParams(nodes(graph)[0], params))


def test_captures_on_many_threads():
    """Captures in thread-local mode do not disturb each other."""
    failures = []

    def work(seed):
        stream, x, y = side_stream(), *arrays[seed]
        for i in range(20):
            begin(stream, LOCAL)
            fill(stream, x, 100 * seed + i)
            copy(stream, y, x)
            result, graph = end(stream)
            if result != E.hipSuccess:
                failures.append(result)
                continue
            executable = instantiate(graph)
            ok(hip.hipGraphLaunch(executable, stream))
            ok(hip.hipGraphExecDestroy(executable))
            ok(hip.hipGraphDestroy(graph))

    arrays = [(Ints(8), Ints(8)) for _ in range(4)]
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [int(y.read()[0]) for _, y in arrays] == [19, 119, 219, 319]
