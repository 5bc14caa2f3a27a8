"""Graphs that other code captured (`graphs.adopt`): compared and patched, with the bits of a fresh capture."""

import ctypes
import random
from contextlib import contextmanager

import numpy as np
import pytest
from helpers import foreign
from helpers.hip_calls import nodes, raw

import hiprt
from hiprt import core, flags, graphs
from hiprt.errors import HipError
from hiprt.hip import call, handle, lib

N = 128
LANES, ARRAYS = 3, 4
START = np.arange(N, dtype=np.uint32)


PRIORITY = 8  # hipLaunchAttributePriority


class Priority(ctypes.Structure):
    """A hipLaunchAttributeValue that is a priority."""

    _fields_ = (("priority", ctypes.c_int), ("room", ctypes.c_char * 60))


class Capture:
    """A stream of other code with two more beside it, and arrays of which each stream writes its own."""

    def __init__(self):
        self.streams = [hiprt.Stream() for _ in range(LANES)]
        self.arrays = [[hiprt.array(START + 7 * k + lane) for k in range(ARRAYS)] for lane in range(LANES)]
        self.source = hiprt.array(START * 3)

    @property
    def stream(self):
        """The one that is captured."""
        return self.streams[0]

    @contextmanager
    def begin(self):
        """Capture what is put on the streams within the block; `graph` is the result."""
        first, others = self.streams[0].handle, [stream.handle for stream in self.streams[1:]]
        events = [foreign.Event() for _ in range(2 * len(others))]
        call(lib.hipStreamBeginCapture(first, lib.hipStreamCaptureModeRelaxed))
        try:
            for event, other in zip(events, others):
                event.between(first, other)
            yield
            for event, other in zip(events[len(others) :], others):
                event.between(other, first)
        finally:
            out = core.ffi.new("uint64_t *")
            call(lib.hipStreamEndCapture(first, out))
            self.graph = out[0]

    def capture(self, work):
        """Capture a list of works: kind, stream, numbers of the target and of the source, and a factor."""
        with self.begin():
            for kind, lane, y, x, m in work:
                stream, own = self.streams[lane].handle, [*self.arrays[lane], self.source]
                if kind == "affine":
                    foreign.affine(stream, own[y], own[x], m, n=N)
                elif kind == "pair":
                    foreign.pair(stream, own[y], m)
                elif kind == "packed":
                    foreign.affine_packed(stream, own[y], own[x], m)
                elif kind == "copy":
                    foreign.copy(stream, own[y], own[x])
                else:
                    foreign.fill(stream, own[y], m)
        return self.graph

    def reset(self):
        """Put back what the arrays began with."""
        for lane, arrays in enumerate(self.arrays):
            for k, array in enumerate(arrays):
                array.set(START + np.uint32(7 * k + lane), self.stream)

    def read(self):
        """Return what is in all arrays."""
        return np.array([[array.numpy(self.stream) for array in arrays] for arrays in self.arrays])

    def fresh(self, graph):
        """Return what a graph gives that is instantiated as it is; it ends with that."""
        self.reset()
        executable = handle(lib.hipGraphInstantiate, graph, core.ffi.NULL, core.ffi.NULL, 0)
        call(lib.hipGraphLaunch(executable, self.stream.handle))
        found = self.read()
        call(lib.hipGraphExecDestroy(executable))
        call(lib.hipGraphDestroy(graph))
        return found

    def adopted(self, adopted, graph):
        """Return what a graph gives that is adopted."""
        self.reset()
        adopted.launch(graph)
        return self.read()


def random_work(random, size):
    """Works of all kinds on all streams."""
    kinds = random.choices(("affine", "pair", "packed", "copy", "fill"), k=size)
    return [redirected((kind, random.randrange(LANES), 0, 0, 0), random) for kind in kinds]


def redirected(work, random):
    """Return a work at other addresses, and with another factor."""
    kind, lane, *_ = work
    y, x = random.sample(range(ARRAYS), 2)
    return kind, lane, y, random.choice((x, ARRAYS)), random.randrange(100)


@pytest.fixture
def capture():
    made = Capture()
    with hiprt.use_stream(made.stream):
        yield made


@pytest.fixture
def changes(form):
    """How often to change what is captured."""
    return {"short": 40, "usual": 200}.get(form, 1000)


def test_changes_are_patched_in(capture, changes):
    """Random graphs on three streams; at random other addresses and values, the bits are those of a fresh capture."""
    chance = random.Random(5)
    for size in (1, 5, 30):
        work = random_work(chance, size)
        adopted = graphs.Adopted("random", stream=capture.stream)
        with flags.override(graph_rungs=("replay", "patch", "instantiate")):
            for _ in range(changes // 2):
                for i in chance.sample(range(size), chance.randrange(min(size, 6) + 1)):
                    work[i] = redirected(work[i], chance)
                found = capture.adopted(adopted, capture.capture(work))
                np.testing.assert_array_equal(found, capture.fresh(capture.graph))
        assert len(adopted.recording) == size
        assert adopted.stats.rungs["instantiate"] <= flags.graph_slots
        assert adopted.stats.rungs["eager"] == 0


def test_the_first_difference_is_named(capture):
    """Of arguments by node and argument; of other work by the node that is launched otherwise."""
    adopted = graphs.Adopted("named")

    def launch(*work):
        adopted.launch(capture.capture(work), is_given=True)
        capture.stream.synchronize()

    launch(("affine", 0, 0, 1, 3), ("affine", 0, 1, 0, 3))
    launch(("affine", 0, 0, 1, 3), ("affine", 0, 1, 0, 4))
    event = graphs.explain()[-1]
    # A kernel whose arguments are not told counts as changed.
    count, difference = (
        (1, "node 1 (affine) argument 2: 3 -> 4") if foreign.tells_arguments() else (2, "node 0 (affine)")
    )
    assert (event.rung, event.reason) == ("patch", f"arguments of {count} of 2 nodes changed")
    assert event.difference == difference
    launch(("affine", 0, 0, 1, 3), ("pair", 0, 1, 0, 4))
    event = graphs.explain()[-1]
    assert (event.rung, event.reason) == ("instantiate", "first of this topology")
    assert event.difference == "node 1: affine 2x1x1 of 64x1x1 -> pair 2x1x1 of 64x1x1"
    launch(("affine", 0, 0, 1, 3))
    assert graphs.explain()[-1].difference == "node 1 (pair) is not launched"


def test_work_that_comes_again_is_compared_in_place(capture):
    """What was launched before is found again without a recording of it, and without a copy of the graph."""
    adopted = graphs.Adopted("again", stream=capture.stream)
    work = random_work(random.Random(8), 30)
    if not foreign.tells_arguments():
        work = [("fill" if kind == "fill" else "copy", *rest) for kind, *rest in work]
    capture.adopted(adopted, capture.capture(work))
    before = adopted.recording
    found = capture.adopted(adopted, capture.capture(work))
    assert adopted.recording is before
    np.testing.assert_array_equal(found, capture.fresh(capture.graph))
    assert adopted.stats.rungs["replay"] == 1
    adopted.launch(capture.capture([("affine", 0, 0, 1, 3)] * 30), is_given=True)
    assert adopted.recording is not before


OTHER = {
    "more": lambda work: [*work, ("fill", 0, 1, 0, 5)],
    "fewer": lambda work: work[:-1],
    "edges": lambda work: [(kind, (lane + 1) % LANES, *rest) for kind, lane, *rest in work[:3]] + work[3:],
    "kernel": lambda work: [("pair", *work[0][1:]), *work[1:]],
    "kind": lambda work: [work[0], ("copy", *work[1][1:]), *work[2:]],
    "none": lambda work: [],
}


@pytest.mark.parametrize("change", OTHER)
def test_other_work_is_not_taken_for_the_same(capture, change):
    """It shares most nodes with what was launched before; its bits are those of a fresh capture."""
    work = [("affine", i % LANES, i % 2, 1 - i % 2, 3 + i) for i in range(7)]
    adopted = graphs.Adopted(change, stream=capture.stream)
    capture.adopted(adopted, capture.capture(work))
    other = OTHER[change](work)
    found = capture.adopted(adopted, capture.capture(other))
    assert len(adopted.recording) == len(other)
    np.testing.assert_array_equal(found, capture.fresh(capture.graph))
    assert adopted.stats.rungs["patch"] == adopted.stats.rungs["replay"] == 0


def test_launch_attributes_are_compared(capture):
    """A kernel with another priority is other work, and keeps the priority that it was captured with."""
    adopted = graphs.Adopted("attributes", stream=capture.stream)
    for priority in (0, -1, -1, 0) if foreign.tells_arguments() else (0, -1):
        graph = capture.capture([("affine", 0, 0, 1, 3), ("affine", 0, 1, 0, 4)])
        assert raw("hipGraphKernelNodeSetAttribute", nodes(graph)[0], PRIORITY, ctypes.byref(Priority(priority))) == 0
        found = capture.adopted(adopted, graph)
        np.testing.assert_array_equal(found, capture.fresh(graph))
    assert adopted.stats.rungs["instantiate"] == 2
    assert adopted.stats.rungs["replay"] == (2 if foreign.tells_arguments() else 0)
    event = next(event for event in graphs.explain()[::-1] if event.step == "attributes")
    assert event.difference == "node 0: affine 2x1x1 of 64x1x1 -> affine 2x1x1 of 64x1x1 with other launch attributes"


def test_attributes_come_with_eager_launches(capture):
    """A kernel that needs clusters computes junk without. Captured again, the launch has what it had."""
    graph = capture.capture([("affine", 0, 0, 1, 3), ("affine", 0, 1, 0, 4)])
    assert raw("hipGraphKernelNodeSetAttribute", nodes(graph)[0], PRIORITY, ctypes.byref(Priority(-1))) == 0
    adopted = graphs.adopt(graph, stream=capture.stream, is_given=True)
    with capture.begin():
        adopted.recording.run(capture.stream)
    found = [Priority() for _ in range(2)]
    for node, value in zip(nodes(capture.graph), found):
        assert raw("hipGraphKernelNodeGetAttribute", node, PRIORITY, ctypes.byref(value)) == 0
    assert [value.priority for value in found] == [-1, 0]


@pytest.mark.only("cpu", reason="the driver takes no such priority")
def test_attributes_of_unknown_values_are_refused(capture):
    """Rather than being compared by a part of them."""
    graph = capture.capture([("affine", 0, 0, 1, 3)])
    assert raw("hipGraphKernelNodeSetAttribute", nodes(graph)[0], PRIORITY, ctypes.byref(Priority(1 << 20))) == 0
    with pytest.raises(HipError, match="a launch attribute of an unknown value"):
        graphs.adopt(graph, is_given=True)


def test_the_edges_are_those_of_the_capture(capture):
    """Works that share no stream wait for nothing of each other, though nobody declared what they touch."""
    work = [("affine", lane, 0, 1, 3) for lane in (0, 1, 2, 0, 1)]
    adopted = graphs.adopt(capture.capture(work), stream=capture.stream, is_given=True)
    assert [node.dependencies for node in adopted.recording.nodes()] == [(), (), (), (0,), (1,)]
    assert adopted.recording.foreign == 5


def test_what_was_launched_is_launched_again(capture):
    """The graph itself may be gone by then."""
    graph = capture.capture([("pair", 0, 0, 0, 2)])
    adopted = graphs.adopt(graph)
    call(lib.hipGraphDestroy(graph))
    capture.reset()
    for _ in range(3):
        adopted.again()
    np.testing.assert_array_equal(capture.arrays[0][0].numpy(), START * 8 + 7)
    assert (adopted.stats.rungs["instantiate"], adopted.stats.rungs["replay"]) == (1, 3)
    adopted.launch(capture.capture([("pair", 0, 0, 0, 2)]), is_given=True)
    assert adopted.stats.rungs["replay" if foreign.tells_arguments() else "patch"] == (
        4 if foreign.tells_arguments() else 1
    )


def child_behind(graph, before, child):
    """Add a graph behind a node of another one, and return its node."""
    node, after = ctypes.c_void_p(), (ctypes.c_void_p * 1)(before)
    assert raw("hipGraphAddChildGraphNode", ctypes.byref(node), graph, after, ctypes.c_size_t(1), child) == 0
    return node.value


def test_child_graphs_become_part_of_it(capture):
    """What stands before a child graph comes first, and what stands behind it waits for all of it."""
    children = [
        capture.capture([("pair", 0, 0, 0, 2), ("pair", 1, 0, 0, 3)]),
        capture.capture([("affine", 1, 1, 0, 3)]),
    ]
    whole = capture.capture([("fill", 0, 0, 0, 5)])
    (node,) = nodes(whole)
    for child in children:
        node = child_behind(whole, node, child)
    adopted = graphs.Adopted("child", stream=capture.stream)
    found = capture.adopted(adopted, whole)
    assert [each.dependencies for each in adopted.recording.nodes()] == [(), (0,), (0,), (1, 2)]
    np.testing.assert_array_equal(found, capture.fresh(whole))


@pytest.mark.parametrize("off", [{"graph": False}, {"graph_rungs": ("eager",)}])
def test_without_graphs_it_runs_eagerly(capture, off):
    work = random_work(random.Random(1), 10)
    adopted = graphs.Adopted("eager")
    with flags.override(**off):
        found = capture.adopted(adopted, capture.capture(work))
        adopted.again()
    np.testing.assert_array_equal(found, capture.fresh(capture.graph))
    assert adopted.stats.rungs["eager"] == 2


def test_work_that_cannot_be_launched_again_is_refused(capture):
    """Nothing of it has run, and the graph stays its owner's."""
    host = np.zeros(N, np.uint32)
    with capture.begin():
        foreign.fill(capture.stream.handle, capture.arrays[0][0], 1)
        pointer = core.ffi.cast("void *", host.ctypes.data)
        address = capture.arrays[0][0].address
        call(lib.hipMemcpyAsync(address, pointer, host.nbytes, lib.hipMemcpyHostToDevice, capture.stream.handle))
    with pytest.raises(HipError, match="a copy from or to the host") as raised:
        graphs.adopt(capture.graph)
    assert raised.value.name == "HIPRT_E_FOREIGN"
    np.testing.assert_array_equal(capture.fresh(capture.graph)[0][0], host)


def test_nothing_was_launched_yet():
    with pytest.raises(ValueError, match="nothing has been launched yet"):
        graphs.Adopted("nothing").again()
