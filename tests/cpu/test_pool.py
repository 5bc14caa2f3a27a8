"""Stream-ordered memory: pools, reuse across streams, release, and memory nodes of graphs."""

import ctypes
import threading

import numpy as np
import pytest
from helpers.hip_calls import (
    KIND,
    E,
    Gate,
    Ints,
    add_fill,
    error,
    handles,
    instantiate,
    new_graph,
    ok,
    raw,
    run,
    settle,
)
from rocm.bindings import hip

ATTR = hip.hipMemPoolAttr
GRAPH_ATTR = hip.hipGraphMemAttributeType
MB = 1 << 20
EVERYTHING = 2**64 - 1


def side_stream():
    return ok(hip.hipStreamCreateWithFlags(1))


def props(device=0, max_size=0):
    return set_props(hip.hipMemPoolProps(), device, max_size)


def set_props(made, device=0, max_size=0):
    made.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    made.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    made.location.id = device
    made.maxSize = max_size
    return made


@pytest.fixture
def pool():
    """A pool that keeps its memory until told otherwise, without opportunistic or waiting reuse."""
    made = ok(hip.hipMemPoolCreate(props()))
    put(made, ATTR.hipMemPoolAttrReleaseThreshold, EVERYTHING)
    put_flag(made, ATTR.hipMemPoolReuseAllowOpportunistic, 0)
    put_flag(made, ATTR.hipMemPoolReuseAllowInternalDependencies, 0)
    Gate.made.clear()
    yield made
    Gate.open_all()
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemPoolDestroy(made))


def get(pool, attribute):
    out = np.zeros(1, np.uint64)
    ok(hip.hipMemPoolGetAttribute(pool, attribute, out))
    return int(out[0])


def put(pool, attribute, value):
    ok(hip.hipMemPoolSetAttribute(pool, attribute, np.array([value], np.uint64)))


def put_flag(pool, attribute, value):
    ok(hip.hipMemPoolSetAttribute(pool, attribute, np.array([value], np.int32)))


def allocate(pool, stream, size=MB):
    return ok(hip.hipMallocFromPoolAsync(size, pool, stream))


def free(memory, stream):
    ok(hip.hipFreeAsync(memory, stream))


def test_memory_is_usable_in_stream_order():
    stream, out = side_stream(), Ints(16)
    memory = ok(hip.hipMallocAsync(64, stream))
    ok(hip.hipMemsetD32Async(memory, 4, 16, stream))
    ok(hip.hipMemcpyDtoDAsync(out.memory, memory, 64, stream))
    free(memory, stream)
    assert out.read().tolist() == [4] * 16


def test_reuse_on_the_same_stream_is_immediate(pool):
    gate, stream = Gate(), side_stream()
    gate.hold(stream)
    first = allocate(pool, stream)
    free(first, stream)
    assert int(allocate(pool, stream)) == int(first)
    gate.open()


def test_no_reuse_on_another_stream_before_the_free(pool):
    gate, stream, other = Gate(), side_stream(), side_stream()
    first = allocate(pool, stream)
    gate.hold(stream)
    free(first, stream)
    second = allocate(pool, other)
    assert int(second) != int(first)
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert int(allocate(pool, other)) != int(first)  # opportunistic reuse is off


def test_opportunistic_reuse_after_the_free(pool):
    gate, stream, other = Gate(), side_stream(), side_stream()
    put_flag(pool, ATTR.hipMemPoolReuseAllowOpportunistic, 1)
    first = allocate(pool, stream)
    gate.hold(stream)
    free(first, stream)
    assert int(allocate(pool, other)) != int(first)
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert int(allocate(pool, other)) == int(first)


def test_reuse_follows_events(pool):
    gate, streams = Gate(), [side_stream() for _ in range(3)]
    early, late, relay = (ok(hip.hipEventCreate()) for _ in range(3))
    first = allocate(pool, streams[0])
    gate.hold(streams[0])
    free(allocate(pool, streams[0], 8 * MB), streams[0])
    ok(hip.hipEventRecord(early, streams[0]))
    free(first, streams[0])
    ok(hip.hipEventRecord(late, streams[0]))
    ok(hip.hipStreamWaitEvent(streams[1], early, 0))
    assert int(allocate(pool, streams[1])) != int(first)
    ok(hip.hipStreamWaitEvent(streams[1], late, 0))
    ok(hip.hipEventRecord(relay, streams[1]))
    ok(hip.hipStreamWaitEvent(streams[2], relay, 0))
    put_flag(pool, ATTR.hipMemPoolReuseFollowEventDependencies, 0)
    assert int(allocate(pool, streams[2])) != int(first)
    put_flag(pool, ATTR.hipMemPoolReuseFollowEventDependencies, 1)
    assert int(allocate(pool, streams[2])) == int(first)
    gate.open()


def test_internal_dependencies_make_the_stream_wait():
    """A stream waits for memory that another one frees where the pool has no more, and nowhere else."""
    gate, stream, other, out = Gate(), side_stream(), side_stream(), Ints(1)
    pool = ok(hip.hipMemPoolCreate(props(max_size=2 * MB)))
    put_flag(pool, ATTR.hipMemPoolReuseAllowOpportunistic, 0)
    first = allocate(pool, stream)
    gate.hold(stream)
    ok(hip.hipMemsetD32Async(first, 1, MB // 4, stream))
    ok(hip.hipMemcpyDtoDAsync(out.memory, first, 4, stream))
    free(first, stream)
    second = allocate(pool, other)
    assert int(second) != int(first)
    ok(hip.hipStreamSynchronize(other))
    put_flag(pool, ATTR.hipMemPoolReuseAllowInternalDependencies, 0)
    assert error(hip.hipMallocFromPoolAsync(MB, pool, other)) == E.hipErrorOutOfMemory
    put_flag(pool, ATTR.hipMemPoolReuseAllowInternalDependencies, 1)
    third = allocate(pool, other)
    assert int(third) == int(first)
    ok(hip.hipMemsetD32Async(third, 2, MB // 4, other))
    settle()
    assert error(hip.hipStreamQuery(other)) == E.hipErrorNotReady
    gate.open()
    assert out.read()[0] == 1
    for memory in (second, third):
        free(memory, other)
    ok(hip.hipDeviceSynchronize())
    ok(hip.hipMemPoolDestroy(pool))


def test_small_requests_do_not_take_large_blocks(pool):
    stream = side_stream()
    large = allocate(pool, stream, 8 * MB)
    free(large, stream)
    assert int(allocate(pool, stream, 64)) != int(large)


def test_threshold_is_honoured(pool):
    stream = side_stream()
    put(pool, ATTR.hipMemPoolAttrReleaseThreshold, 2 * MB)
    for memory in [allocate(pool, stream) for _ in range(4)]:
        free(memory, stream)
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == 4 * MB
    ok(hip.hipStreamSynchronize(stream))
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == 2 * MB
    put(pool, ATTR.hipMemPoolAttrReleaseThreshold, 0)
    ok(hip.hipDeviceSynchronize())
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == 0


def test_trim_keeps_what_it_is_asked_to(pool):
    gate, stream = Gate(), side_stream()
    memory = [allocate(pool, stream) for _ in range(4)]
    for block in memory[:3]:
        free(block, stream)
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 3 * MB))
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == 3 * MB
    gate.hold(stream)
    free(memory[3], stream)
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == MB  # its free has not run
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert get(pool, ATTR.hipMemPoolAttrReservedMemCurrent) == 0


def test_used_and_high_water_marks(pool):
    stream = side_stream()
    memory = [allocate(pool, stream) for _ in range(3)]
    assert get(pool, ATTR.hipMemPoolAttrUsedMemCurrent) == 3 * MB
    for block in memory:
        free(block, stream)
    assert get(pool, ATTR.hipMemPoolAttrUsedMemCurrent) == 0
    assert get(pool, ATTR.hipMemPoolAttrUsedMemHigh) == 3 * MB
    put(pool, ATTR.hipMemPoolAttrUsedMemHigh, 0)
    assert get(pool, ATTR.hipMemPoolAttrUsedMemHigh) == 0
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipMemPoolTrimTo(pool, 0))
    assert get(pool, ATTR.hipMemPoolAttrReservedMemHigh) == 3 * MB
    put(pool, ATTR.hipMemPoolAttrReservedMemHigh, 0)
    assert get(pool, ATTR.hipMemPoolAttrReservedMemHigh) == 0
    for attribute in (ATTR.hipMemPoolAttrUsedMemHigh, ATTR.hipMemPoolAttrReservedMemHigh):
        assert error(hip.hipMemPoolSetAttribute(pool, attribute, np.array([5], np.uint64))) == E.hipErrorInvalidValue
    current = ATTR.hipMemPoolAttrUsedMemCurrent
    assert error(hip.hipMemPoolSetAttribute(pool, current, np.zeros(1, np.uint64))) == E.hipErrorInvalidValue
    for name in ("hipMemPoolGetAttribute", "hipMemPoolSetAttribute"):
        assert raw(name, pool, ctypes.c_int(77), (ctypes.c_ulonglong * 1)()) == E.hipErrorInvalidValue


def test_maximum_size():
    pool, stream = ok(hip.hipMemPoolCreate(props(max_size=2 * MB))), side_stream()
    first = allocate(pool, stream)
    second = allocate(pool, stream)
    assert error(hip.hipMallocFromPoolAsync(MB, pool, stream)) == E.hipErrorOutOfMemory
    free(first, stream)
    free(second, stream)
    ok(hip.hipStreamSynchronize(stream))
    free(allocate(pool, stream, 2 * MB), stream)
    ok(hip.hipMemPoolDestroy(pool))


def test_unused_pool_memory_is_given_up_before_running_out(pool):
    stream = side_stream()
    spare = ok(hip.hipMemGetInfo())[0]
    size = spare * 2 // 3 // MB * MB
    free(allocate(pool, stream, size), stream)
    ok(hip.hipStreamSynchronize(stream))
    other = ok(hip.hipMemPoolCreate(props()))
    memory = allocate(other, stream, size)
    free(memory, stream)
    ok(hip.hipMemPoolDestroy(other))


def test_allocation_errors(pool):
    stream = side_stream()
    assert ok(hip.hipMallocAsync(0, stream)) is None
    assert error(hip.hipMallocAsync(1 << 60, stream)) == E.hipErrorOutOfMemory
    ok(hip.hipFreeAsync(None, stream))
    memory = allocate(pool, stream)
    free(memory, stream)
    assert error(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue
    plain = ok(hip.hipHostMalloc(64, 0))
    assert error(hip.hipFreeAsync(plain, stream)) == E.hipErrorInvalidValue
    ok(hip.hipStreamDestroy(stream))
    assert error(hip.hipMallocAsync(64, stream)) == E.hipErrorInvalidHandle
    assert error(hip.hipFreeAsync(plain, stream)) == E.hipErrorInvalidHandle
    assert raw("hipMallocFromPoolAsync", None, 64, pool, None) == E.hipErrorInvalidValue


def test_hip_free_takes_pool_memory(pool):
    stream = side_stream()
    memory = allocate(pool, stream)
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipFree(memory))
    assert get(pool, ATTR.hipMemPoolAttrUsedMemCurrent) == 0
    assert error(hip.hipFree(memory)) == E.hipErrorInvalidValue


def test_memory_that_no_pool_made_is_freed_in_stream_order():
    """hipFreeAsync takes what hipMalloc made: the work before it on the stream has that memory."""
    stream, out = side_stream(), Ints(16)
    memory = ok(hip.hipMalloc(64))
    ok(hip.hipMemsetD32Async(memory, 4, 16, stream))
    ok(hip.hipMemcpyDtoDAsync(out.memory, memory, 64, stream))
    free(memory, stream)
    assert out.read().tolist() == [4] * 16
    assert error(hip.hipFreeAsync(memory, stream)) == E.hipErrorInvalidValue


def test_pool_properties_are_checked():
    for name, value in [("allocType", hip.hipMemAllocationType.hipMemAllocationTypeInvalid)]:
        bad = props()
        setattr(bad, name, value)
        assert error(hip.hipMemPoolCreate(bad)) == E.hipErrorInvalidValue
    assert error(hip.hipMemPoolCreate(props(device=99))) == E.hipErrorInvalidValue
    exported = props()
    exported.handleTypes = hip.hipMemAllocationHandleType.hipMemHandleTypeWin32
    assert error(hip.hipMemPoolCreate(exported)) == E.hipErrorNotSupported


def test_default_and_current_pool(pool):
    default = ok(hip.hipDeviceGetDefaultMemPool(0))
    assert int(ok(hip.hipDeviceGetMemPool(0))) == int(default)
    assert error(hip.hipMemPoolDestroy(default)) == E.hipErrorInvalidValue
    mine, stream = ok(hip.hipMemPoolCreate(props())), side_stream()
    ok(hip.hipDeviceSetMemPool(0, mine))
    memory = ok(hip.hipMallocAsync(MB, stream))
    assert get(mine, ATTR.hipMemPoolAttrUsedMemCurrent) == MB
    ok(hip.hipMemPoolDestroy(mine))
    assert int(ok(hip.hipDeviceGetMemPool(0))) == int(default)
    assert error(hip.hipDeviceSetMemPool(0, mine)) == E.hipErrorInvalidValue
    ok(hip.hipMemsetAsync(memory, 0, MB, stream))  # outlives its pool
    free(memory, stream)
    ok(hip.hipStreamSynchronize(stream))
    assert error(hip.hipDeviceGetMemPool(99)) == E.hipErrorInvalidDevice


def test_access(pool):
    location = hip.hipMemLocation()
    location.type, location.id = hip.hipMemLocationType.hipMemLocationTypeDevice, 0
    out = ctypes.c_int(-1)
    assert raw("hipMemPoolGetAccess", ctypes.byref(out), pool, location) == E.hipSuccess
    assert out.value == hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
    desc = hip.hipMemAccessDesc()
    desc.location.type, desc.location.id = location.type, 0
    desc.flags = hip.hipMemAccessFlags.hipMemAccessFlagsProtNone
    assert error(hip.hipMemPoolSetAccess(pool, desc, 1)) == E.hipErrorInvalidDevice
    desc.flags = hip.hipMemAccessFlags.hipMemAccessFlagsProtReadWrite
    assert error(hip.hipMemPoolSetAccess(pool, desc, 1000)) == E.hipErrorInvalidDevice, "more than there are devices"
    ok(hip.hipMemPoolSetAccess(pool, desc, 1))
    assert error(hip.hipMemPoolSetAccess(pool, None, 0)) == E.hipErrorInvalidValue
    for device in (-1, 99):
        desc.location.id = device
        assert error(hip.hipMemPoolSetAccess(pool, desc, 1)) == E.hipErrorInvalidDevice


def test_many_threads_share_a_pool(pool):
    """Each block keeps its owner's mark from its allocation to its free."""
    wrong = []

    def work(mark):
        stream, host = side_stream(), np.zeros(256, np.int32)
        for i in range(100):
            memory = allocate(pool, stream, 1024)
            ok(hip.hipMemsetD32Async(memory, mark + i, 256, stream))
            ok(hip.hipMemcpyAsync(host, memory, 1024, KIND.hipMemcpyDeviceToHost, stream))
            free(memory, stream)
            ok(hip.hipStreamSynchronize(stream))
            if not (host == mark + i).all():
                wrong.append(mark)

    for attribute in (ATTR.hipMemPoolReuseAllowOpportunistic, ATTR.hipMemPoolReuseAllowInternalDependencies):
        put_flag(pool, attribute, 1)
    threads = [threading.Thread(target=work, args=(1000 * mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert get(pool, ATTR.hipMemPoolAttrUsedMemCurrent) == 0


def alloc_params(size=MB):
    params = hip.hipMemAllocNodeParams()
    set_props(params.poolProps)
    params.bytesize = size
    return params


def graph_bytes(attribute):
    out = np.zeros(1, np.uint64)
    ok(hip.hipDeviceGetGraphMemAttribute(0, attribute, out))
    return int(out[0])


def allocating_graph(with_free):
    """Allocate, fill, copy out, and maybe free."""
    graph, out, params = new_graph(), Ints(4), alloc_params()
    node = ok(hip.hipGraphAddMemAllocNode(graph, None, 0, params))
    address = int(params.dptr)
    last = add_fill(graph, [node], address, 5, n=4)
    size, kind = 16, KIND.hipMemcpyDeviceToDevice
    last = ok(hip.hipGraphAddMemcpyNode1D(graph, *handles([last]), int(out), address, size, kind))
    if with_free:
        ok(hip.hipGraphAddMemFreeNode(graph, *handles([last]), address))
    return graph, address, out, node


def test_memory_nodes():
    ok(hip.hipDeviceGraphMemTrim(0))
    before = graph_bytes(GRAPH_ATTR.hipGraphMemAttrReservedMemCurrent)
    graph, address, out, node = allocating_graph(with_free=True)
    got = ok(hip.hipGraphMemAllocNodeGetParams(node))
    assert (int(got.dptr), got.bytesize) == (address, MB)
    executable = instantiate(graph)
    assert error(hip.hipGraphInstantiateWithFlags(graph, 0)) == E.hipErrorNotSupported
    run(executable)
    run(executable)
    assert out.read().tolist() == [5] * 4
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == 0
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrReservedMemCurrent) == before + MB
    ok(hip.hipDeviceGraphMemTrim(0))
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrReservedMemCurrent) == 0
    run(executable)
    assert out.read().tolist() == [5] * 4
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphExecDestroy(instantiate(graph)))
    ok(hip.hipGraphDestroy(graph))


def test_escaping_allocation():
    graph, address, _, _ = allocating_graph(with_free=False)
    executable, stream, out = instantiate(graph), side_stream(), Ints(4)
    assert error(hip.hipFreeAsync(address, stream)) == E.hipErrorInvalidValue
    ok(hip.hipGraphLaunch(executable, stream))
    assert error(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipMemcpyDtoDAsync(out.memory, address, 16, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == MB
    ok(hip.hipFreeAsync(address, stream))
    assert error(hip.hipFreeAsync(address, stream)) == E.hipErrorInvalidValue
    assert out.read().tolist() == [5] * 4
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == 0


def test_freed_by_another_graph():
    graph, address, _, _ = allocating_graph(with_free=False)
    freeing = new_graph()
    ok(hip.hipGraphAddMemFreeNode(freeing, None, 0, address))
    assert error(hip.hipGraphAddMemFreeNode(freeing, None, 0, address)) == E.hipErrorInvalidValue
    first, second = instantiate(graph), instantiate(freeing)
    assert error(hip.hipGraphLaunch(second, None)) == E.hipErrorInvalidValue
    for _ in range(2):
        ok(hip.hipGraphLaunch(first, None))
        ok(hip.hipGraphLaunch(second, None))
    ok(hip.hipDeviceSynchronize())
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == 0


def test_auto_free_on_launch():
    graph, address, out, _ = allocating_graph(with_free=False)
    executable = instantiate(graph, 1)
    run(executable)
    run(executable)
    assert out.read().tolist() == [5] * 4
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == MB
    ok(hip.hipFree(address))
    assert graph_bytes(GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent) == 0


def test_memory_node_restrictions():
    graph, address, _, node = allocating_graph(with_free=True)
    assert error(hip.hipGraphClone(graph)) == E.hipErrorNotSupported
    assert error(hip.hipGraphDestroyNode(node)) == E.hipErrorNotSupported
    assert error(hip.hipGraphAddChildGraphNode(new_graph(), None, 0, graph)) == E.hipErrorNotSupported
    bad = alloc_params(0)
    assert error(hip.hipGraphAddMemAllocNode(graph, None, 0, bad)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddMemFreeNode(graph, None, 0, address)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddMemFreeNode(new_graph(), None, 0, int(Ints(1)))) == E.hipErrorInvalidValue
    high = GRAPH_ATTR.hipGraphMemAttrUsedMemHigh
    ok(hip.hipDeviceSetGraphMemAttribute(0, high, np.zeros(1, np.uint64)))
    assert error(hip.hipDeviceSetGraphMemAttribute(0, high, np.ones(1, np.uint64))) == E.hipErrorInvalidValue
    current = GRAPH_ATTR.hipGraphMemAttrUsedMemCurrent
    assert error(hip.hipDeviceSetGraphMemAttribute(0, current, np.zeros(1, np.uint64))) == E.hipErrorInvalidValue
