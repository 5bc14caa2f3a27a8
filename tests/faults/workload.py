"""What runs while calls fail: phases, each a function that makes all that it uses and returns its results' bytes."""

import gc
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
from helpers import foreign as other_code
from safetensors.numpy import save_file

import hiprt
from hiprt import allocator, core, graphs, hip, kernels
from hiprt.bench.engine.models.upload import Upload
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.flags import flags
from hiprt.graphs.block import ladders
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.trace import lazy as lazy_programs
from hiprt.graphs.trace.core import cut
from hiprt.kernels import hip_kernel
from hiprt.loaded_modules import modules
from hiprt.metal_compat import mlx as mx

AXPY = """
extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
ARGUMENTS = {"x": "read float32", "y": "update float32", "a": "float32", "n": "int32"}
axpy = hip_kernel(AXPY, "axpy", ARGUMENTS)
N = 100


def start():
    """Return two arrays."""
    return hiprt.array(np.arange(N, dtype=np.float32)), hiprt.zeros(N)


def joined(*arrays):
    """Return the bytes of arrays."""
    return b"".join(array.numpy().tobytes() for array in arrays)


def kept():
    """A step that is replayed, one that returns copies, one whose arrays take turns, one that a host read splits."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = start()

        def token():
            for a in (1.0, 2.0, 3.0):
                axpy(x, y, a, N, threads=N)
            return y

        step, out = graphs.Step(token), []
        for _ in range(3):
            out.append(step())
        copies = graphs.Step(lambda a, b: kernels.add(kernels.add(a, b), b))
        out += [copies(x, y) for _ in range(2)]
        moves = graphs.Step(kernels.add, moves=True)
        turns = [hiprt.full(N, float(i), np.float32) for i in range(3)]
        out += [moves(turns[i], y) for i in (0, 1, 2, 0, 1, 2)]

        def reads():
            axpy(x, y, 0.25, N, threads=N)
            axpy(x, y, float(y.numpy()[1]), N, threads=N)
            return y

        split = graphs.Step(reads)
        out += [split(), split()]
        return joined(*out)


def recorded():
    """Steps that are recorded each time, with other values, by patch and by update alone; topologies; a budget."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = start()
        values = [1.0, 3]

        def token():
            for k in range(6):
                axpy(x, y, values[0] if k < values[1] else 1.0, N, threads=N)

        def run(step, times):
            for i in range(times):
                values[:] = [float(i % 3), 3 if i % 2 else 6]
                step()

        for rung in ("patch", "update"):
            with flags.override(graph_rungs=("replay", rung, "instantiate", "eager")):
                run(graphs.Step(token, keep=False), 4)
        with flags.override(graph_update_budget=8):
            run(graphs.Step(token, keep=False), 5)

        def grows(n):
            for _ in range(n):
                axpy(x, y, 0.5, N, threads=N)
            y[:4].copy_from(x[4:8])
            hiprt.zeros(8)

        step = graphs.Step(grows)
        for n in (1, 2, 1):
            step(n)
        for i in range(2):
            with graphs.step("block", stream=stream):
                axpy(x, y, float(i), N, threads=N)
                z = kernels.add(x, y)
        return joined(y, z)


def pool():
    """Memory of many sizes, two streams, a take-over, a trim, and events."""
    with hiprt.Stream() as one, hiprt.Stream() as two:
        begin, end = hiprt.Event(), hiprt.Event()
        begin.record(one)
        with hiprt.use_stream(one):
            held = [hiprt.full(n, float(i), np.float32) for i, n in enumerate((1, 5000, 300_000, 1_000_000))]
        sums = [float(each.numpy(one).sum(dtype=np.float64)) for each in held]
        end.record(one)
        end.wait(two)
        del held
        with hiprt.use_stream(two):
            held = [hiprt.full(n, 2.0, np.float32) for n in (1_000_000, 5000)]
        sums += [float(each.numpy(two).sum(dtype=np.float64)) for each in held]
        end.synchronize()
        assert end.elapsed_ms(begin) >= 0
        del held
        allocator.default_pool.trim()
        return np.array(sums).tobytes()


def unloading():
    """Modules that are loaded, launched, let go of and unloaded."""
    out = []
    with flags.override(cache_modules=0), hiprt.Stream() as stream, hiprt.use_stream(stream):
        for i in range(2):
            y = hiprt.zeros(N)
            source = f'extern "C" __global__ void f(float* y) {{ y[threadIdx.x] += {i + 1}.0f; }}'
            kernel = hip_kernel(source, "f", {"y": "update float32"})
            kernel(y, threads=N, block=N)
            step = graphs.Step(lambda kernel=kernel, y=y: kernel(y, threads=N, block=N))
            step()
            step()
            out.append(y)
            del kernel, step
            gc.collect()
            modules.sweep()
        return joined(*out)


def foreign():
    """Other code's work in steps: kernels, copies and fills, declared and not, forked streams, other arguments."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = hiprt.array(np.arange(N, dtype=np.uint32)), hiprt.zeros(N, np.uint32)
        side, factor = other_code.Side(), 1

        def token():
            kernels.add(x, x, out=x)
            other_code.affine(stream.handle, y, x, factor)
            kernels.add(x, y, out=y)
            with graphs.capture(reads=[x], writes=[y]):
                other_code.affine_packed(stream.raw, y, x, factor)
                side.fork.between(stream.raw, side.handle)
                other_code.pair(side.handle, y, factor)
                other_code.copy(side.handle, x, y)
                side.join.between(side.handle, stream.raw)
            with graphs.capture():
                other_code.fill(stream.raw, y[:8], 7)

        for keep in (True, False):
            step = graphs.Step(token, keep=keep)
            for i in range(3):
                factor = 1 if keep else i
                step()
        return joined(x, y)


def upload():
    """Arrays of a checkpoint's file and of the host, which threads read into pinned memory and copy from there."""
    rows = np.arange(3 * 7000, dtype=np.float32).reshape(7000, 3)
    with tempfile.TemporaryDirectory() as folder, hiprt.Stream() as stream, hiprt.use_stream(stream):
        path = Path(folder, "model.safetensors")
        save_file({"a": rows, "b": rows[:9]}, path)
        file, added = SafetensorsFile(path), []
        copy = Upload(4 * rows.nbytes, lambda *counts: None, [file])
        copy.size = 4096
        try:
            made = [copy(each) for each in (file["a"], rows + 1, file["b"])]
            copy.then(lambda: added.append(kernels.add(made[0], made[1])))
            copy.wait()
        finally:
            copy.close()
        return joined(*made, *added)


def compiled():
    """Functions that are traced, fused and compiled, for other shapes again, with a write in place and by buckets."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = start()

        def plain(a, b):
            return kernels.multiply(kernels.add(kernels.exp(kernels.multiply(a, 0.01)), b), 2.0), kernels.softmax(a)

        function = hiprt.compile(plain)
        out = [each for args in ((x, y), (x, x), (x[:10], y[:10])) for each in function(*args)]
        within = hiprt.compile(lambda a, b: kernels.add(a, b, out=b))
        out += [within(x, y), within(x, y)]
        return joined(*out)


def lazy():
    """A program of mlx.core: graphs that are cut from what it keeps, the same ones again, and writes by index."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, total = mx.arange(N).astype(mx.float32), mx.zeros((N,))
        for i in range(4):
            total = mx.add(total, mx.softmax(x * 0.5) + mx.exp(-x))
            total[i] = 3.0
            mx.eval(total)
        deep = x
        for _ in range(70):
            deep = deep * 0.5 + x
        return np.array(total).tobytes() + np.array(deep.sum() + total[3]).tobytes()


def once():
    """Steps that count. One that failed has run nothing, unless its error says that its outputs are undefined."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, y = hiprt.full(N, 1.0, np.float32), hiprt.zeros(N)

        def token():
            axpy(x, y, 1.0, N, threads=N)
            return kernels.add(x, y)

        def reads():
            axpy(x, y, 1.0, N, threads=N)
            y.numpy()
            axpy(x, y, 1.0, N, threads=N)

        def run(step):
            before = float(y.numpy()[0])
            try:
                step()
            except UndefinedOutputsError:
                raise
            except (HipError, MemoryError):
                with suppress(HipError, MemoryError):
                    assert float(y.numpy()[0]) == before, "it has run, and the error does not say so"
                raise

        for step in (graphs.Step(token), graphs.Step(token, keep=False), graphs.Step(reads)):
            for _ in range(4):
                run(step)
        return joined(y)


def first():
    """The first graph of a process: the device is probed."""
    from hiprt.allocator import driver
    from hiprt.graphs.launch import probes, trust

    for known in (probes.results, probes.asked, trust.decided, driver.found, driver.asked):
        known.clear()
    with tempfile.TemporaryDirectory() as folder, flags.override(cache_dir=folder):
        x, y = start()
        step = graphs.Step(lambda: axpy(x, y, 2.0, N, threads=N))
        for _ in range(3):
            step()
        return joined(y)


def swallowing():
    """A function that goes on after a launch could not be recorded: what was recorded is what succeeded, in order."""
    sources, y = [hiprt.zeros(N) for _ in range(300)], hiprt.zeros(N)
    launch, recorded = Recording(), 0
    with hiprt.Stream() as stream, hiprt.use_stream(stream), launch.record(stream):
        for x in sources:
            with suppress(HipError):
                axpy(x, y, 1.0, N, threads=N)
                recorded += 1
    edges = all(node == ([i - 1] if i else []) for i, node in enumerate(launch.dependencies()))
    return b"right" if edges and len(launch) == recorded else b"wrong"


def full():
    """A cut of as many primitives as the C core's table of them holds before it grows."""
    x = total = mx.zeros((N,))  # one of them
    for _ in range(127):
        total = total + x
    key, primitives, *_ = cut([total.value])
    return bytes([len(primitives), len(key) % 256])


def leaky():
    """A phase with mistakes, by which the tests see that mistakes are found."""
    y = hiprt.zeros(N)
    first, second = core.ffi.new("hiprt_stream **"), core.ffi.new("hiprt_stream **")
    core.call(core.lib.hiprt_stream_create(0, 0, first))
    core.call(core.lib.hiprt_stream_create(0, 0, second))
    for each in (second, first):
        core.lib.hiprt_stream_release(each[0])
    before = hip.handle(hip.lib.hipEventCreateWithFlags, 0)
    try:
        hip.call(hip.lib.hipEventRecord(before, hiprt.current_stream().handle))
    except HipError:
        return b"wrong"
    hip.call(hip.lib.hipEventSynchronize(before))
    hip.call(hip.lib.hipEventDestroy(before))
    return joined(y)


PHASES = {"kept": kept, "recorded": recorded, "foreign": foreign, "pool": pool, "unloading": unloading, "first": first}
PHASES |= {"upload": upload, "compiled": compiled, "lazy": lazy, "once": once, "swallowing": swallowing, "leaky": leaky}
PHASES |= {"full": full}


def tidy():
    """Let go of everything that a phase may have left."""
    ladders.clear()
    lazy_programs.forget_gone()
    gc.collect()
    modules.sweep()
    gc.collect()
    allocator.trim()
