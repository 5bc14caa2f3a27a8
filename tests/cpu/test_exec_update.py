"""hipGraphExecUpdate and the setters of single nodes: what is compared, what changes, and when."""

import ctypes

import numpy as np
import pytest
from helpers.hip_calls import (
    KIND,
    UPDATE,
    E,
    Gate,
    Ints,
    KernelCall,
    add_copy,
    add_fill,
    error,
    fill_params,
    generic,
    handles,
    instantiate,
    new_graph,
    ok,
    raw,
    run,
    settle,
    update,
)
from rocm.bindings import hip

TOPOLOGY = UPDATE.hipGraphExecUpdateErrorTopologyChanged
PARAMETERS = UPDATE.hipGraphExecUpdateErrorParametersChanged
FAILED = E.hipErrorGraphExecUpdateFailure
TYPE = hip.hipGraphNodeType


@pytest.fixture(autouse=True)
def gates():
    """A failed test leaves no stream held back."""
    Gate.made.clear()
    yield
    Gate.open_all()


def graph_of(*shape):
    """Return a graph of empty nodes, each given as the positions that it depends on, and the nodes."""
    graph, made = new_graph(), []
    for deps in shape:
        made.append(ok(hip.hipGraphAddEmptyNode(graph, *handles([made[i] for i in deps]))))
    return graph, made


def fills(values, targets, chain=False):
    """Return a graph that fills arrays, in a chain or side by side."""
    graph, last = new_graph(), []
    for value, target in zip(values, targets, strict=True):
        node = add_fill(graph, last, target, value)
        last = [node] if chain else []
    return graph


def test_update_changes_parameters():
    targets = [Ints(4) for _ in range(3)]
    executable = instantiate(fills([1, 2, 3], targets))
    assert update(executable, fills([4, 5, 6], targets)) == (E.hipSuccess, UPDATE.hipGraphExecUpdateSuccess, None)
    run(executable)
    assert [int(target.read()[0]) for target in targets] == [4, 5, 6]


def test_update_keeps_the_newer_graph_apart():
    target = Ints(4)
    executable, newer = instantiate(fills([1], [target])), fills([2], [target])
    assert update(executable, newer)[0] == E.hipSuccess
    ok(hip.hipGraphDestroy(newer))
    run(executable)
    assert target.read()[0] == 2


@pytest.mark.parametrize(
    ("old", "new", "culprit"),
    [
        ([(), (0,)], [(), (0,), (1,)], None),  # another number of nodes
        ([(), (0,), (1,)], [(), (0,), (0,)], 2),  # more exit nodes
        ([(), (), (0, 1)], [(), (0,), (0, 1)], 1),  # another number of dependencies
        ([(), (0,), (0,), (1,), (2,), (3, 4)], [(), (0,), (0,), (1,), (1,), (3, 4)], 4),  # other wiring, same counts
        ([(), (), (0,), (1,), (2, 3)], [(), (), (0,), (0,), (2, 3)], 3),
        ([(), (0,), (0,), (1, 2), ()], [(), (), (0,), (1,), (2, 3)], 3),  # two nodes where there was one
    ],
)
def test_wiring_is_compared(old, new, culprit):
    executable = instantiate(graph_of(*old)[0])
    newer, made = graph_of(*new)
    status, result, node = update(executable, newer)
    assert (status, result) == (FAILED, TOPOLOGY)
    if culprit is None:
        assert node is None
    else:
        assert node in map(int, made)


def test_culprit_of_a_rewired_join():
    executable = instantiate(graph_of((), (0,), (0,), (1, 2))[0])
    newer, made = graph_of((), (0,), (), (1, 2))
    assert update(executable, newer) == (FAILED, TOPOLOGY, int(made[2]))


def test_edge_order_pairs_the_nodes():
    x, y = Ints(1), Ints(1)

    def joined(order):
        graph = new_graph()
        made = [add_fill(graph, [], x, 1), add_copy(graph, [], y, x)]
        ok(hip.hipGraphAddEmptyNode(graph, *handles([made[i] for i in order])))
        return graph, made

    executable = instantiate(joined([0, 1])[0])
    assert update(executable, joined([0, 1])[0])[0] == E.hipSuccess
    graph, made = joined([1, 0])
    status, result, node = update(executable, graph)
    assert (status, result) == (FAILED, UPDATE.hipGraphExecUpdateErrorNodeTypeChanged)
    assert node in map(int, made)


def test_order_of_creation_does_not_matter_inside():
    x, y = Ints(1), Ints(1)
    first, graph = new_graph(), new_graph()
    ok(hip.hipGraphAddEmptyNode(first, *handles([add_fill(first, [], x, 1), add_fill(first, [], y, 2)])))
    late, early = add_fill(graph, [], y, 4), add_fill(graph, [], x, 3)
    ok(hip.hipGraphAddEmptyNode(graph, *handles([early, late])))
    executable = instantiate(first)
    assert update(executable, graph)[0] == E.hipSuccess
    run(executable)
    assert (x.read()[0], y.read()[0]) == (3, 4)


def test_node_type_change():
    x, y = Ints(1), Ints(1)
    executable, newer = instantiate(fills([1], [x])), new_graph()
    node = add_copy(newer, [], x, y)
    assert update(executable, newer) == (FAILED, UPDATE.hipGraphExecUpdateErrorNodeTypeChanged, int(node))


def test_failed_update_changes_nothing():
    targets = [Ints(4) for _ in range(3)]
    executable = instantiate(fills([1, 2, 3], targets))
    newer = fills([4, 5], targets[:2])
    bad = add_fill(newer, [], targets[2], 6, n=2, height=2, pitch=8)
    assert update(executable, newer) == (FAILED, PARAMETERS, int(bad))
    run(executable)
    assert [int(target.read()[0]) for target in targets] == [1, 2, 3]


def test_memset_shapes():
    target = Ints(64)
    flat, box = {"n": 8}, {"n": 4, "height": 2, "pitch": 32}
    wide = {"n": 5, "height": 2, "pitch": 32}
    outcome = {}
    for name, old, new in [("flat", flat, {"n": 16}), ("same", box, box), ("wide", box, wide), ("to box", flat, box)]:
        graphs = [new_graph(), new_graph()]
        for graph, shape in zip(graphs, (old, new), strict=True):
            add_fill(graph, [], target, 1, **shape)
        outcome[name] = update(instantiate(graphs[0]), graphs[1])[1]
    good = UPDATE.hipGraphExecUpdateSuccess
    assert outcome == {"flat": good, "same": good, "wide": PARAMETERS, "to box": PARAMETERS}


def test_memcpy_places_must_stay():
    x, y, host = Ints(4), Ints(4), np.full(4, 6, np.int32)
    graph, newer = new_graph(), new_graph()
    node = add_copy(graph, [], x, y)
    executable = instantiate(graph)
    args = int(x), host.ctypes.data, 16, KIND.hipMemcpyHostToDevice
    other = ok(hip.hipGraphAddMemcpyNode1D(newer, None, 0, *args))
    assert update(executable, newer) == (FAILED, PARAMETERS, int(other))
    assert error(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, *args)) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecMemcpyNodeSetParams1D(executable, node, int(y), int(x), 8, KIND.hipMemcpyDeviceToDevice))
    x.write([1, 2, 3, 4])
    run(executable)
    assert y.read().tolist() == [1, 2, 0, 0]


def nested(value, target, empties=1):
    child = new_graph()
    fill = add_fill(child, [], target, value)
    for _ in range(empties):
        ok(hip.hipGraphAddEmptyNode(child, *handles([fill])))
    graph = new_graph()
    return graph, ok(hip.hipGraphAddChildGraphNode(graph, None, 0, child)), child


def test_child_graphs_are_updated():
    target = Ints(4)
    executable = instantiate(nested(1, target)[0])
    assert update(executable, nested(2, target)[0])[0] == E.hipSuccess
    run(executable)
    assert target.read()[0] == 2
    assert update(executable, nested(3, target, empties=2)[0])[:2] == (FAILED, TOPOLOGY)
    run(executable)
    assert target.read()[0] == 2


def test_child_graph_setter():
    target = Ints(4)
    graph, node, _ = nested(1, target)
    executable = instantiate(graph)
    ok(hip.hipGraphExecChildGraphNodeSetParams(executable, node, nested(5, target)[2]))
    run(executable)
    assert target.read()[0] == 5
    other = nested(6, target, empties=2)[2]
    assert error(hip.hipGraphExecChildGraphNodeSetParams(executable, node, other)) == E.hipErrorUnknown
    run(executable)
    assert target.read()[0] == 5


def test_nodes_inside_a_child_graph_can_be_set():
    target = Ints(4)
    graph, node, _ = nested(1, target)
    executable = instantiate(graph)
    embedded = ok(hip.hipGraphChildGraphNodeGetGraph(node))
    count, inner = ctypes.c_size_t(1), ctypes.c_void_p()
    assert raw("hipGraphGetRootNodes", embedded, ctypes.byref(inner), ctypes.byref(count)) == E.hipSuccess
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, inner.value, fill_params(target, 8)))
    run(executable)
    assert target.read()[0] == 8


def test_event_and_host_nodes_are_updated():
    calls, events = [], [ok(hip.hipEventCreate()) for _ in range(2)]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(calls.append)
    stream = ok(hip.hipStreamCreateWithFlags(1))

    def build(data, event):
        graph, params = new_graph(), hip.hipHostNodeParams()
        params.fn, params.userData = ctypes.cast(function, ctypes.c_void_p).value, data
        host = ok(hip.hipGraphAddHostNode(graph, None, 0, params))
        return graph, host, ok(hip.hipGraphAddEventRecordNode(graph, *handles([host]), event)), params

    graph, host, record, params = build(1, events[0])
    executable = instantiate(graph)
    assert update(executable, build(2, events[1])[0])[0] == E.hipSuccess
    gate = Gate()
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    settle()
    assert [error(hip.hipEventQuery(event)) for event in events] == [E.hipSuccess, E.hipErrorNotReady]
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    params.userData = 3
    ok(hip.hipGraphExecHostNodeSetParams(executable, host, params))
    ok(hip.hipGraphExecEventRecordNodeSetEvent(executable, record, events[0]))
    run(executable, stream)
    assert calls == [2, 3]


def test_generic_setter():
    target, graph = Ints(4), new_graph()
    node = add_fill(graph, [], target, 1)
    executable = instantiate(graph)
    block = generic(TYPE.hipGraphNodeTypeMemset, fill_params(target, 7))
    assert raw("hipGraphExecNodeSetParams", executable, node, block) == E.hipSuccess
    run(executable)
    assert target.read()[0] == 7
    block = generic(TYPE.hipGraphNodeTypeHost, fill_params(target, 7))
    assert raw("hipGraphExecNodeSetParams", executable, node, block) == E.hipErrorInvalidValue


def test_setters_name_nodes_of_the_instantiated_graph():
    target = Ints(4)
    graph, newer = new_graph(), new_graph()
    node, foreign = add_fill(graph, [], target, 1), add_fill(newer, [], target, 2)
    executable = instantiate(graph)
    assert update(executable, newer)[0] == E.hipSuccess
    params = fill_params(target, 3)
    assert error(hip.hipGraphExecMemsetNodeSetParams(executable, foreign, params)) == E.hipErrorInvalidValue
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, node, params))
    run(executable)
    assert target.read()[0] == 3
    ok(hip.hipGraphDestroy(graph))
    assert error(hip.hipGraphExecMemsetNodeSetParams(executable, node, params)) == E.hipErrorInvalidValue


def test_update_does_not_reach_queued_launches():
    gate, x, y = Gate(), Ints(1), Ints(2)
    executable, stream = instantiate(fills([1], [x])), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipMemcpyDtoDAsync(y.memory, x.memory, 4, stream))
    assert update(executable, fills([2], [x]))[0] == E.hipSuccess
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipMemcpyDtoDAsync(int(y) + 4, x.memory, 4, stream))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert y.read().tolist() == [1, 2]


def test_disabled_nodes_stay_disabled():
    x = Ints(1)
    graph = new_graph()
    node = add_fill(graph, [], x, 1)
    executable = instantiate(graph)
    ok(hip.hipGraphNodeSetEnabled(executable, node, 0))
    assert update(executable, fills([2], [x]))[0] == E.hipSuccess
    run(executable)
    assert x.read()[0] == 0
    ok(hip.hipGraphNodeSetEnabled(executable, node, 1))
    run(executable)
    assert x.read()[0] == 2


def test_bad_arguments():
    executable, graph, node, result = instantiate(new_graph()), new_graph(), ctypes.c_void_p(), ctypes.c_int(-1)
    outs = ctypes.byref(node), ctypes.byref(result)
    assert raw("hipGraphExecUpdate", executable, graph, None, outs[1]) == E.hipErrorInvalidValue
    assert raw("hipGraphExecUpdate", executable, graph, outs[0], None) == E.hipErrorInvalidValue
    assert raw("hipGraphExecUpdate", executable, executable, *outs) == E.hipErrorInvalidValue
    assert result.value == UPDATE.hipGraphExecUpdateError
    assert raw("hipGraphExecUpdate", graph, graph, *outs) == E.hipErrorInvalidValue


def test_kernels_may_change_function_grid_and_arguments():
    x, z, y = Ints(100, 2), Ints(100, 1), Ints(100)
    graph, newer = new_graph(), new_graph()
    node = KernelCall("scale_add", y, x, 1, 1, 10).add(graph)
    executable = instantiate(graph)
    KernelCall("mix", y, x, z, 100).add(newer)
    assert update(executable, newer)[0] == E.hipSuccess
    run(executable)
    assert y.read().tolist() == [-1] * 100
    KernelCall("scale_add", y, x, 10, 5, 50).set(executable, node)
    run(executable)
    assert y.read().tolist() == [25] * 50 + [-1] * 50


def test_kernel_setter_checks_the_new_function():
    x, y, graph = Ints(100, 2), Ints(128), new_graph()
    node = KernelCall("scale_add", y, x, 1, 1, 100, block=128).add(graph)
    executable = instantiate(graph)
    bad = KernelCall("small_block", y, grid=1, block=128)
    assert error(hip.hipGraphExecKernelNodeSetParams(executable, node, bad.params)) != E.hipSuccess
    run(executable)
    assert y.read()[:100].tolist() == [3] * 100


def test_cooperative_and_priority_may_not_change():
    x, y = Ints(10, 2), Ints(10)
    ids = hip.hipLaunchAttributeID

    def with_attribute(attribute, value):
        graph = new_graph()
        node = KernelCall("scale_add", y, x, 1, 1, 10).add(graph)
        cell = (ctypes.c_int * 16)(value)
        assert raw("hipGraphKernelNodeSetAttribute", node, ctypes.c_int(attribute), cell) == E.hipSuccess
        return graph

    for attribute, flags, result in [
        (ids.hipLaunchAttributeCooperative, 0, PARAMETERS),
        (ids.hipLaunchAttributePriority, 8, PARAMETERS),
        (ids.hipLaunchAttributePriority, 0, UPDATE.hipGraphExecUpdateSuccess),
    ]:
        executable = instantiate(with_attribute(attribute, 0), flags)
        assert update(executable, with_attribute(attribute, 1))[1] == result
