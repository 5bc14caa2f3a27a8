"""The Apple runner over a fake of PyObjC's Metal: never run on Apple hardware."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.metal.framework import Metal
from helpers.metal.message import FACTS
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import library
from hiprt.errors import CompileError, HipError, OutOfMemoryError, ProviderError
from hiprt.flags import flags
from hiprt.graphs import Step
from hiprt.graphs.export import ahead
from hiprt.graphs.trace.rehearsal import NO_DEVICE
from hiprt.kernels import Kernel, add, multiply
from hiprt.metal_compat import metal_kernel
from hiprt.metal_compat.apple import MetalStream, Replay, heap as heap_module, open_device
from hiprt.metal_compat.apple.dispatches import barriers
from hiprt.stream import new_stream

pytestmark = pytest.mark.only("cpu", reason="what the fake records is run by the CPU device")

ORDERS = [None, 1, 2]
COUNT = 1000


@pytest.fixture(params=ORDERS, ids=["last first", "seed 1", "seed 2"])
def metal(request, stream):
    """A fake of the module Metal."""
    return Metal(stream, request.param)


@pytest.fixture
def apple(metal):
    """A stream of a fake Metal device, current within the test."""
    with MetalStream(open_device(1 << 20, metal)) as made, hiprt.use_stream(made):
        yield made


def numbers(start=0):
    return hiprt.array(np.arange(start, start + COUNT, dtype=np.float32))


def expect(array, values):
    np.testing.assert_array_equal(array.numpy(), np.asarray(values, np.float32))


def test_an_add_replayed(apple):
    a, b = numbers(), numbers(7)
    with apple.record() as recording:
        c = add(add(a, b), b)
    replay = Replay(recording, apple)
    for _ in range(2):
        replay.launch()
        assert replay.busy
        expect(c, np.arange(COUNT) * 3 + 14)
        assert not replay.busy


def test_devices_have_numbers_of_their_own(apple):
    """Plans are remembered by the number, and traces and compiling ahead have numbers below 0 too."""
    assert apple.device.index < min(NO_DEVICE.index, ahead.FIRST_INDEX - len(ahead.MACHINES))


def test_eager_launches_are_one_command_buffer(apple):
    a, before = numbers(), apple.launches
    b = add(a, a)
    c = add(b, a)
    for _ in range(3):
        c = add(c, b)
    expect(c, np.arange(COUNT) * 9)
    assert apple.launches == before + 1


def test_command_buffers_run_in_order(apple):
    a = numbers()
    for _ in range(5):
        add(a, a, out=a)
        apple.flush()
    assert len(apple.in_flight) == 5
    expect(a, np.arange(COUNT) * 32)
    assert not apple.in_flight


def test_replays_and_launches_run_in_order(apple):
    a, b = numbers(), numbers(1)
    with apple.record() as recording:
        add(a, b, out=a)
    replay = Replay(recording, apple)
    for _ in range(2):
        add(a, a, out=a)
        replay.launch()
    expect(a, np.arange(COUNT) * 7 + 3)


def test_a_full_recording_is_committed(metal):
    with flags.override(graph_max_nodes=3), hiprt.use_stream(MetalStream(open_device(1 << 20, metal))) as apple:
        a, before = numbers(), apple.launches
        for _ in range(7):
            add(a, a, out=a)
        expect(a, np.arange(COUNT) * 128)
        assert apple.launches == before + 3


@pytest.mark.parametrize(("width", "dtype"), [(1, np.uint8), (2, np.uint16), (4, np.uint32)])
def test_copies_and_fills(apple, width, dtype):
    source = hiprt.empty(COUNT, dtype)
    target = hiprt.zeros(COUNT, dtype)
    with apple.record() as recording:
        value = 0x89ABCDEF & ((1 << 8 * width) - 1)
        apple.fill(source.address, value, width, COUNT - 1)
        target[1:].copy_from(source[:-1])
        target[:1].copy_from(target[5:6])
    Replay(recording, apple).launch()
    np.testing.assert_array_equal(target.numpy(), np.full(COUNT, value, dtype))


def test_an_empty_node_passes_its_barrier_on(apple):
    a = numbers()
    with apple.record() as recording:
        b = add(a, a)
        apple.barrier()
        c = add(a, a)
    work = Replay(recording, apple).dispatches
    assert [each.behind for each in work] == [False, True]
    Replay(recording, apple).launch()
    expect(add(b, c), np.arange(COUNT) * 4)


def test_nodes_without_an_edge_share_a_stage(apple, metal):
    a = numbers()
    with apple.record() as recording:
        parts = [add(a, a) for _ in range(4)]
        total = add(add(parts[0], parts[1]), add(parts[2], parts[3]))
    replay = Replay(recording, apple)
    assert [each.behind for each in replay.dispatches] == [False, False, False, False, True, False, True]
    replay.launch()
    expect(total, np.arange(COUNT) * 8)


def test_patched_addresses_and_values(apple):
    a, b, z = numbers(), numbers(5), hiprt.zeros(COUNT)
    kernel = Kernel("shift", inputs={"x": "float"}, outputs={"out": "float"}, scalars={"by": "float"},
                    source="uint i = thread_position_in_grid.x; out[i] = x[i] + by;", threads=250)  # fmt: skip

    def record(x, by):
        with apple.record() as recording:
            kernel(apple, (COUNT // 250, 1, 1), (250, 1, 1), x=x, out=z, by=by)
            add(z, a, out=z)
        return recording

    replay = Replay(record(a, 1.0), apple)
    replay.launch()
    assert replay.patch(record(a, 1.0)) == 0
    expect(z, np.arange(COUNT) * 2 + 1)
    for x, by, start in ((b, 1.0, 6), (b, 2.0, 7), (a, 3.0, 3)):
        replay.launch()
        assert replay.patch(record(x, by)) == 1
        replay.launch()
        expect(z, np.arange(COUNT) * 2 + start)
    with apple.record() as other:
        add(z, a, out=z)
    with pytest.raises(ValueError, match="other kernels"):
        replay.patch(other)


def test_a_replay_keeps_its_memory(apple):
    a = numbers()
    with apple.record() as recording:
        out = add(add(a, a), numbers_of(apple, 3))
    replay = Replay(recording, apple)
    del a, recording
    fillers = [hiprt.full(COUNT, 9.0) for _ in range(8)]
    replay.launch()
    expect(out, np.arange(COUNT) * 2 + 3)
    for filler in fillers:
        expect(filler, np.full(COUNT, 9))


def numbers_of(apple, value):
    """An array that was made outside the recording."""
    made = hiprt.full(COUNT, value, stream=MetalStream(apple.device))
    assert made.buffer.owner is apple.device.heap
    return made


def test_what_metal_cannot_run_is_refused(apple, stream):
    a = numbers()
    elsewhere = hiprt.zeros(COUNT, stream=stream)
    add(a, elsewhere)
    with pytest.raises(ValueError, match="not in the heap"):
        apple.flush()
    kernel = Kernel("wide", outputs={"out": "float"}, source="out[0] = 1;", threads=64, is_varied=True)
    kernel(apple, (1, 1, 1), (65, 1, 1), out=a)
    with pytest.raises(ValueError, match=r"Thread group size \(65\)"):
        apple.flush()
    expect(a, np.arange(COUNT))
    kernel.bind((), stream.device)(apple, (1, 1, 1), (1, 1, 1), a)
    with pytest.raises(ValueError, match="not compiled for Metal"):
        apple.flush()


def test_a_recorded_step_cannot_be_left(apple):
    a = numbers()
    with pytest.raises(RuntimeError, match="while a step is recorded"), apple.record():
        add(a, a).numpy()
    expect(add(a, a), np.arange(COUNT) * 2)
    with apple.record() as recording:
        add(a, a)
    with pytest.raises(ValueError, match="made for"):
        Replay(recording, apple).launch(MetalStream(apple.device))


def test_a_step(apple):
    calls = []

    def function(a, n):
        calls.append(n)
        return add(add(a, a), a)

    step = Step(function, stream=apple)
    a, b = numbers(), numbers(1)
    for start, array in ((0, a), (0, a), (3, b), (0, a)):
        expect(step(array, 1), np.arange(COUNT) * 3 + start)
    assert calls == [1, 1]
    assert (step.rungs["instantiate"], step.rungs["replay"], step.nodes) == (2, 2, 2)
    outer = Step(lambda a: add(step(a, 1), a), stream=apple)
    expect(outer(a), np.arange(COUNT) * 4)
    expect(outer(a), np.arange(COUNT) * 4)
    assert (outer.rungs["instantiate"], outer.nodes, calls) == (1, 3, [1, 1, 1])
    with flags.override(graph=False):
        expect(step(a, 1), np.arange(COUNT) * 3)
    assert step.rungs["eager"] == 1


def test_a_step_whose_argument_varies(apple):
    step, a = Step(lambda a, by: multiply(a, by), stream=apple, varying={"by": np.float32}), numbers()
    for by in (2.0, 3.0, 0.5):
        expect(step(a, by), np.arange(COUNT) * by)
    assert (step.rungs["instantiate"], step.rungs["replay"]) == (1, 2)
    expect(step.eager(a, 4.0), np.arange(COUNT) * 4)


def test_the_oldest_replay_is_dropped(apple):
    a, b, c = numbers(), numbers(1), numbers(2)
    step = Step(lambda x: add(x, x), stream=apple)
    with flags.override(graph_keys=2):
        for array, start in ((a, 0), (b, 2), (a, 0), (c, 4), (a, 0), (b, 2)):
            expect(step(array), np.arange(COUNT) * 2 + start)
    assert (step.rungs["instantiate"], step.rungs["replay"]) == (4, 2)


def test_the_device(apple):
    device = apple.device
    assert (device.name, device.provider.name, device.warp_size) == ("Apple M4", "metal", 32)
    assert device.index < 0
    with pytest.raises(NotImplementedError):
        device.synchronize()


def test_a_step_that_reads_on_the_host(apple):
    def function(a):
        b = add(a, a)
        part = float(b[1:2].numpy()[0])
        return add(b, b), part

    step, a = Step(function, stream=apple), numbers()
    for _ in range(2):
        out, part = step(a)
        expect(out, np.arange(COUNT) * 4)
        assert part == 2.0
    assert (step.rungs["eager"], step.rungs["instantiate"]) == (2, 0)


def test_a_step_that_fails(apple):
    a = numbers()

    def function():
        add(a, a, out=a)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        Step(function, stream=apple)()
    expect(a, np.arange(COUNT))


programs = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=25)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(programs, st.integers(0, 100))
def test_any_program_replayed_equals_numpy(stream, program, seed):
    with MetalStream(open_device(1 << 20, Metal(stream, seed))) as apple, hiprt.use_stream(apple):
        host = [np.arange(64, dtype=np.float32) + k for k in range(5)]
        arrays = [hiprt.array(x) for x in host]
        with apple.record() as recording:
            for i, j, k in program:
                add(arrays[i], add(arrays[j], arrays[i]), out=arrays[k])
        replay = Replay(recording, apple)
        for _ in range(2):
            replay.launch()
            for i, j, k in program:
                host[k] = host[i] + (host[j] + host[i])
        for array, values in zip(arrays, host):
            np.testing.assert_array_equal(array.numpy(), values)


def test_no_hip_library_is_asked(apple, monkeypatch):
    """macOS has no HIP library. Only the fake itself uses one here."""
    kernel = metal_kernel("mine", ["x"], ["out"], "uint i = thread_position_in_grid.x; out[i] = x[i] + x_shape[0];")

    def user(x):
        sizes = {"grid": (COUNT, 1, 1), "threadgroup": (64, 1, 1)}
        return kernel(inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], init_value=1, **sizes)[0]

    user(add(numbers(), numbers())[::-1]).numpy()

    def refuse():
        raise AssertionError("a HIP library was asked for")

    monkeypatch.setattr(library, "hip", refuse)
    monkeypatch.setattr(library, "current", refuse)
    a = hiprt.zeros(COUNT)
    a.set(np.arange(COUNT))
    with apple.record() as recording:
        b = add(add(a, a), a)
    Replay(recording, apple).launch()
    expect(add(b, a), np.arange(COUNT) * 4)
    expect(user(a[::-1]), np.arange(COUNT)[::-1] + COUNT)
    new_stream(apple.device).close()


def test_text_that_does_not_compile(apple):
    kernel = Kernel("wrong", outputs={"out": "float"}, source="out[0] = nothing;")
    with pytest.raises(CompileError, match="nothing"):
        kernel(apple, (1, 1, 1), (1, 1, 1), out=numbers())


def test_a_failure_of_the_gpu(apple, metal):
    a = numbers()
    metal.device.outcome = FACTS["constants"]["MTLCommandBufferStatusError"]
    add(a, a)
    with pytest.raises(HipError, match="the GPU gave up"):
        apple.synchronize()


def test_memory_runs_out_and_comes_back(apple):
    heap = apple.device.heap
    with pytest.raises(OutOfMemoryError, match=r"Heap\.allocate"):
        hiprt.empty(1 << 20)
    pieces = [heap.allocate(256, apple) for _ in range(heap.nbytes // 256)]
    with pytest.raises(OutOfMemoryError):
        heap.allocate(1, apple)
    del pieces[::2]
    with pytest.raises(OutOfMemoryError):
        heap.allocate(257, apple)
    pieces.clear()
    assert heap.allocate(heap.nbytes, apple).nbytes == heap.nbytes


def test_a_heap_of_several_buffers(metal, monkeypatch):
    """No piece of the heap reaches over the end of a buffer, and steps use all buffers."""
    monkeypatch.setattr(heap_module, "CHUNK", 1 << 15)
    with MetalStream(open_device(1 << 17, metal)) as apple, hiprt.use_stream(apple):
        heap = apple.device.heap
        assert len(heap.buffers) == 4
        arrays = [numbers(k) for k in range(9)]
        assert [heap.place(x.address)[0] for x in arrays] == [0] * 8 + [1]
        with pytest.raises(OutOfMemoryError):
            heap.allocate((1 << 15) + 1, apple)
        with apple.record() as recording:
            total = add(arrays[0], arrays[8])
        replay = Replay(recording, apple)
        replay.launch()
        expect(total, np.arange(COUNT) * 2 + 8)
        del replay, recording, total, arrays
        assert heap.starts == heap.bases


def test_a_heap_that_metal_refuses(metal):
    with pytest.raises(OutOfMemoryError, match="no heap of"):
        open_device(1 << 40, metal)


def test_metal_is_imported_on_macos_only_and_when_needed():
    code = "import sys, hiprt.metal_compat.apple; assert not {'Metal', 'objc'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(ProviderError, match="macOS only"):
        open_device()


@given(st.lists(st.lists(st.integers(1, 8), max_size=3), max_size=30))
def test_every_edge_has_a_barrier_on_its_way(distances):
    dependencies = [sorted({i - d for d in back if i >= d}) for i, back in enumerate(distances)]
    places = [i for i, is_behind in enumerate(barriers(dependencies)) if is_behind]
    for i, earlier in enumerate(dependencies):
        assert all(any(k < place <= i for place in places) for k in earlier)
    for place in places:
        first = max((p for p in places if p < place), default=0)
        assert any(k >= first for k in dependencies[place]), "a barrier that no edge needs"
