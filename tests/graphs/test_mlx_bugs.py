"""The graph bugs that MLX's ROCm fork and its CUDA backend have had, one test each, so that they are not made here."""

import gc
import re
import threading
from collections import Counter

import numpy as np
import pytest
from helpers.kernels import accumulate, launch, mix, scale
from helpers.recorder import Program

import hiprt
from hiprt import graphs
from hiprt.compiler import compile_source
from hiprt.graphs import Exec, Recording

WRITE = 2


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(256, dtype=np.float32))


def test_bug_01_arguments_outlive_the_call(stream, x):
    """The kernelParams pointed at dead locals. Argument values are copied when the node is made."""
    out = hiprt.empty(256)
    recording = Recording()
    with recording.record(stream):
        launch("scale", x, out, 3.0, size=256)
    exec_ = Exec(recording, stream.device.index)
    clobber = [bytes(range(256)) * 100 for _ in range(100)]
    exec_.launch(stream)
    np.testing.assert_array_equal(out.numpy(), np.arange(256, dtype=np.float32) * 3)
    assert len(clobber) == 100


def test_bug_02_same_topology_other_function(stream, x):
    """The key held node types only, so another kernel's exec was reused."""
    out = hiprt.zeros(256)
    kernels = [lambda: launch("accumulate", x, out, size=256), lambda: launch("scale", x, out, 5.0, size=256)]
    for kernel in [*kernels, *kernels]:
        with graphs.step("bug 2", stream=stream):
            kernel()
    np.testing.assert_array_equal(out.numpy(), np.arange(256, dtype=np.float32) * 5)


def test_bug_03_same_product_other_grid():
    """The key held the product of the grid's dimensions."""
    a, b = Program(), Program()
    a.kernel((0, 8, WRITE), grid=(2097152, 1, 1))
    b.kernel((0, 8, WRITE), grid=(1024, 2048, 1))
    assert not a.same_key(b)


def test_bug_04_buffers_freed_before_the_launch(stream, x):
    """A temporary was freed while the graph was built, and its memory was reused before the launch."""

    def function():
        for factor in (1.0, 2.0, 3.0):
            mix(scale(x, factor), x)
        return scale(x, 4.0)

    step = graphs.Step(function, stream=stream)
    result = step()
    others = [hiprt.array(np.full(256, -1, np.float32)) for _ in range(8)]
    np.testing.assert_array_equal(result.numpy(), np.arange(256, dtype=np.float32) * 4)
    step()
    for other in others:
        np.testing.assert_array_equal(other.numpy(), np.full(256, -1, np.float32))


def test_bug_05_every_edge_is_there(stream, x):
    """Wrong output with more than two nodes was blamed on the runtime; edges were missing."""

    def function():
        values = [scale(x, float(i)) for i in range(12)]
        while len(values) > 1:
            values = [mix(a, b) for a, b in zip(values[::2], values[1::2])] + values[len(values) // 2 * 2 :]
        return values[0]

    expected = function().numpy()
    step = graphs.Step(function, stream=stream)
    for _ in range(50):
        np.testing.assert_array_equal(step().numpy(), expected)


def test_bug_06_undeclared_output_is_a_barrier(stream, x):
    """A kernel's output was never registered. Without a declared output a node is a barrier."""
    code, _ = compile_source(
        'extern "C" __global__ void fill(unsigned long long at, int n) {'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) ((float*)at)[i] = 7.0f; }",
        "undeclared.hip",
    )
    arguments = [hiprt.Argument("at", hiprt.module.SCALAR, "uint64"), hiprt.Argument("n", hiprt.module.SCALAR, "int32")]
    undeclared = hiprt.Function(hiprt.Module(code), "fill", arguments)
    out = hiprt.empty(256)

    def function():
        launch("scale", x, out, 2.0, size=256)
        undeclared(stream, (4, 1, 1), (64, 1, 1), out.address, 256)
        return scale(out, 2.0)

    step = graphs.Step(function, stream=stream)
    for _ in range(20):
        np.testing.assert_array_equal(step().numpy(), np.full(256, 14, np.float32))


def test_bug_07_exec_in_flight_is_not_changed(stream):
    """The only exec of a key was patched while an earlier launch of it still ran."""
    x, factor = hiprt.array(np.ones(1 << 16, np.float32)), 0.0
    outs = [hiprt.empty(1 << 16) for _ in range(24)]

    for i, out in enumerate(outs):
        with graphs.step("bug 7", stream=stream) as ladder:
            y = x
            for _ in range(6):
                y = scale(y, 1.0)
            factor = float(i)
            launch("scale", y, out, factor, size=1 << 16)
    for i, out in enumerate(outs):
        np.testing.assert_array_equal(out.numpy(), np.full(1 << 16, i, np.float32))
    assert max(Counter(exec_.recording.key for exec_ in ladder.execs).values()) <= hiprt.flags.graph_slots


def test_bug_08_no_splits_in_a_step_of_kernels(stream, x):
    """A token had 320 splits, because compiled kernels were launched eagerly. Splits are counted; here are none."""
    step = graphs.Step(lambda: mix(scale(x, 2.0), x), stream=stream)
    for _ in range(3):
        step()
    assert not [reason for reason in step.reasons if reason.startswith("split")]


def test_bug_09_one_source_for_each_flag(root):
    """A default was read from the environment in two places. One file reads HIPRT_* variables."""
    for package in ("hiprt", "graphs", "allocator", "kernels", "bench"):
        for file in (root / package).glob("**/*.py"):
            if file.name not in ("flags.py", "build.py"):
                text = file.read_text()
                assert not re.search(r'environ\["HIPRT_\w+"\](?! =)', text), file
                assert 'environ.get("HIPRT' not in text, file


def test_bug_10_and_11_memory_is_steady(stream, x):
    """Frees were deferred for ever (30.7 GB instead of 19.9), and later hoarded (34 GB on a 32 GB card)."""
    from hiprt.allocator import default_pool

    def run(count):
        for i in range(count):
            with graphs.step("bug 10", stream=stream):
                y = x
                for _ in range(4):
                    y = scale(y, float(i))
        stream.synchronize()
        gc.collect()
        return default_pool.stats()

    warm = run(20)
    assert run(200) == warm


def test_bug_12_reuse_after_a_free_waits_for_its_users(stream):
    """The lagged release gave memory away that a later chunk still used. Reuse is in stream order."""
    size, results = 1 << 16, []
    for i in range(30):
        a = hiprt.array(np.full(size, i, np.float32))
        results.append(scale(scale(a, 2.0), 0.5))
        del a
        hiprt.array(np.full(size, -5, np.float32))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.full(size, i, np.float32))


def test_bug_13_no_child_graphs(stream, x):
    """ExecUpdate left the kernels of child graphs stale. Nested steps become nodes of the outer one."""
    factor = 1.0
    out = hiprt.empty(256)

    def function():
        inner()
        inner()

    inner = graphs.Step(lambda: launch("scale", x, out, factor, size=256), stream=stream)
    outer = graphs.Step(function, stream=stream, keep=False)
    for factor in (1.0, 2.0, 3.0):
        outer()
        np.testing.assert_array_equal(out.numpy(), np.arange(256, dtype=np.float32) * factor)
    assert {node.kind for node in outer.recordings[0].nodes()} == {"kernel"}


def test_bug_14_structures_by_value_survive_a_patch(stream):
    """SetParams corrupted kernels with structures by value (copy_gg_byval)."""
    code, _ = compile_source(
        "struct P { int shape[3]; long stride; float by; char tail; };"
        'extern "C" __global__ void take(float* out, P p, int last) {'
        "  out[0] = p.shape[2]; out[1] = (float)p.stride; out[2] = p.by; out[3] = p.tail; out[4] = last; }",
        "structure.hip",
    )
    names, formats, offsets = ["shape", "stride", "by", "tail"], ["3i4", "i8", "f4", "i1"], [0, 16, 24, 28]
    layout = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": 32})
    take = hiprt.Function(
        hiprt.Module(code),
        "take",
        [
            hiprt.Argument("out", WRITE),
            hiprt.Argument("p", hiprt.module.SCALAR, "bytes", size=32, alignment=8),
            hiprt.Argument("last", hiprt.module.SCALAR, "int32"),
        ],
    )
    out = hiprt.zeros(5)
    for i in range(5):
        value = np.zeros((), layout)
        value["shape"], value["stride"], value["by"], value["tail"] = (1, 2, 3 + i), 10 + i, 0.5 * i, i
        with graphs.step("bug 14", stream=stream) as ladder:
            take(stream, (1, 1, 1), (1, 1, 1), out, value.tobytes(), 100 + i)
        np.testing.assert_array_equal(out.numpy(), [3 + i, 10 + i, 0.5 * i, i, 100 + i])
    assert ladder.stats.rungs["patch"] + ladder.stats.rungs["update"] == 4


def test_bug_15_zero_sized_work_is_left_out(stream, x):
    """AddKernelNode refuses a grid of zero. Nothing is launched, and what is ordered around it stays so."""
    empty = hiprt.empty(0)

    def function():
        y = scale(x, 2.0)
        launch("scale", empty, empty, 1.0, size=0)
        return scale(y, 2.0)

    step = graphs.Step(function, stream=stream)
    np.testing.assert_array_equal(step().numpy(), np.arange(256, dtype=np.float32) * 4)
    assert step.nodes == 2


def test_bug_16_instantiating_while_a_replay_runs(stream, x):
    """Making an exec while a replay ran hung. Here two threads do both at once."""
    kept = graphs.Step(lambda: mix(scale(x, 2.0), x), stream=stream)
    expected = kept().numpy()
    failures = []

    def instantiate():
        try:
            with hiprt.Stream() as own, hiprt.use_stream(own):
                for n in range(30):
                    y = hiprt.zeros(64)
                    step = graphs.Step(lambda y=y, n=n: [accumulate(y, y) for _ in range(n + 1)], stream=own)
                    step()
                own.synchronize()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=instantiate)
    thread.start()
    while thread.is_alive():
        np.testing.assert_array_equal(kept().numpy(), expected)
    thread.join()
    assert not failures


def test_bug_17_warnings_are_errors_in_the_build(root):
    """Code that did not compile everywhere. Warnings are errors for all native code."""
    text = (root / "hiprt" / "native" / "build.py").read_text()
    assert 'WARNINGS = ["-Wall", "-Wextra", "-Werror"]' in text
    assert "*WARNINGS" in text


def test_bug_18_worker_thread_uses_the_stream_s_device(stream, x):
    """The device was not set before a launch from another thread (G11)."""
    step = graphs.Step(lambda: scale(x, 2.0), stream=stream)
    expected = step().numpy()
    results = []
    thread = threading.Thread(target=lambda: results.append(step().numpy(stream)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(results[0], expected)


def test_bug_18_exec_dropped_in_flight(stream):
    """An exec was destroyed while it ran. Destruction waits for the last launch."""
    x = hiprt.array(np.ones(1 << 18, np.float32))
    results = []
    for i in range(10):
        step = graphs.Step(lambda i=i: scale(scale(scale(x, 1.0), 1.0), float(i)), stream=stream)
        results.append(step())
        del step
    gc.collect()
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.full(1 << 18, i, np.float32))


def test_bug_18_grids_beyond_65535_blocks(stream):
    """The error was 'cudaGraphAddKernelNode invalid argument' for a grid that is too big in one dimension."""
    size = 70000 * 64
    x = hiprt.array(np.ones(size, np.float32))
    step = graphs.Step(lambda: scale(x, 3.0), stream=stream)
    assert step().numpy()[-1] == 3.0
