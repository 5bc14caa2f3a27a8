"""Each guard is needed: without it, the defect it is for shows; with it, it does not.

guard                                              quirk                         test
G1 another stream waits for a free block            none                          test_g1_blocks
G1 a recording keeps the buffers it names           none                          test_g1_buffers
G2 an exec in flight is not changed                update_inflight_visible       test_g2_in_flight
G2 arrays are moved in a drained exec              update_inflight_visible       test_g2_moved_in_flight
G2 who asks about an armed step's launch waits     update_inflight_visible       test_g2_armed_in_flight
G2 an exec is destroyed when it has finished       destroy_immediate             test_g2_destroyed_in_flight
G3 keys are compared by content, edges included    update_bfs_count_only         test_g3_key
G4 arguments are passed in fresh arrays            getparams_alias               test_g4_fresh_arrays
G4 setters name nodes of the instantiated graph    node_handle_reuse             test_g4_source_graph
G5 no child graphs                                 child_update_selfcopy,        test_g5_child_graphs
                                                   child_update_stale_packets,
                                                   child_no_sync
G6 one root                                        multiroot_no_launch_wait      test_g6_one_root_and_fanout
G6 out-degree of at most four                      fanout_drop                   test_g6_one_root_and_fanout
G6 one exec on one stream at a time                exec_overlap                  test_g6_one_stream
G7 updates are budgeted                            update_swallow_error          test_g7_budget
G8 an exec whose change failed is discarded        update_partial                test_g8_discard
G10 allocation never waits for the device           capture_devsync_900           test_g10_capture
G11 the device is set before every graph call       device_binding                test_g11_device
G12 one thread at a time uses a step's execs        none                          test_g12_threads
"""

import ctypes
import threading
from contextlib import nullcontext, suppress
from itertools import pairwise

import numpy as np
import pytest
from helpers.child import child, crash
from helpers.hip_calls import (
    Gate,
    add_copy,
    add_fill,
    instantiate,
    new_graph,
    ok,
    raw,
    run as run_graph,
    update as update_graph,
)
from helpers.kernels import accumulate, functions, launch, scale
from quirks.capture_calls import RELAXED, begin, end, new_stream
from quirks.test_getparams_alias import alias
from quirks.workloads import CHANGES, START, N, differing, held
from rocm.bindings import hip

import hiprt
from hiprt import _core, allocator, errors, graphs, library
from hiprt.graphs.block import ladders
from hiprt.graphs.launch import allowed_rungs, execs

ROUNDS = 30


def disable(guard):
    """Take a guard out of the C core."""
    assert ctypes.CDLL(_core.__file__).hiprt_test_disable(guard.encode()) == 0


def freed_in_flight(removed):
    """What a held kernel makes of an input that is freed behind it, when another stream asks for memory."""
    if removed:
        disable("busy")
    with hiprt.Stream() as stream, hiprt.Stream() as other:
        x, out = hiprt.array(np.ones(N, np.float32), stream=stream), hiprt.zeros(N, stream=stream)
        with hiprt.use_stream(stream):
            functions()
            with held(stream):
                launch("scale", x, out, 2.0, size=N)
                del x
                # The first request puts the fence behind the free block that the second would like.
                for y in [hiprt.zeros(N, stream=other) for _ in range(2)]:
                    y.set(np.full(N, 5, np.float32), other)
                other.synchronize()
        return float(out.numpy(stream)[0])


def test_g1_blocks():
    assert child(freed_in_flight, False) == 2
    assert child(freed_in_flight, True) == 10


def dropped_buffers(removed):
    """What a replay makes of an input that nobody but the graph holds."""
    if removed:
        stop = graphs.Recording.stop

        def forget(self, stream):
            stop(self, stream)
            self.keep.clear()

        graphs.Recording.stop = forget
    inputs, out = [hiprt.array(np.ones(N, np.float32))], hiprt.zeros(N)
    step = graphs.Step(lambda: launch("scale", inputs[0], out, 2.0, size=N))
    step()
    inputs.clear()
    others = [hiprt.array(np.full(N, 5, np.float32)) for _ in range(8)]
    step()
    assert len(others) == 8
    return float(out.numpy()[0])


def test_g1_buffers():
    assert child(dropped_buffers, False) == 2
    assert child(dropped_buffers, True) == 10


def in_flight(removed):
    """Workloads that go wrong when the exec of a launch in flight is patched."""
    if removed:
        disable("busy")
    return differing(["in_flight"])


def test_g2_in_flight():
    assert child(in_flight, False, quirks="update_inflight_visible") == []
    assert child(in_flight, True, quirks="update_inflight_visible") == ["in_flight"]


def moved_in_flight(removed):
    """Results of two calls with different arrays, the first in flight when the second comes."""
    if removed:
        disable("wait")
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        arrays = [hiprt.array(np.full(N, i, np.float32)) for i in range(3)]
        outs, step = [hiprt.zeros(N) for _ in range(2)], graphs.Step(lambda a: scale(a, 2.0), moves=True)
        step(arrays[0])

        def call():
            for array, out in zip(arrays[1:], outs, strict=True):
                out.copy_from(step(array))

        if removed:
            with held(stream):
                call()
        else:
            call()
        return [float(out.numpy()[0]) for out in outs], step.rungs["patch"]


def test_g2_moved_in_flight():
    assert child(moved_in_flight, False, quirks="update_inflight_visible") == [[2, 4], 2]
    assert child(moved_in_flight, True, quirks="update_inflight_visible") == [[4, 4], 2]


def armed_in_flight(removed, is_known):
    """What the C core launched again by itself, and is in flight when a call with another array patches the exec.

    The C core patches it, where it knows how.
    """
    if removed:
        disable("fence")
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        arrays, sums = [hiprt.array(np.full(N, i, np.float32)) for i in (1, 10)], hiprt.zeros(N)
        step = graphs.Step(lambda a: accumulate(a, sums), moves=True)
        for i in (0, 1, 0) if is_known else (0,):
            step(arrays[i])
        sums.fill_bytes(0)
        stream.synchronize()
        gate = Gate()
        gate.hold(stream.hip_stream)
        step(arrays[0])
        opening = threading.Thread(target=gate.open)
        if not removed:
            opening.start()
        step(arrays[1])
        if removed:
            opening.start()
        opening.join()
        return float(sums.numpy()[0]), step.rungs["replay"], step.rungs["patch"]


@pytest.mark.parametrize("is_known", [False, True])
def test_g2_armed_in_flight(is_known):
    patches = 3 if is_known else 1
    assert child(armed_in_flight, False, is_known, quirks="update_inflight_visible") == [11, 1, patches]
    assert child(armed_in_flight, True, is_known, quirks="update_inflight_visible") == [20, 1, patches]


def destroyed_in_flight(removed):
    """The result of a step that is dropped while its launch is in flight."""
    if removed:
        disable("wait")
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x = hiprt.array(START)
        step = graphs.Step(lambda: scale(x, 2.0))
        expected = step().numpy()
        if removed:
            with held(stream):
                result = step()
                del step
        else:
            result = step()
            del step
        return result.numpy().tobytes() == expected.tobytes()


def test_g2_destroyed_in_flight():
    assert child(destroyed_in_flight, False, quirks="destroy_immediate") is True
    assert child(destroyed_in_flight, True, quirks="destroy_immediate") is False


def rewired(removed):
    """Workloads that go wrong when an exec serves another wiring."""
    if removed:
        disable("key")
    with hiprt.flags.override(graph_rungs=("update", "instantiate", "eager")):
        return differing(["rewired"])


def test_g3_key():
    assert child(rewired, False, quirks="update_bfs_count_only") == []
    assert child(rewired, True, quirks="update_bfs_count_only") == ["rewired"]
    # A runtime that compares edges sees none that differ: an update takes the graph that the exec was made of.
    assert child(rewired, True) == ["rewired"]


def test_g4_fresh_arrays():
    assert child(alias, False, quirks="getparams_alias") == 0
    assert "getparams_alias" in crash(alias, True, quirks="getparams_alias")


class CoreExec(ctypes.Structure):
    """The beginning of the C core's struct hiprt_exec."""

    _fields_ = (
        ("device", ctypes.c_int),
        ("fanout", ctypes.c_uint32),
        ("overlap", ctypes.c_int),
        ("overlaps", ctypes.c_uint32),
        ("recorder", ctypes.c_void_p),
        ("graph", ctypes.c_void_p),
        ("nodes", ctypes.c_void_p),
        ("handle", ctypes.c_void_p),
    )

    @classmethod
    def of(cls, exec_):
        """The struct behind an exec."""
        return cls.from_address(int(_core.ffi.cast("uintptr_t", exec_.core)))


def other_source_graph(removed):
    """What two nodes wrote after the first was patched, or the error."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, outs = hiprt.array(np.ones(N, np.float32)), [hiprt.zeros(N) for _ in range(2)]

        def record(first):
            recording = graphs.Recording()
            with recording.record(stream):
                for out, factor in zip(outs, (first, 2.0), strict=True):
                    launch("scale", x, out, factor, size=N)
            return recording

        exec_ = graphs.Exec(record(1.0), 0, fanout=0)
        if removed:
            # As when the source graph is replaced by a newer one of the same topology.
            mine = CoreExec.of(exec_)
            ok(hip.hipGraphDestroy(mine.graph))
            other = graphs.Exec(record(1.0), 0, fanout=0)
            its = CoreExec.of(other)
            mine.graph, its.graph = its.graph, mine.graph
            mine.nodes, its.nodes = its.nodes, mine.nodes
        try:
            exec_.patch(record(5.0))
        except errors.HipError as error:
            return error.name
        exec_.launch(stream)
        return [float(out.numpy()[0]) for out in outs]


def test_g4_source_graph():
    assert child(other_source_graph, False, quirks="node_handle_reuse") == [5, 2]
    # The second node was patched: nothing writes its memory any more.
    assert child(other_source_graph, True, quirks="node_handle_reuse")[1] == 0
    assert child(other_source_graph, True) == "hipErrorInvalidValue"


def node_types(exec_):
    """The types of the nodes of an exec's graph."""
    graph, count, number = CoreExec.of(exec_).graph, ctypes.c_size_t(), ctypes.c_int()
    assert raw("hipGraphGetNodes", graph, None, ctypes.byref(count)) == 0
    nodes, types = (ctypes.c_void_p * count.value)(), set()
    assert raw("hipGraphGetNodes", graph, nodes, ctypes.byref(count)) == 0
    for node in nodes:
        assert raw("hipGraphNodeGetType", node, ctypes.byref(number)) == 0
        types.add(number.value)
    return types


def nested(removed):
    """Whether updates of a step within a step arrive, in order; without the guard, as a child graph."""
    x, y, z, seen = *(hiprt.zeros(1, np.int32) for _ in range(3)), []
    hiprt.current_stream().synchronize()
    if removed:
        executable = None
        for value in range(1, 40):
            inner, graph = new_graph(), new_graph()
            add_fill(inner, [], x.address, value, n=1)
            node = ok(hip.hipGraphAddChildGraphNode(graph, None, 0, inner))
            for target in (y, z):  # the second one runs on another stream
                add_copy(graph, [node], target.address, x.address, n=1)
            executable = executable or instantiate(graph)
            update_graph(executable, graph)
            run_graph(executable)
            seen.append(int(y.numpy()[0]) == int(z.numpy()[0]) == value)
        return all(seen)
    inner = graphs.Step(lambda: x.fill_bytes(value))
    outer = graphs.Step(lambda: (inner(), y.copy_from(x)), keep=False)
    for value in range(1, 40):
        outer()
        seen.append(int(y.numpy()[0]) == value * 0x01010101)
    kinds = set().union(*map(node_types, outer.ladder.execs))
    return all(seen) and hip.hipGraphNodeType.hipGraphNodeTypeGraph not in kinds


@pytest.mark.parametrize("quirk", ["child_update_selfcopy", "child_update_stale_packets", "child_no_sync"])
def test_g5_child_graphs(quirk):
    assert child(nested, False, quirks=quirk) is True
    assert child(nested, True, quirks=quirk) is False


def test_child_graphs_are_right_where_the_runtime_is():
    assert child(nested, True) is True


def unbounded(name, removed):
    """A workload that goes wrong in graphs of any width and any number of roots, which the user asked for."""
    if removed:
        # The probes would not let the flag through.
        allowed_rungs.fanout = lambda device: (0, "")
    return differing([name])


@pytest.mark.parametrize(("name", "quirk"), [("roots", "multiroot_no_launch_wait"), ("fan", "fanout_drop")])
def test_g6_one_root_and_fanout(name, quirk):
    assert child(differing, [name], quirks=quirk) == []
    assert child(unbounded, name, False, quirks=quirk, HIPRT_GRAPH_FANOUT="0") == []
    assert child(unbounded, name, True, quirks=quirk, HIPRT_GRAPH_FANOUT="0") == [name]


def two_streams(removed):
    """Whether a step on one stream was wrong while the same step came on another: a chain that carries a value."""
    if removed:
        hiprt.zeros(1)  # opens the library
        disable("order")  # the order of streams hides it, since all launches of a step use its memory
        disable("stream")
    streams, gate = [hiprt.Stream() for _ in range(2)], Gate()
    cells, result = [hiprt.zeros(N) for _ in range(17)], hiprt.zeros(N)
    # Launches overlap by chance, on a loaded machine in few of the rounds.
    for value in range(100 * ROUNDS if removed else ROUNDS):
        cells[0].set(np.full(N, value, np.float32))
        for stream in streams:
            gate.hold(stream.hip_stream)
            with graphs.step("chain", stream=stream):
                for source, target in pairwise(cells):
                    launch("scale", source, target, 1.0, size=N)
            if stream is streams[0]:
                result.copy_from(cells[-1], stream)
        gate.open()
        streams[1].synchronize()
        if float(result.numpy(streams[0])[0]) != value:
            return True
    return False


def test_g6_one_stream():
    assert child(two_streams, False, quirks="exec_overlap") is False
    assert child(two_streams, True, quirks="exec_overlap") is True


def many_changes(budget):
    """How many of many changed calls were wrong."""
    x, factor, wrong = hiprt.array(np.ones(N, np.float32)), 0.0, 0
    out = hiprt.zeros(N)
    step = graphs.Step(lambda: launch("scale", x, out, factor, size=N), keep=False)
    with hiprt.flags.override(graph_update_budget=budget):
        for factor in range(CHANGES):
            step()
            wrong += float(out.numpy()[0]) != factor
    return wrong


def test_g7_budget():
    quirks = "update_swallow_error,kernarg_limit=8192"
    assert child(many_changes, 20, quirks=quirks) == 0
    assert child(many_changes, 10000, quirks=quirks) > 0


def failing_change(removed):
    """Workloads that go wrong when an exec is used on after some of its nodes were patched."""
    if removed:
        execs.Execs.discard = execs.Execs.drop = lambda self, dropped: None
    return differing(["wide"])


def test_g8_discard():
    where = {"quirks": "update_partial,kernarg_bump_leak,kernarg_limit=16384"}
    where["HIPRT_GRAPH_RUNGS"] = "replay,patch,instantiate,eager"
    assert child(failing_change, False, **where) == []
    assert child(failing_change, True, **where) == ["wide"]


def allocate_beside_a_capture(removed):
    """What became of an allocation, and of a capture that somebody else has open."""
    if removed:
        take_over = allocator.Pool.take_over

        def wait_first(self, *args, **kwargs):
            errors.check(library.hip().hipDeviceSynchronize(), "hipDeviceSynchronize")
            return take_over(self, *args, **kwargs)

        allocator.Pool.take_over = wait_first
    theirs = new_stream()
    begin(theirs, RELAXED)
    with hiprt.Stream() as stream:
        try:
            hiprt.zeros(N, stream=stream)
            error = ""
        except errors.HipError as failure:
            error = failure.name
    return error, end(theirs)[0]


def test_g10_capture():
    assert child(allocate_beside_a_capture, False, quirks="capture_devsync_900") == ["", "hipSuccess"]
    broken = ["hipErrorStreamCaptureUnsupported", "hipErrorStreamCaptureInvalidated"]
    assert child(allocate_beside_a_capture, True, quirks="capture_devsync_900") == broken


def other_device(removed):
    """The value of a step of device 1 called by a thread that never chose a device, and why it ran eagerly."""
    hiprt.set_device(1)
    # Both set the thread's device, or depend on it.
    graphs.probes(hiprt.current_device())
    functions()
    if removed:
        disable("device")
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = hiprt.array(np.ones(N, np.float32)), hiprt.zeros(N)
        step = graphs.Step(lambda: launch("scale", x, y, 2.0, size=N), stream=stream)
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()
        return float(y.numpy()[0]), [reason for reason in step.reasons if reason.startswith("eager")]


def test_g11_device():
    assert child(other_device, False, quirks="device_binding", HIPRT_CPU_DEVICES="2") == [2, []]
    # No graph can be made, and G8 alone saves the result.
    value, (reason,) = child(other_device, True, quirks="device_binding", HIPRT_CPU_DEVICES="2")
    assert value == 2
    assert "hipErrorInvalidDeviceFunction" in reason


def two_threads(removed):
    """How often two threads were about to launch one exec, each after finding it for its own arguments."""
    both, launching, shared = threading.Barrier(2), set(), []
    original = graphs.Exec.launch

    def launch_together(self, stream):
        shared.extend([self] if self in launching else [])
        launching.add(self)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=60 if removed else 1)  # never met where the threads take turns
        launching.discard(self)
        original(self, stream)

    def work(factor):
        with hiprt.Stream() as own, hiprt.use_stream(own), graphs.step("two threads", stream=own):
            scale(x, factor)

    x = hiprt.zeros(N)
    work(1.0)
    if removed:
        ladder, turns = ladders["two threads"], threading.Lock()
        find = ladder.find

        def find_in_turn(*args):
            with turns:  # Two searches of one ladder at a time would be a race in the core, with any outcome.
                return find(*args)

        ladder.lock, ladder.find = nullcontext(), find_in_turn
    # In flight it would be nobody's to change: each thread would make an exec of its own.
    errors.check(library.hip().hipDeviceSynchronize(), "hipDeviceSynchronize")
    graphs.Exec.launch = launch_together
    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(shared)


def test_g12_threads():
    assert child(two_threads, False) == 0
    assert child(two_threads, True) == 1
