"""Kernels that wait for earlier ones by themselves: which nodes may start early, and which edges that makes."""

import ctypes
from itertools import pairwise

import numpy as np
import pytest
from helpers import hip_calls
from helpers.recorder import Program

import hiprt
from hiprt import core, graphs
from hiprt.compiler import compile_source
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.trust import trusted
from hiprt.graphs.record.recording import Recording
from hiprt.module import READ, WRITE

A, B, C, W = (0, 64), (64, 128), (128, 192), (1000, 1064)
READS, WRITES = 1, 2


def follow(program, source, target, weight=W, ahead=0b010):
    program.kernel((*source, READS), (*weight, READS), (*target, WRITES), ahead=ahead)


def test_only_what_waits_itself():
    program = Program()
    program.kernel((*A, WRITES))
    follow(program, A, B)
    program.kernel((*B, READS), (*C, WRITES))
    assert program.overlapping() == [1]


@pytest.mark.parametrize("written", [W, (900, 1001), (1063, 1064), (0, 5000)])
def test_not_where_an_earlier_node_wrote_what_is_read_ahead(written):
    program = Program()
    program.kernel((*written, WRITES))
    follow(program, A, B)
    # The one before it wrote nothing of the kind, and may itself still be running.
    follow(program, B, C)
    assert program.overlapping() == []


@pytest.mark.parametrize("written", [(900, 1000), (1064, 2000)])
def test_neighbouring_memory_does_not_matter(written):
    program = Program()
    program.kernel((*written, WRITES))
    follow(program, A, B)
    assert program.overlapping() == [1]


def test_not_behind_undeclared_work():
    program = Program()
    program.barrier()
    follow(program, A, B)
    assert program.overlapping() == []


def test_the_key_tells_them_apart():
    programs = [Program(), Program()]
    for program, ahead in zip(programs, (0b010, None), strict=True):
        program.kernel((*A, WRITES))
        follow(program, A, B, ahead=ahead)
    assert programs[0].dependencies() == programs[1].dependencies()
    assert not programs[0].same_key(programs[1])


SOURCE = """
extern "C" __global__ void follow(const int* in, const int* weight, int* out) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  int factor = *weight;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  *out = *in * factor + 1;
}
"""


@pytest.fixture(scope="module")
def function():
    code, _ = compile_source(SOURCE, "follow.hip")
    arguments = [hiprt.Argument("in", READ), hiprt.Argument("weight", READ), hiprt.Argument("out", WRITE)]
    return hiprt.Function(hiprt.Module(code), "follow", arguments, ahead=["weight"])


def chain(function, cells, weight):
    stream = hiprt.current_stream()
    for i in range(len(cells) - 1):
        function(stream, (1, 1, 1), (1, 1, 1), cells[i], weight, cells[i + 1])


def record(work):
    stream, recording = hiprt.current_stream(), Recording(edges="data")
    with recording.record(stream):
        work()
    return recording


@pytest.mark.parametrize(("overlap", "edges"), [(True, 5), (False, 0)])
def test_edges_of_a_chain(function, overlap, edges):
    memory, weight = hiprt.zeros(7, np.int32), hiprt.array(np.array([3], np.int32))
    cells = [memory[i : i + 1] for i in range(7)]
    stream = hiprt.current_stream()
    exec_ = Exec(record(lambda: chain(function, cells, weight)), stream.device.index, overlap=overlap)
    # One edge fewer than edges of the graph: the first node has none.
    assert exec_.overlaps == edges
    exec_.launch(stream)
    assert memory.numpy().tolist() == [0, 1, 4, 13, 40, 121, 364]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_flag_decides_for_steps(function, is_wanted):
    """HIPRT_GRAPH_OVERLAP, on a device that was found to keep the order."""
    memory, weight = hiprt.zeros(7, np.int32), hiprt.array(np.array([3], np.int32))
    cells = [memory[i : i + 1] for i in range(7)]
    step = graphs.Step(lambda: chain(function, cells, weight))
    with hiprt.flags.override(graph_overlap=is_wanted):
        step()
    (exec_,) = step.ladder.execs
    keeps = "overlap" in trusted(hiprt.current_device())
    assert exec_.overlaps == (5 if is_wanted and keeps else 0)
    assert memory.numpy().tolist() == [0, 1, 4, 13, 40, 121, 364]


@pytest.mark.parametrize(("followers", "fanout", "early"), [(2, 0, 2), (2, 2, 2), (3, 4, 3), (3, 2, 0)])
def test_all_followers_of_a_kernel_start_early(function, followers, fanout, early):
    """None does behind the joins that spread a wide fan-out: those are no kernels."""
    memory, weight = hiprt.zeros(2 + followers, np.int32), hiprt.array(np.array([3], np.int32))
    cells = [memory[i : i + 1] for i in range(2 + followers)]

    def work():
        chain(function, cells[:2], weight)
        for cell in cells[2:]:
            chain(function, [cells[1], cell], weight)

    stream = hiprt.current_stream()
    exec_ = Exec(record(work), stream.device.index, fanout, overlap=True)
    assert exec_.overlaps == early
    exec_.launch(stream)
    assert memory.numpy().tolist() == [0, 1, *[4] * followers]


def test_a_weight_written_in_the_step_is_read_after_the_wait(function):
    memory, weight = hiprt.zeros(7, np.int32), hiprt.zeros(1, np.int32)
    cells = [memory[i : i + 1] for i in range(7)]
    three = hiprt.array(np.array([3], np.int32))

    def work():
        weight.copy_from(three)
        chain(function, cells, weight)

    step = graphs.Step(work)
    for _ in range(3):
        weight.fill_bytes(0)
        step()
        assert memory.numpy().tolist() == [0, 1, 4, 13, 40, 121, 364]


class Follow(hip_calls.KernelCall):
    """The kernel of this file as a node of a graph that other code makes."""

    def __init__(self, function, source, weight, target):
        self.cells = [np.array([array.address], np.uint64) for array in (source, weight, target)]
        self.pointers = np.array([cell.ctypes.data for cell in self.cells], np.uint64)
        self.params = hip_calls.hip.hipKernelNodeParams()
        self.params.func = int(core.ffi.cast("uintptr_t", function))
        hip_calls.set_dim(self.params.gridDim, 1)
        hip_calls.set_dim(self.params.blockDim, 1)
        self.params.kernelParams = self.pointers

    def add_overlapped(self, graph, after):
        """Add it behind a kernel that it waits for by itself."""
        node = ctypes.c_void_p()
        add = "hiprtGraphAddKernelNodeOverlapped"
        assert hip_calls.raw(add, ctypes.byref(node), graph, after, self.params) == hip_calls.E.hipSuccess
        return node.value


def graph_of(calls, early):
    """A chain of other code in which some kernels wait for the one before by themselves."""
    graph, node = hip_calls.new_graph(), None
    for call, is_early in zip(calls, early, strict=True):
        node = call.add_overlapped(graph, node) if is_early else call.add(graph, [node] if node else [])
    return graph


EARLY = (False, True, True, False, True, True)


def test_early_starts_of_other_code_come_over():
    """They are those of the captured graph, and one that has others is other work."""
    function = hiprt.Module(*compile_source(SOURCE, "follow.hip")).function("follow")
    memory, weight = hiprt.zeros(7, np.int32), hiprt.array(np.array([3], np.int32))
    cells = [memory[i : i + 1] for i in range(7)]

    def graph(early):
        return graph_of([Follow(function, source, weight, target) for source, target in pairwise(cells)], early)

    adopted = graphs.Adopted("early")
    keeps = "overlap" in trusted(hiprt.current_device())
    for early, rungs in ((EARLY, "instantiate"), (EARLY, "replay"), ((False,) * 6, "instantiate"), (EARLY, "replay")):
        memory.set(np.zeros(7, np.int32))
        adopted.launch(int(graph(early)), is_given=True)
        assert memory.numpy().tolist() == [0, 1, 4, 13, 40, 121, 364]
        assert adopted.stats.rungs[rungs] > 0
    assert [node.dependencies for node in adopted.recording.nodes()] == [(), (0,), (1,), (2,), (3,), (4,)]
    assert adopted.stats.rungs["instantiate"] == 2
    assert sorted(exec_.overlaps for exec_ in adopted.ladder.execs) == [0, 4 if keeps else 0]
