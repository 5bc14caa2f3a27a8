"""Graph definitions: nodes, edges, parameters, clones, printing."""

import ctypes

import numpy as np
import pytest
from helpers.hip_calls import (
    KIND,
    E,
    Ints,
    KernelCall,
    add_copy,
    add_fill,
    edges,
    error,
    fill_params,
    functions,
    generic,
    handles,
    instantiate,
    listed,
    new_graph,
    nodes,
    ok,
    raw,
    run,
    set_dim,
)
from rocm.bindings import hip

TYPE = hip.hipGraphNodeType


def add_empty(graph, deps=()):
    return ok(hip.hipGraphAddEmptyNode(graph, *handles(deps)))


@pytest.fixture
def diamond():
    """Return the nodes of a graph with the edges a → b and c → d."""
    graph = new_graph()
    a = add_empty(graph)
    b, c = add_empty(graph, [a]), add_empty(graph, [a])
    return graph, a, b, c, add_empty(graph, [b, c])


def test_create_and_destroy():
    assert error(hip.hipGraphCreate(1)) == E.hipErrorInvalidValue
    graph = new_graph()
    ok(hip.hipGraphDestroy(graph))
    assert error(hip.hipGraphDestroy(graph)) == E.hipErrorIllegalState
    assert error(hip.hipGraphAddEmptyNode(graph, None, 0)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphDestroy(None)) == E.hipErrorInvalidValue


def test_structure_queries(diamond):
    graph, a, b, c, d = map(int, diamond)
    assert nodes(graph) == [a, b, c, d]
    assert edges(graph) == {(a, b), (a, c), (b, d), (c, d)}
    assert listed("hipGraphGetRootNodes", graph) == [a]
    assert listed("hipGraphNodeGetDependencies", d) == [b, c]
    assert listed("hipGraphNodeGetDependentNodes", a) == [b, c]
    assert ok(hip.hipGraphNodeGetType(diamond[1])) == TYPE.hipGraphNodeTypeEmpty


def test_lists_are_cut_and_padded(diamond):
    graph, a, b, *_ = map(int, diamond)
    out = (ctypes.c_void_p * 6)(*[7] * 6)
    count = ctypes.c_size_t(2)
    assert raw("hipGraphGetNodes", graph, out, ctypes.byref(count)) == E.hipSuccess
    assert (list(out), count.value) == ([a, b, 7, 7, 7, 7], 2)
    count.value = 6
    assert raw("hipGraphGetNodes", graph, out, ctypes.byref(count)) == E.hipSuccess
    assert (list(out)[4:], count.value) == ([None, None], 4)
    assert raw("hipGraphGetEdges", graph, out, None, ctypes.byref(count)) == E.hipErrorInvalidValue


def test_dependencies_are_added_and_removed(diamond):
    graph, a, _, _, d = diamond
    one = lambda node: np.array([int(node)], np.uint64)  # noqa: E731
    ok(hip.hipGraphAddDependencies(graph, one(a), one(d), 1))
    assert (int(a), int(d)) in edges(graph)
    assert error(hip.hipGraphAddDependencies(graph, one(a), one(d), 1)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddDependencies(graph, one(a), one(a), 1)) == E.hipErrorInvalidValue
    ok(hip.hipGraphRemoveDependencies(graph, one(a), one(d), 1))
    assert (int(a), int(d)) not in edges(graph)
    assert error(hip.hipGraphRemoveDependencies(graph, one(a), one(d), 1)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddDependencies(graph, None, one(d), 1)) == E.hipErrorInvalidValue
    ok(hip.hipGraphAddDependencies(graph, None, None, 0))


def test_dependencies_all_or_nothing(diamond):
    graph, a, b, _, d = diamond
    before = edges(graph)
    froms, tos = np.array([int(a), int(b)], np.uint64), np.array([int(d), int(d)], np.uint64)
    assert error(hip.hipGraphAddDependencies(graph, froms, tos, 2)) == E.hipErrorInvalidValue  # b → d exists
    assert error(hip.hipGraphRemoveDependencies(graph, froms, tos, 2)) == E.hipErrorInvalidValue  # a → d does not
    assert edges(graph) == before


def test_failing_add_leaves_nothing(diamond):
    graph, a, *_ = diamond
    foreign = add_empty(new_graph())
    twice = np.array([int(a), int(a)], np.uint64)
    before = nodes(graph), edges(graph)
    assert error(hip.hipGraphAddEmptyNode(graph, twice, 2)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddEmptyNode(graph, *handles([foreign]))) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddEmptyNode(graph, *handles([12345]))) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddEmptyNode(graph, None, 1)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddMemsetNode(graph, *handles([a]), fill_params(0, 1, n=4))) == E.hipErrorInvalidValue
    assert (nodes(graph), edges(graph)) == before


def test_destroyed_nodes_are_gone(diamond):
    graph, a, b, c, d = diamond
    ok(hip.hipGraphDestroyNode(b))
    assert nodes(graph) == [int(a), int(c), int(d)]
    assert edges(graph) == {(int(a), int(c)), (int(c), int(d))}
    assert error(hip.hipGraphDestroyNode(b)) == E.hipErrorInvalidValue
    assert raw("hipGraphNodeGetType", b, ctypes.byref(ctypes.c_int())) == E.hipErrorInvalidValue


def test_handles_are_never_reused():
    seen = set()
    for _ in range(50):
        graph = new_graph()
        seen |= {int(graph), int(add_empty(graph))}
        ok(hip.hipGraphDestroy(graph))
    assert len(seen) == 100


def test_clone_is_independent(diamond):
    graph, a, *_ = diamond
    clone = ok(hip.hipGraphClone(graph))
    twin = ok(hip.hipGraphNodeFindInClone(a, clone))
    assert int(twin) != int(a)
    assert int(twin) == nodes(clone)[0]
    ok(hip.hipGraphDestroyNode(twin))
    assert len(nodes(graph)) == 4
    assert len(nodes(clone)) == 3
    assert error(hip.hipGraphNodeFindInClone(a, clone)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphNodeFindInClone(a, graph)) == E.hipErrorInvalidValue


def test_clone_copies_parameters():
    graph, target = new_graph(), Ints(4)
    node = add_fill(graph, [], target, 5)
    clone = ok(hip.hipGraphClone(graph))
    ok(hip.hipGraphMemsetNodeSetParams(node, fill_params(target, 6)))
    ok(hip.hipGraphDestroy(graph))
    run(instantiate(clone))
    assert target.read().tolist() == [5] * 4


def test_memset_parameters_round_trip():
    target = Ints(64)
    node = add_fill(new_graph(), [], target, 9, n=3, height=2, pitch=32)
    got = ok(hip.hipGraphMemsetNodeGetParams(node))
    assert int(got.dst) == int(target)
    assert (got.elementSize, got.width, got.height, got.pitch, got.value) == (4, 3, 2, 32, 9)
    ok(hip.hipGraphMemsetNodeSetParams(node, fill_params(target, 1, n=5)))
    assert ok(hip.hipGraphMemsetNodeGetParams(node)).width == 5
    assert error(hip.hipGraphMemcpyNodeGetParams(node)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphKernelNodeGetParams(node)) == E.hipErrorInvalidValue


def copy_params(target, source, width, height=1):
    params = hip.hipMemcpy3DParms()
    params.dstPtr.ptr, params.srcPtr.ptr = int(target), int(source)
    params.dstPtr.pitch = params.srcPtr.pitch = 32
    params.dstPtr.ysize = params.srcPtr.ysize = height
    params.srcPos.x = 4
    params.extent.width, params.extent.height, params.extent.depth = width, height, 1
    params.kind = KIND.hipMemcpyDeviceToDevice
    return params


def test_memcpy_3d_node_copies_a_box():
    target, source, graph = Ints(24), Ints(24), new_graph()
    source.write(np.arange(24))
    node = ok(hip.hipGraphAddMemcpyNode(graph, None, 0, copy_params(target, source, 8, 3)))
    got = ok(hip.hipGraphMemcpyNodeGetParams(node))
    assert (got.extent.width, got.extent.height, got.srcPos.x, got.kind) == (8, 3, 4, KIND.hipMemcpyDeviceToDevice)
    run(instantiate(graph))
    want = np.zeros((3, 8), np.int32)
    want[:, :2] = np.arange(24).reshape(3, 8)[:, 1:3]
    assert target.read().tolist() == want.ravel().tolist()


def test_memcpy_1d_is_a_memcpy_node():
    target, source, graph = Ints(4), Ints(4, 3), new_graph()
    node = add_copy(graph, [], target, source)
    assert ok(hip.hipGraphNodeGetType(node)) == TYPE.hipGraphNodeTypeMemcpy
    assert ok(hip.hipGraphMemcpyNodeGetParams(node)).extent.width == 16
    kind = KIND.hipMemcpyDeviceToDevice
    ok(hip.hipGraphMemcpyNodeSetParams1D(node, int(target), int(source), 8, kind))
    run(instantiate(graph))
    assert target.read().tolist() == [3, 3, 0, 0]
    assert error(hip.hipGraphMemcpyNodeSetParams1D(node, 0, int(source), 8, kind)) == E.hipErrorInvalidValue


def test_driver_memcpy_node():
    target, source, graph = Ints(8), Ints(8), new_graph()
    source.write(range(8))
    params = hip.HIP_MEMCPY3D()
    params.srcMemoryType = params.dstMemoryType = hip.hipMemoryType.hipMemoryTypeDevice
    params.srcDevice, params.dstDevice = int(source), int(target)
    params.srcXInBytes = 8
    params.WidthInBytes, params.Height, params.Depth = 12, 1, 1
    node = ok(hip.hipDrvGraphAddMemcpyNode(graph, None, 0, params, None))
    got = ok(hip.hipDrvGraphMemcpyNodeGetParams(node))
    assert (int(got.srcDevice), got.srcXInBytes, got.WidthInBytes) == (int(source), 8, 12)
    run(instantiate(graph))
    assert target.read().tolist() == [2, 3, 4, 0, 0, 0, 0, 0]


def test_host_nodes_run_and_round_trip():
    calls = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    params = hip.hipHostNodeParams()
    params.fn = ctypes.cast(function, ctypes.c_void_p).value
    params.userData = 77
    graph = new_graph()
    node = ok(hip.hipGraphAddHostNode(graph, None, 0, params))
    executable = instantiate(graph)
    run(executable)
    run(executable)
    assert calls == [77, 77]
    assert int(ok(hip.hipGraphHostNodeGetParams(node)).userData) == 77
    params.fn = 0
    assert error(hip.hipGraphAddHostNode(graph, None, 0, params)) == E.hipErrorInvalidValue


def test_event_nodes():
    graph, event, other = new_graph(), ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    record = ok(hip.hipGraphAddEventRecordNode(graph, None, 0, event))
    wait = ok(hip.hipGraphAddEventWaitNode(graph, *handles([record]), event))
    assert int(ok(hip.hipGraphEventRecordNodeGetEvent(record))) == int(event)
    ok(hip.hipGraphEventWaitNodeSetEvent(wait, other))
    assert int(ok(hip.hipGraphEventWaitNodeGetEvent(wait))) == int(other)
    assert error(hip.hipGraphEventRecordNodeGetEvent(wait)) == E.hipErrorInvalidValue
    run(instantiate(graph))
    assert error(hip.hipEventQuery(event)) == E.hipSuccess
    ok(hip.hipEventDestroy(other))
    assert error(hip.hipGraphAddEventWaitNode(graph, None, 0, other)) == E.hipErrorInvalidValue


def test_child_graph_is_a_clone():
    child, target = new_graph(), Ints(4)
    inner = add_fill(child, [], target, 1)
    graph = new_graph()
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, child))
    embedded = ok(hip.hipGraphChildGraphNodeGetGraph(node))
    assert int(embedded) != int(child)
    ok(hip.hipGraphMemsetNodeSetParams(inner, fill_params(target, 2)))
    ok(hip.hipGraphDestroy(child))
    assert error(hip.hipGraphDestroy(embedded)) == E.hipErrorIllegalState
    run(instantiate(graph))
    assert target.read().tolist() == [1] * 4
    assert error(hip.hipGraphAddChildGraphNode(graph, None, 0, graph)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphAddChildGraphNode(graph, None, 0, child)) == E.hipErrorInvalidValue


def test_generic_nodes():
    graph, target, source = new_graph(), Ints(4), Ints(4, 8)
    made = ctypes.c_void_p()
    fill = generic(TYPE.hipGraphNodeTypeMemset, fill_params(source, 4))
    assert raw("hipGraphAddNode", ctypes.byref(made), graph, None, ctypes.c_size_t(0), fill) == E.hipSuccess
    first = made.value
    copy = generic(TYPE.hipGraphNodeTypeMemcpy, copy_params(target, source, 8), offset=16)
    after = (ctypes.c_void_p * 1)(first)
    assert raw("hipGraphAddNode", ctypes.byref(made), graph, after, ctypes.c_size_t(1), copy) == E.hipSuccess
    run(instantiate(graph))
    assert target.read().tolist() == [4, 4, 0, 0]
    fill = generic(TYPE.hipGraphNodeTypeMemset, fill_params(source, 5))
    assert raw("hipGraphNodeSetParams", first, fill) == E.hipSuccess
    assert raw("hipGraphNodeSetParams", first, copy) == E.hipErrorInvalidValue
    run(instantiate(graph))
    assert target.read().tolist() == [5, 5, 0, 0]
    other = generic(TYPE.hipGraphNodeTypeBatchMemOp, fill_params(source, 5))
    status = raw("hipGraphAddNode", ctypes.byref(made), graph, None, ctypes.c_size_t(0), other)
    assert status == E.hipErrorNotSupported
    other = generic(99, fill_params(source, 5))
    status = raw("hipGraphAddNode", ctypes.byref(made), graph, None, ctypes.c_size_t(0), other)
    assert status == E.hipErrorInvalidValue


def test_kernel_arguments_are_copied():
    graph, x, y = new_graph(), Ints(100), Ints(100)
    x.write(range(100))
    node = KernelCall("scale_add", y, x, 3, 4, 100).add(graph)
    run(instantiate(graph))
    assert y.read().tolist() == [3 * i + 4 for i in range(100)]
    got = ok(hip.hipGraphKernelNodeGetParams(node))
    assert int(got.func) == int(functions()["scale_add"])
    assert (got.gridDim.x, got.blockDim.x, got.sharedMemBytes) == (2, 64, 0)
    cells = (ctypes.c_void_p * 5).from_address(int(got.kernelParams))
    assert ctypes.c_uint64.from_address(cells[0]).value == int(y)
    assert [ctypes.c_int32.from_address(cell).value for cell in cells[2:]] == [3, 4, 100]


def test_kernel_node_set_params_with_its_own_array():
    graph, x, y = new_graph(), Ints(10, 1), Ints(10)
    node = KernelCall("scale_add", y, x, 3, 4, 10).add(graph)
    got = ok(hip.hipGraphKernelNodeGetParams(node))
    mine = ctypes.c_int32(50)
    (ctypes.c_void_p * 5).from_address(int(got.kernelParams))[3] = ctypes.addressof(mine)
    ok(hip.hipGraphKernelNodeSetParams(node, got))
    mine.value = 0
    run(instantiate(graph))
    assert y.read().tolist() == [53] * 10


BAD_KERNELS = {
    "empty grid": (lambda params: set_dim(params.gridDim, 0), E.hipErrorInvalidValue),
    "empty block": (lambda params: set_dim(params.blockDim, 0), E.hipErrorInvalidConfiguration),
    "no function": (lambda params: params.set_func(0, None), E.hipErrorInvalidValue),
    "no such function": (lambda params: params.set_func(0, 64), E.hipErrorInvalidDeviceFunction),
    "no arguments": (lambda params: params.set_kernelParams(0, None), E.hipErrorInvalidValue),
}


@pytest.mark.parametrize("name", BAD_KERNELS)
def test_bad_kernel_nodes_are_refused(name):
    graph, x, y = new_graph(), Ints(10), Ints(10)
    call = KernelCall("scale_add", y, x, 1, 1, 10)
    change, status = BAD_KERNELS[name]
    change(call.params)
    assert error(hip.hipGraphAddKernelNode(graph, None, 0, call.params)) == status
    assert nodes(graph) == []


def test_launch_bounds_are_checked():
    graph, y = new_graph(), Ints(128)
    KernelCall("small_block", y, grid=1, block=64).add(graph)
    call = KernelCall("small_block", y, grid=1, block=128)
    assert error(hip.hipGraphAddKernelNode(graph, None, 0, call.params)) != E.hipSuccess


def test_kernel_attributes():
    graph, x, y = new_graph(), Ints(10), Ints(10)
    first = KernelCall("scale_add", y, x, 1, 1, 10).add(graph)
    second = KernelCall("scale_add", y, x, 1, 1, 10).add(graph)
    value, out = (ctypes.c_int * 16)(-1), (ctypes.c_int * 16)()
    priority = ctypes.c_int(hip.hipLaunchAttributeID.hipLaunchAttributePriority)
    assert raw("hipGraphKernelNodeSetAttribute", first, priority, value) == E.hipSuccess
    assert raw("hipGraphKernelNodeGetAttribute", second, priority, out) == E.hipSuccess
    assert out[0] == 0
    assert raw("hipGraphKernelNodeCopyAttributes", first, second) == E.hipSuccess
    assert raw("hipGraphKernelNodeGetAttribute", second, priority, out) == E.hipSuccess
    assert out[0] == -1
    assert raw("hipGraphKernelNodeSetAttribute", first, ctypes.c_int(500), value) == E.hipErrorInvalidValue
    empty = add_empty(graph)
    assert raw("hipGraphKernelNodeCopyAttributes", first, empty) == E.hipErrorInvalidValue
    # A window of accesses is no larger than the device says, which here is nothing.
    window = ctypes.c_int(hip.hipLaunchAttributeID.hipLaunchAttributeAccessPolicyWindow)
    value = (ctypes.c_uint64 * 8)(int(x))
    assert raw("hipGraphKernelNodeSetAttribute", first, window, value) == E.hipSuccess
    value[3] = 1  # num_bytes
    assert raw("hipGraphKernelNodeSetAttribute", first, window, value) == E.hipErrorInvalidValue


def test_dot_names_kernels_sizes_and_edges(tmp_path):
    graph, x, y = new_graph(), Ints(100), Ints(100)
    first = add_fill(graph, [], x, 7)
    call = KernelCall("scale_add", y, x, 3, 4, 100)
    second = call.add(graph, [first])
    ok(hip.hipGraphAddChildGraphNode(graph, *handles([second]), ok(hip.hipGraphClone(graph))))
    path = tmp_path / "graph.dot"
    ok(hip.hipGraphDebugDotPrint(graph, str(path).encode(), 0))
    brief = path.read_text()
    assert "scale_add" in brief
    assert "grid 2x1x1 block 64x1x1" in brief
    assert "memset 100x1 of 4 B" in brief
    assert '"0" -> "1"' in brief
    assert '"2.0" -> "2.1"' in brief
    assert "0x00000003" not in brief
    ok(hip.hipGraphDebugDotPrint(graph, str(path).encode(), hip.hipGraphDebugDotFlags.hipGraphDebugDotFlagsVerbose))
    assert "arg 2 (4 B) 0x00000003" in path.read_text()
    missing = str(tmp_path / "none" / "graph.dot").encode()
    assert error(hip.hipGraphDebugDotPrint(graph, missing, 0)) == E.hipErrorOperatingSystem


def test_user_objects_end_with_their_last_reference():
    ended = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended.append)
    made = ctypes.c_void_p()

    def create(resource):
        args = ctypes.byref(made), ctypes.c_void_p(resource), destroy, ctypes.c_uint(1), ctypes.c_uint(1)
        assert raw("hipUserObjectCreate", *args) == E.hipSuccess
        return made.value

    one, two, move = ctypes.c_uint(1), ctypes.c_uint(2), ctypes.c_uint(1)
    graph = new_graph()
    kept, moved = create(1), create(2)
    assert raw("hipGraphRetainUserObject", graph, kept, two, ctypes.c_uint(0)) == E.hipSuccess
    assert raw("hipGraphRetainUserObject", graph, moved, one, move) == E.hipSuccess
    assert raw("hipUserObjectRelease", kept, one) == E.hipSuccess
    assert raw("hipUserObjectRelease", kept, ctypes.c_uint(3)) == E.hipSuccess
    assert ended == []
    clone, executable = ok(hip.hipGraphClone(graph)), instantiate(graph)
    assert raw("hipGraphReleaseUserObject", graph, kept, two) == E.hipSuccess
    assert raw("hipGraphReleaseUserObject", graph, kept, one) == E.hipSuccess
    ok(hip.hipGraphDestroy(graph))
    ok(hip.hipGraphDestroy(clone))
    assert ended == []
    ok(hip.hipGraphExecDestroy(executable))
    assert sorted(ended) == [1, 2]
    # A graph that gives back more than it holds takes others' references, as long as there are so many.
    graph, taken = new_graph(), create(3)
    for _ in range(2):
        assert raw("hipGraphRetainUserObject", graph, taken, one, ctypes.c_uint(0)) == E.hipSuccess
    assert raw("hipGraphReleaseUserObject", graph, taken, ctypes.c_uint(4)) == E.hipSuccess
    assert sorted(ended) == [1, 2]
    assert raw("hipGraphReleaseUserObject", graph, taken, ctypes.c_uint(3)) == E.hipSuccess
    assert sorted(ended) == [1, 2, 3]
    assert raw("hipGraphReleaseUserObject", graph, taken, one) == E.hipSuccess
    ok(hip.hipGraphDestroy(graph))
    assert sorted(ended) == [1, 2, 3]


def copy_1d(name, *args):
    *leading, target, source, size, kind = args
    return raw(name, *leading, target, source, ctypes.c_size_t(size), ctypes.c_int(kind))


def test_copy_nodes_refuse_what_clr_refuses():
    x, y, graph, node = Ints(4), Ints(4), new_graph(), ctypes.c_void_p()
    device, to_device = KIND.hipMemcpyDeviceToDevice, KIND.hipMemcpyHostToDevice
    host = np.zeros(4, np.int32)
    adding = "hipGraphAddMemcpyNode1D", ctypes.byref(node), graph, None, ctypes.c_size_t(0)
    assert copy_1d(*adding, y, x, 0, device) == E.hipErrorInvalidValue
    pageable = ctypes.c_void_p(host.ctypes.data)
    for source, target, kind in (
        (pageable, y, KIND.hipMemcpyDeviceToHost),
        (pageable, y, device),
        (x, pageable, to_device),
        (x, pageable, KIND.hipMemcpyHostToHost),
    ):
        assert copy_1d(*adding, target, source, 16, kind) == E.hipErrorInvalidValue
    assert copy_1d(*adding, y, pageable, 16, to_device) == E.hipSuccess
    copy = add_copy(graph, [], y, x)
    setting = "hipGraphMemcpyNodeSetParams1D", copy
    assert copy_1d(*setting, y, x, 0, device) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, y, 16, device) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, x, 8, KIND.hipMemcpyDefault) == E.hipSuccess
    assert copy_1d(*setting, y, x, 8, device) == E.hipSuccess
    setting = "hipGraphExecMemcpyNodeSetParams1D", instantiate(graph), copy
    assert copy_1d(*setting, y, x, 0, device) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, y, 16, device) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, x, 16, KIND.hipMemcpyDefault) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, x, 16, device) == E.hipSuccess


def test_an_executable_copy_keeps_its_kind():
    x, y, graph = Ints(4), Ints(4), new_graph()
    params = hip.hipMemcpy3DParms()
    for side, memory in ((params.srcPtr, x), (params.dstPtr, y)):
        side.ptr, side.pitch, side.xsize, side.ysize = int(memory), 16, 16, 1
    params.extent.width, params.extent.height, params.extent.depth = 16, 1, 1
    params.kind = KIND.hipMemcpyDeviceToDevice
    node = ok(hip.hipGraphAddMemcpyNode(graph, None, 0, params))
    executable = instantiate(graph)
    assert error(hip.hipGraphExecMemcpyNodeSetParams(executable, node, params)) == E.hipSuccess
    params.kind = KIND.hipMemcpyDefault
    assert error(hip.hipGraphExecMemcpyNodeSetParams(executable, node, params)) == E.hipErrorInvalidValue


def test_a_captured_copy_has_the_kind_that_the_caller_named():
    x, y, out = Ints(4), Ints(4), ctypes.c_void_p()
    stream = ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    ok(hip.hipMemcpyAsync(int(y), int(x), 16, KIND.hipMemcpyDeviceToDevice, stream))
    assert raw("hipStreamEndCapture", stream, ctypes.byref(out)) == E.hipSuccess
    setting = "hipGraphExecMemcpyNodeSetParams1D", instantiate(out.value), *nodes(out.value)
    assert copy_1d(*setting, y, x, 8, KIND.hipMemcpyDefault) == E.hipErrorInvalidValue
    assert copy_1d(*setting, y, x, 8, KIND.hipMemcpyDeviceToDevice) == E.hipSuccess


def test_fill_nodes_refuse_what_clr_refuses():
    x, graph = Ints(64), new_graph()
    add = lambda **shape: error(hip.hipGraphAddMemsetNode(graph, None, 0, fill_params(x, 1, **shape)))  # noqa: E731
    assert add(n=8, height=4, pitch=64) == E.hipSuccess
    assert add(n=8, height=4, pitch=80) == E.hipErrorInvalidValue  # its rows end inside, the last row's pitch does not
    assert add(n=8, height=1, pitch=512) == E.hipErrorInvalidValue
    assert add(n=0) == E.hipErrorInvalidValue
    assert add(n=8, height=0) == E.hipErrorInvalidValue
    node = add_fill(graph, [], x, 1)
    wide = fill_params(x, 1, n=8, height=4, pitch=80)
    assert error(hip.hipGraphMemsetNodeSetParams(node, wide)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphExecMemsetNodeSetParams(instantiate(graph), node, wide)) == E.hipErrorInvalidValue


def test_a_graph_is_not_its_own_child():
    x, graph, inner = Ints(4), new_graph(), new_graph()
    add_fill(inner, [], x, 1)
    node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner))
    assert error(hip.hipGraphAddChildGraphNode(graph, None, 0, graph)) == E.hipErrorInvalidValue
    executable, other = instantiate(graph), new_graph()
    assert error(hip.hipGraphExecChildGraphNodeSetParams(executable, node, graph)) == E.hipErrorUnknown
    assert error(hip.hipGraphExecChildGraphNodeSetParams(executable, node, other)) == E.hipErrorUnknown
    add_empty(other)
    assert error(hip.hipGraphExecChildGraphNodeSetParams(executable, node, other)) == E.hipErrorUnknown
    assert error(hip.hipGraphExecChildGraphNodeSetParams(executable, node, inner)) == E.hipSuccess


def test_counts_of_user_objects_are_checked():
    ended = []
    destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ended.append)
    made, one = ctypes.c_void_p(), ctypes.c_uint(1)
    create = lambda count: raw(  # noqa: E731
        "hipUserObjectCreate", ctypes.byref(made), ctypes.c_void_p(5), destroy, ctypes.c_uint(count), one
    )
    assert create(0) == create(2**31) == E.hipErrorInvalidValue
    assert create(1) == E.hipSuccess
    graph, thing = new_graph(), made.value
    for count in (0, 2**31):
        for name, args in (
            ("hipUserObjectRetain", (thing,)),
            ("hipUserObjectRelease", (thing,)),
            ("hipGraphReleaseUserObject", (graph, thing)),
        ):
            assert raw(name, *args, ctypes.c_uint(count)) == E.hipErrorInvalidValue
    assert raw("hipUserObjectRelease", None, one) == E.hipErrorInvalidValue
    # It is taken over twice, although there is one reference: the second is one that nobody has.
    for _ in range(2):
        assert raw("hipGraphRetainUserObject", graph, thing, one, one) == E.hipSuccess
    assert raw("hipUserObjectRelease", thing, one) == E.hipSuccess
    assert ended == [5]
    assert raw("hipUserObjectRelease", thing, one) == E.hipSuccess
    assert raw("hipUserObjectRetain", thing, one) == E.hipSuccess
    assert raw("hipGraphRetainUserObject", graph, thing, one, ctypes.c_uint(0)) == E.hipSuccess
    ok(hip.hipGraphDestroy(graph))
    assert ended == [5]
