"""Executable graphs: order of execution, launches in flight, enabled nodes, instantiation errors."""

import ctypes
import json
import threading

import numpy as np
import pytest
from helpers.hip_calls import (
    E,
    Gate,
    Ints,
    KernelCall,
    add_copy,
    add_fill,
    error,
    fill_params,
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

LAUNCHES = 60


@pytest.fixture(autouse=True)
def gates():
    """A failed test leaves no stream held back."""
    Gate.made.clear()
    yield
    Gate.open_all()


def outcomes(executable, target, reset):
    """Return the first values of the target over many launches, each after reset()."""
    seen = set()
    for _ in range(LAUNCHES):
        reset()
        run(executable)
        seen.add(int(target.read()[0]))
    return seen


def test_missing_edge_is_noticed():
    x, y, graph = Ints(1), Ints(1), new_graph()
    first = add_fill(graph, [], x, 1)
    second = add_copy(graph, [], y, x)
    reset = lambda: x.write([0])  # noqa: E731
    assert outcomes(instantiate(graph), y, reset) == {0, 1}
    edge = [np.array([int(node)], np.uint64) for node in (first, second)]
    ok(hip.hipGraphAddDependencies(graph, *edge, 1))
    assert outcomes(instantiate(graph), y, reset) == {1}


def test_child_graphs_are_ordered_with_their_neighbours():
    x, y, z = Ints(1), Ints(1), Ints(1)
    child = new_graph()
    add_copy(child, [add_fill(child, [], y, 0)], y, x)
    graph = new_graph()
    first = add_fill(graph, [], x, 1)
    middle = ok(hip.hipGraphAddChildGraphNode(graph, *handles([first]), child))
    nothing = ok(hip.hipGraphAddChildGraphNode(graph, *handles([middle]), new_graph()))
    add_copy(graph, [nothing], z, y)
    assert outcomes(instantiate(graph), z, lambda: x.write([0])) == {1}


def test_disabled_nodes_keep_order():
    x, y, graph = Ints(1), Ints(1), new_graph()
    first = add_fill(graph, [], x, 1)
    middle = add_fill(graph, [first], x, 2)
    add_copy(graph, [middle], y, x)
    executable = instantiate(graph)
    assert ok(hip.hipGraphNodeGetEnabled(executable, middle)) == 1
    ok(hip.hipGraphNodeSetEnabled(executable, middle, 0))
    assert ok(hip.hipGraphNodeGetEnabled(executable, middle)) == 0
    assert outcomes(executable, y, lambda: x.write([0])) == {1}
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, middle, fill_params(x, 3)))
    assert outcomes(executable, y, lambda: x.write([0])) == {1}
    ok(hip.hipGraphNodeSetEnabled(executable, middle, 1))
    assert outcomes(executable, y, lambda: x.write([0])) == {3}


def test_only_some_nodes_can_be_disabled():
    graph = new_graph()
    empty = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    executable = instantiate(graph)
    foreign = add_fill(new_graph(), [], Ints(1), 1)
    for node in (empty, foreign):
        assert error(hip.hipGraphNodeSetEnabled(executable, node, 0)) == E.hipErrorInvalidValue


def test_stream_order_around_a_launch():
    x, y, z, graph = Ints(1), Ints(1), Ints(1), new_graph()
    add_copy(graph, [], y, x)
    executable, stream = instantiate(graph), ok(hip.hipStreamCreate())
    for value in range(1, 9):
        ok(hip.hipMemsetD32Async(x.memory, value, 1, stream))
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipMemsetD32Async(x.memory, 0, 1, stream))
        ok(hip.hipMemcpyDtoDAsync(z.memory, y.memory, 4, stream))
        ok(hip.hipStreamSynchronize(stream))
        assert z.read()[0] == value


def test_launches_of_one_exec_are_serialised_across_streams():
    gate, x, y, z, graph = Gate(), Ints(1), Ints(1), Ints(1), new_graph()
    add_copy(graph, [], y, x)
    executable = instantiate(graph)
    first, second = (ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2))
    gate.hold(first)
    ok(hip.hipMemsetD32Async(x.memory, 1, 1, first))
    ok(hip.hipGraphLaunch(executable, first))
    ok(hip.hipGraphLaunch(executable, second))
    ok(hip.hipMemcpyDtoDAsync(z.memory, y.memory, 4, second))
    settle()
    assert error(hip.hipStreamQuery(second)) == E.hipErrorNotReady
    gate.open()
    ok(hip.hipStreamSynchronize(second))
    assert z.read()[0] == 1


def test_queued_launches_keep_their_arguments():
    gate, x, y, graph = Gate(), Ints(1), Ints(4), new_graph()
    fill = add_fill(graph, [], x, 0)
    executable, stream = instantiate(graph), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    for value in range(4):
        ok(hip.hipGraphExecMemsetNodeSetParams(executable, fill, fill_params(x, value)))
        ok(hip.hipGraphLaunch(executable, stream))
        ok(hip.hipMemcpyDtoDAsync(int(y) + 4 * value, x.memory, 4, stream))
    ok(hip.hipGraphExecMemsetNodeSetParams(executable, fill, fill_params(x, 9)))
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert y.read().tolist() == [0, 1, 2, 3]
    run(executable, stream)
    assert x.read()[0] == 9


def test_destroying_in_flight_is_deferred():
    gate, x, graph = Gate(), Ints(1), new_graph()
    add_fill(graph, [], x, 5)
    executable, stream = instantiate(graph), ok(hip.hipStreamCreateWithFlags(1))
    gate.hold(stream)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipGraphExecDestroy(executable))
    ok(hip.hipGraphDestroy(graph))
    assert error(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphExecDestroy(executable)) == E.hipErrorInvalidValue
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert x.read()[0] == 5


def test_event_wait_nodes_hold_back_only_their_successors():
    gates, events = [Gate(), Gate()], [ok(hip.hipEventCreate()) for _ in range(2)]
    streams = [ok(hip.hipStreamCreateWithFlags(1)) for _ in range(3)]
    x, y, free, graph = Ints(2), Ints(2), Ints(1), new_graph()
    for i, event in enumerate(events):
        wait = ok(hip.hipGraphAddEventWaitNode(graph, None, 0, event))
        add_copy(graph, [wait], int(y) + 4 * i, int(x) + 4 * i, n=1)
    add_fill(graph, [], free, 1)
    executable = instantiate(graph)
    for gate, event, stream in zip(gates, events, streams, strict=False):
        gate.hold(stream)
        ok(hip.hipMemsetD32Async(x.memory, 7, 2, stream))
        ok(hip.hipEventRecord(event, stream))
    ok(hip.hipGraphLaunch(executable, streams[2]))
    settle()
    assert y.read_now().tolist() == [0, 0]
    assert free.read_now()[0] == 1
    gates[1].open()
    ok(hip.hipEventSynchronize(events[1]))
    settle()
    assert y.read_now().tolist() == [0, 7]
    assert error(hip.hipStreamQuery(streams[2])) == E.hipErrorNotReady
    gates[0].open()
    ok(hip.hipStreamSynchronize(streams[2]))
    assert y.read().tolist() == [7, 7]
    assert free.read()[0] == 1


def test_captured_value_waits_hold_back_their_successors():
    gates, stream = [Gate(), Gate()], ok(hip.hipStreamCreateWithFlags(1))
    x, y = Ints(1, 1), Ints(1)
    ok(hip.hipStreamBeginCapture(stream, hip.hipStreamCaptureMode.hipStreamCaptureModeRelaxed))
    for gate in gates:
        ok(hip.hipStreamWaitValue32(stream, int(gate.value), 1, 0, 0xFFFFFFFF))
    ok(hip.hipMemcpyDtoDAsync(y.memory, x.memory, 4, stream))
    executable = instantiate(ok(hip.hipStreamEndCapture(stream)))
    ok(hip.hipGraphLaunch(executable, stream))
    gates[0].open()
    settle()
    assert error(hip.hipStreamQuery(stream)) == E.hipErrorNotReady
    gates[1].open()
    ok(hip.hipStreamSynchronize(stream))
    assert y.read()[0] == 1
    run(executable, stream)


def test_event_recorded_by_a_launch_is_waited_for():
    gate, event, x, y, graph = Gate(), ok(hip.hipEventCreate()), Ints(1), Ints(1), new_graph()
    ok(hip.hipGraphAddEventRecordNode(graph, *handles([add_fill(graph, [], x, 3)]), event))
    executable = instantiate(graph)
    first, second = (ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2))
    for value in (3, 4):
        gate.hold(first)
        ok(hip.hipGraphLaunch(executable, first))
        ok(hip.hipStreamWaitEvent(second, event, 0))
        ok(hip.hipMemcpyDtoDAsync(y.memory, x.memory, 4, second))
        settle()
        assert error(hip.hipEventQuery(event)) == E.hipErrorNotReady
        gate.open()
        ok(hip.hipStreamSynchronize(second))
        assert y.read()[0] == 3
        x.write([value])


def test_executables_of_one_graph_record_events_of_their_own():
    gate, event, graph = Gate(), ok(hip.hipEventCreate()), new_graph()
    ok(hip.hipGraphAddEventRecordNode(graph, None, 0, event))
    first, second = instantiate(graph), instantiate(graph)
    held, free = (ok(hip.hipStreamCreateWithFlags(1)) for _ in range(2))
    gate.hold(held)
    ok(hip.hipGraphLaunch(first, held))
    run(second, free)
    assert error(hip.hipEventQuery(event)) == E.hipSuccess
    gate.open()
    ok(hip.hipStreamSynchronize(held))


def test_cycles_are_refused():
    graph = new_graph()
    a = ok(hip.hipGraphAddEmptyNode(graph, None, 0))
    b = ok(hip.hipGraphAddEmptyNode(graph, *handles([a])))
    c = ok(hip.hipGraphAddEmptyNode(graph, *handles([b])))
    edge = [np.array([int(node)], np.uint64) for node in (c, b)]
    ok(hip.hipGraphAddDependencies(graph, *edge, 1))
    out, node, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(64)
    size = ctypes.c_size_t(64)
    status = raw("hipGraphInstantiate", ctypes.byref(out), graph, ctypes.byref(node), log, size)
    assert status == E.hipErrorInvalidValue
    assert out.value is None
    assert node.value in (int(b), int(c))
    assert b"cycle" in log.value
    params = hip.hipGraphInstantiateParams()
    assert error(hip.hipGraphInstantiateWithParams(graph, params)) == E.hipErrorInvalidValue
    assert params.result_out == hip.hipGraphInstantiateResult.hipGraphInstantiateInvalidStructure
    assert int(params.errNode_out) == node.value
    outer = new_graph()
    ok(hip.hipGraphAddChildGraphNode(outer, None, 0, graph))
    assert error(hip.hipGraphInstantiateWithFlags(outer, 0)) == E.hipErrorInvalidValue


def test_instantiate_flags():
    flag, graph = hip.hipGraphInstantiateFlags, new_graph()
    executable = instantiate(graph, 8)
    assert ok(hip.hipGraphExecGetFlags(executable)) == 8
    assert error(hip.hipGraphInstantiateWithFlags(graph, 9)) == E.hipErrorInvalidValue  # one flag at a time
    assert error(hip.hipGraphInstantiateWithFlags(graph, 16)) == E.hipErrorInvalidValue
    assert error(hip.hipGraphInstantiateWithFlags(graph, 2)) == E.hipErrorInvalidValue
    params = hip.hipGraphInstantiateParams()
    params.flags = flag.hipGraphInstantiateFlagUpload
    executable = ok(hip.hipGraphInstantiateWithParams(graph, params))
    assert params.result_out == hip.hipGraphInstantiateResult.hipGraphInstantiateSuccess
    assert ok(hip.hipGraphExecGetFlags(executable)) == 2
    params.flags = 10
    assert error(hip.hipGraphInstantiateWithParams(graph, params)) == E.hipErrorInvalidValue
    assert params.result_out == hip.hipGraphInstantiateResult.hipGraphInstantiateError
    ok(hip.hipGraphUpload(executable, None))
    ok(hip.hipGraphExecDestroy(executable))
    assert error(hip.hipGraphUpload(executable, None)) == E.hipErrorInvalidValue


def test_launch_on_a_destroyed_stream():
    executable, stream = instantiate(new_graph()), ok(hip.hipStreamCreate())
    run(executable, stream)
    ok(hip.hipStreamDestroy(stream))
    assert error(hip.hipGraphLaunch(executable, stream)) == E.hipErrorInvalidHandle


def test_launches_and_updates_from_many_threads():
    """Every launch sees an update as a whole, on any stream."""
    x, z, count = Ints(1), Ints(1), Ints(1)

    def build(value):
        graph = new_graph()
        deps = [add_fill(graph, [], x, value), add_fill(graph, [], z, value)]
        KernelCall("count_if_different", count, x, z, grid=1, block=1).add(graph, deps)
        return graph

    executable, failures = instantiate(build(0)), []

    def launch():
        stream = ok(hip.hipStreamCreateWithFlags(1))
        for _ in range(200):
            failures.append(error(hip.hipGraphLaunch(executable, stream)))
        failures.append(error(hip.hipStreamSynchronize(stream)))

    def change():
        for value in range(100):
            failures.append(update(executable, build(value))[0])

    threads = [threading.Thread(target=work) for work in (launch, launch, launch, change)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(failures) == {E.hipSuccess}
    assert count.read()[0] == 0


class Program:
    """A random program over a few arrays: graph nodes with the edges that their reads and writes imply."""

    SIZE, ARRAYS = 37, 5

    def __init__(self, seed, kernels):
        self.random = np.random.default_rng(seed)
        self.arrays = [Ints(self.SIZE) for _ in range(self.ARRAYS)]
        self.start = self.random.integers(-99, 99, (self.ARRAYS, self.SIZE), np.int32)
        self.want = self.start.copy()
        self.graph, self.nodes, self.uses = new_graph(), [], []
        for _ in range(int(self.random.integers(1, 60))):
            self.add_node(self.random.choice(["fill", "copy", "scale_add", "mix"] if kernels else ["fill", "copy"]))

    def add_node(self, kind):
        """Add a node and do the same to the oracle's arrays."""
        y, x, z = (int(i) for i in self.random.permutation(self.ARRAYS)[:3])
        a, b = (int(i) for i in self.random.integers(-5, 6, 2))
        reads = {"fill": [], "copy": [x], "scale_add": [x], "mix": [x, z]}[kind]
        deps = self.dependencies(reads, y)
        target, first, second = self.arrays[y], self.arrays[x], self.arrays[z]
        if kind == "fill":
            node = add_fill(self.graph, deps, target, a & 0xFFFFFFFF)
            self.want[y] = a
        elif kind == "copy":
            node = add_copy(self.graph, deps, target, first)
            self.want[y] = self.want[x]
        elif kind == "scale_add":
            node = KernelCall("scale_add", target, first, a, b, self.SIZE).add(self.graph, deps)
            self.want[y] = a * self.want[x] + b
        else:
            node = KernelCall("mix", target, first, second, self.SIZE).add(self.graph, deps)
            self.want[y] = self.want[x] - 3 * self.want[z][::-1]
        self.nodes.append(node)
        self.uses.append((set(reads), y))

    def dependencies(self, reads, write):
        """Return the earlier nodes that wrote what this one touches, or read what it writes."""
        found = [
            node
            for node, (earlier_reads, earlier_write) in zip(self.nodes, self.uses, strict=True)
            if earlier_write in (*reads, write) or write in earlier_reads
        ]
        return [found[int(i)] for i in self.random.permutation(len(found))]

    def check(self, executable, stream):
        """Launch from the start values and compare."""
        for array, values in zip(self.arrays, self.start, strict=True):
            array.write(values)
        run(executable, stream)
        got = [array.read() for array in self.arrays]
        np.testing.assert_array_equal(got, self.want)


@pytest.mark.parametrize("kernels", [False, True], ids=["copies", "kernels"])
def test_random_programs_match_a_sequential_run(kernels):
    stream = ok(hip.hipStreamCreate())
    for seed in range(40):
        program = Program(seed, kernels)
        executable = instantiate(program.graph)
        ok(hip.hipGraphDestroy(program.graph))
        for _ in range(6):
            program.check(executable, stream)
        ok(hip.hipGraphExecDestroy(executable))


ORDER = """
import json
import threading
from helpers.hip_calls import instantiate, new_graph, run
calls = []
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda data: calls.append(data or 0))
graph, params = new_graph(), hip.hipHostNodeParams()
params.fn = ctypes.cast(function, ctypes.c_void_p).value
for i in range(12):
    params.userData = i
    ok(hip.hipGraphAddHostNode(graph, None, 0, params))
executable = instantiate(graph)
run(executable)
run(executable)
print(json.dumps(calls))
"""


def test_order_follows_the_seed(python):
    first, again, other = (python(ORDER, HIPRT_CPU_SEED=seed) for seed in ("7", "7", "8"))
    assert first == again
    assert first != other
    calls = json.loads(first)
    assert sorted(calls) == sorted(2 * list(range(12)))
    assert calls[:12] != calls[12:]
