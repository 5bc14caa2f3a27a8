"""Work of other code on the stream of a step while it records (G14): it becomes nodes, or an error."""

import ctypes
import gc
import json

import numpy as np
import pytest
from helpers import foreign
from helpers.child import child

import hiprt
from hiprt import core, flags, graphs, kernels as k, library
from hiprt.errors import HipError
from hiprt.hip import call, lib
from hiprt.loaded_modules import modules

N = 300
START = np.arange(N, dtype=np.uint32)
PROFILES = ("cuda", "clr-6.2", "clr-6.4", "clr-7.2", "clr-7.13", "clr-10", "paranoid")
# How a program may let other code work in a step.
WAYS = ("naive", "kept handle", "barrier", "declared", "packed", "structure")


def work(way, handle, y, x, m):
    """y = x * m + 1 by other code, in one of the ways."""
    step = graphs.capture
    if way == "naive":
        foreign.affine(hiprt.current_stream().handle, y, x, m)
    elif way == "kept handle":
        foreign.affine(handle, y, x, m)
    elif way == "barrier":
        with step():
            foreign.affine(handle, y, x, m)
    elif way == "declared":
        with step(reads=[x], writes=[y]):
            foreign.affine(handle, y, x, m)
    elif way == "packed":
        foreign.affine_packed(hiprt.current_stream().handle, y, x, m)
    else:
        with step(reads=[x], writes=[y]):
            foreign.copy(handle, y, x)
            foreign.pair(handle, y, m)


def chain(way, stream, keep):
    """A step in which other code works between launches of ours: what it gives, call by call."""
    handle = stream.handle
    x, y, state, m = hiprt.array(START), hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32), 3

    def function():
        k.add(x, x, out=x)
        work(way, handle, y, x, m)
        k.add(y, state, out=state)
        return k.add(state, x)

    step = graphs.Step(function, name=f"chain {way}", stream=stream, keep=keep)
    results = []
    for i in range(6):
        m = 3 if keep else 3 + i // 2
        results.append(step().numpy(stream=stream))
    return step, results


def expected(keep):
    x, state, results = START.copy(), np.zeros(N, np.uint32), []
    for i in range(6):
        x = x + x
        state = state + x * np.uint32(3 if keep else 3 + i // 2) + np.uint32(1)
        results.append(state + x)
    return results


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_foreign_work_becomes_nodes(stream, way, keep):
    step, results = chain(way, stream, keep)
    assert np.array_equal(results, expected(keep))
    recording = step.recordings[0]
    assert recording.foreign == (2 if way == "structure" else 1)
    assert step.nodes == 3 + recording.foreign
    assert step.rungs["eager"] == 0
    assert step.rungs["replay"] >= (4 if keep else 1)
    # Other arguments are patched.
    assert keep or step.rungs["patch"] + step.rungs["update"] >= 1


@pytest.mark.parametrize("way", WAYS)
def test_it_runs_eagerly_too(stream, way):
    """Nodes of other code are launched one by one, in order, where no graph may be made (G8)."""
    with flags.override(graph_rungs=("eager",)):
        step, results = chain(way, stream, False)
    assert np.array_equal(results, expected(False))
    assert step.rungs["eager"] == 6


@pytest.mark.parametrize("way", WAYS)
def test_it_is_verified_or_said_not_to_be(stream, way, caplog):
    with flags.override(graph_verify=True):
        _, results = chain(way, stream, False)
    assert np.array_equal(results, expected(False))
    assert ("not compared" in caplog.text) == (way not in ("declared", "structure"))


def test_steps_that_are_off_run_it_at_once(stream):
    with flags.override(graph=False):
        for way in WAYS:
            assert np.array_equal(chain(way, stream, True)[1], expected(True))


def test_a_block_of_other_code_in_a_block_of_launches(stream):
    x, y = hiprt.array(START), hiprt.zeros(N, np.uint32)
    for factor in (3, 4, 4):
        with graphs.step("block of launches", stream=stream) as step:
            k.add(x, x, out=x)
            with step.capture(reads=[x], writes=[y]):
                foreign.affine(stream.handle, y, x, factor)
            k.add(y, x, out=y)
        assert np.array_equal(y.numpy(stream=stream), x.numpy(stream=stream) * np.uint32(factor + 1) + 1)


def edges(recording):
    return {(before, i) for i, node in enumerate(recording.nodes()) for before in node.dependencies}


def test_edges_follow_what_is_declared(stream):
    """Node 1 makes what other code reads, and 5 reads what that writes; 0, 2 and 4 have nothing to do with it."""
    a, b, c, y = (hiprt.array(START + i) for i in range(4))
    x, z = hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32)

    def function(**declared):
        k.add(a, b, out=c)
        k.add(a, b, out=x)
        k.add(a, b, out=z)
        with graphs.capture(**declared):
            foreign.affine(stream.handle, y, x)
        k.add(z, c, out=c)
        k.add(y, y, out=x)

    known = graphs.Step(lambda: function(reads=[x], writes=[y]), stream=stream)
    known()
    assert edges(known.recordings[-1]) == {(1, 3), (0, 4), (2, 4), (3, 5)}
    unknown = graphs.Step(function, stream=stream)
    unknown()
    assert edges(unknown.recordings[-1]) == {(0, 3), (1, 3), (2, 3), (3, 4), (3, 5)}


def test_work_of_other_code_keeps_its_order(stream):
    """Libraries share workspaces that nobody declares: their work is not put side by side."""
    x, y, z, hidden = hiprt.array(START), *(hiprt.zeros(N, np.uint32) for _ in range(3))

    def function():
        for out in (y, z):
            with graphs.capture(reads=[x], writes=[out]):
                foreign.affine(stream.handle, hidden, x, 2)
                foreign.affine(stream.handle, out, hidden, 3)

    step = graphs.Step(function, stream=stream)
    step()
    assert edges(step.recordings[0]) == {(0, 1), (1, 2), (2, 3)}
    assert np.array_equal(z.numpy(stream=stream), START * 6 + 4)


def test_copies_and_fills_are_plain_nodes(stream):
    x, y, z = hiprt.array(START), hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32)

    def function():
        foreign.copy(stream.handle, y, x)
        foreign.fill(stream.handle, z, 7)
        return k.add(y, z)

    step = graphs.Step(function, stream=stream)
    for _ in range(3):
        assert np.array_equal(step().numpy(stream=stream), START + 7)
    nodes = step.recordings[0].nodes()
    assert [(node.kind, node.is_foreign) for node in nodes] == [("copy", True), ("fill", True), ("kernel", False)]


@pytest.mark.parametrize("joined", [True, False])
def test_streams_that_it_forks(stream, joined):
    """A library may work on streams of its own, if it joins them."""
    x, y, z = hiprt.array(START), hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32)
    side = foreign.Side()

    def function():
        main = stream.handle
        foreign.affine(main, y, x, 2, 0)
        side.fork.between(main, side.handle)
        foreign.affine(side.handle, z, y, 3, 0)
        foreign.affine(main, y, y, 5, 0)
        if joined:
            side.join.between(side.handle, main)

    step = graphs.Step(function, stream=stream)
    if joined:
        step()
        step()
        assert step.nodes == 3
        assert np.array_equal(y.numpy(stream=stream), START * 10)
    else:
        with pytest.raises(HipError, match=r"was not joined.*stream\.outside"):
            step()
    assert not foreign.is_captured(stream.handle)
    assert not foreign.is_captured(side.handle)
    assert np.array_equal(graphs.Step(lambda: k.add(x, x), stream=stream)().numpy(stream=stream), START * 2)


def read_of_the_host(stream, x):
    out = np.empty(x.size, np.uint32)
    call(lib.hipMemcpyAsync(out.ctypes.data, foreign.pointer(x), x.nbytes, lib.hipMemcpyDeviceToHost, stream))


def allocation(stream, x):
    foreign.allocate(stream)


def wait(stream, x):
    lib.hipStreamSynchronize(stream)


FORBIDDEN = {
    "a copy from or to the host": read_of_the_host,
    "a function of the host": lambda stream, x: foreign.host_function(stream),
    "allocated or freed in stream order": allocation,
    "a call that a capture forbids": wait,
}


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_cannot_be_a_node_is_an_error_that_says_so(stream, what, declared):
    x, y = hiprt.array(START), hiprt.array(START)

    def function():
        k.add(y, y, out=y)
        if declared:
            with graphs.capture(reads=[x], writes=[x]):
                FORBIDDEN[what](stream.handle, x)
        else:
            FORBIDDEN[what](stream.handle, x)

    stream.handle  # other code has it before the step  # noqa: B018
    step = graphs.Step(function, name="strict", stream=stream, keep=False)
    with pytest.raises(HipError, match=rf"step strict: work of other code.*{what}.*stream\.outside"):
        step()
    # Nothing of the step has run, and the stream serves on.
    assert not foreign.is_captured(stream.handle)
    assert np.array_equal(y.numpy(stream=stream), START)
    assert np.array_equal(graphs.Step(lambda: k.add(x, x), stream=stream)().numpy(stream=stream), START * 2)


@pytest.mark.parametrize("what", FORBIDDEN)
def test_outside_is_for_what_cannot_be_a_node(stream, what):
    x = hiprt.array(START)

    def function():
        with stream.outside("other code"):
            FORBIDDEN[what](stream.handle, x)
        return k.add(x, x)

    assert np.array_equal(graphs.Step(function, stream=stream)().numpy(stream=stream), START * 2)


@pytest.mark.parametrize("caught", [True, False])
def test_an_exception_in_a_block(stream, caught):
    """What was launched before it takes part where the function goes on, as it would have run eagerly."""
    x, y = hiprt.array(START), hiprt.zeros(N, np.uint32)

    def function():
        try:
            with graphs.capture(reads=[x], writes=[y]):
                foreign.affine(stream.handle, y, x, 2, 0)
                raise ZeroDivisionError
        except ZeroDivisionError:
            if not caught:
                raise

    step = graphs.Step(function, stream=stream)
    if caught:
        step()
        step()
    else:
        with pytest.raises(ZeroDivisionError):
            step()
    assert not foreign.is_captured(stream.handle)
    assert np.array_equal(y.numpy(stream=stream), START * 2 if caught else START * 0)


def test_addresses_that_change_are_patched(stream):
    arrays = [hiprt.array(START + i) for i in range(4)]
    out = hiprt.zeros(N, np.uint32)

    def function():
        with graphs.capture(reads=[source], writes=[out]):
            foreign.affine(stream.handle, out, source, 5, 2)

    step = graphs.Step(function, stream=stream, keep=False)
    for source in arrays:
        step()
        assert np.array_equal(out.numpy(stream=stream), source.numpy(stream=stream) * np.uint32(5) + 2)
    assert step.rungs["instantiate"] == 1
    assert step.rungs["patch"] + step.rungs["update"] == 3


def test_arguments_that_move_are_recorded_again(stream):
    """Where other code has the address of an argument is not known, so that it is not patched without the function."""
    y = hiprt.zeros(N, np.uint32)

    def function(x):
        with graphs.capture(reads=[x], writes=[y]):
            foreign.affine(stream.handle, y, x, 2, 0)
        return k.add(y, x)

    step = graphs.Step(function, stream=stream, moves=True)
    for i in range(6):
        x = hiprt.array(START + i)
        assert np.array_equal(step(x).numpy(stream=stream), (START + i) * 3)


def test_an_address_that_is_not_final_is_an_error(stream):
    """An array that the step makes has no memory yet; who asks for the handle first, or captures, gets its address."""
    handle_of_before, x, y = stream.handle, hiprt.array(START), hiprt.zeros(N, np.uint32)

    def early():
        made = k.add(x, x)
        foreign.affine(handle_of_before, y, made)

    def late():
        made = k.add(x, x)
        with graphs.capture(reads=[made], writes=[y]):
            foreign.affine(handle_of_before, y, made)

    with pytest.raises(HipError, match=r"an array that the step made and has no memory for yet.*step\.capture"):
        graphs.Step(early, stream=stream)()
    step = graphs.Step(late, stream=stream)
    for _ in range(3):
        step()
        assert np.array_equal(y.numpy(stream=stream), START * 6 + 1)
    assert step.nodes == 2


def test_streams_that_nobody_has_are_not_captured():
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x, seen = hiprt.array(START), []
        step = graphs.Step(lambda: (k.add(x, x), seen.append(foreign.is_captured(stream.raw)))[0], stream=stream)
        step()
        stream.__cuda_stream__()
        step.forget()
        step()
        with flags.override(graph_foreign=False):
            step.forget()
            step()
    assert seen == [False, True, False]


def test_drawings_show_it(stream, tmp_path):
    x, y = hiprt.array(START), hiprt.zeros(N, np.uint32)

    def function():
        with graphs.capture(reads=[x], writes=[y]):
            foreign.affine(stream.handle, y, x, 9)

    with flags.override(graph_dump=str(tmp_path)):
        graphs.Step(function, stream=stream)()
    (file,) = tmp_path.glob("*.json")
    (node,) = json.loads(file.read_text())["nodes"]
    assert node["kernel_name"] == "affine"
    assert node["is_foreign"] is True
    assert node["arguments"]["argument 2"] == 9
    assert [access["access"] for access in node["accesses"]] == ["read", "write"]
    assert "other code" in file.with_suffix(".dot").read_text()


def test_hip_python(stream):
    """Launches, a copy and a fill by hip-python's own calls, with its handles."""
    hip = pytest.importorskip("rocm.bindings.hip")
    function = hip.ihipModuleSymbol_t.fromObj(foreign.functions()["affine"])
    x, y, z = hiprt.array(START), hiprt.zeros(N, np.uint32), hiprt.zeros(N, np.uint32)

    def function_of_step():
        queue = stream.hip_stream
        arguments = ctypes.c_void_p(x.address), ctypes.c_void_p(y.address), *map(ctypes.c_int, (3, 1, N))
        with graphs.capture(reads=[x], writes=[y, z]):
            assert int(hip.hipModuleLaunchKernel(function, 5, 1, 1, 64, 1, 1, 0, queue, None, arguments)[0]) == 0
            assert int(hip.hipMemcpyDtoDAsync(z.address, x.address, x.nbytes, queue)[0]) == 0
            assert int(hip.hipMemsetD32Async(z.address, 5, 7, queue)[0]) == 0
        return k.add(y, z)

    step = graphs.Step(function_of_step, stream=stream)
    for _ in range(3):
        result = step().numpy(stream=stream)
        assert np.array_equal(result[:7], START[:7] * 3 + 6)
        assert np.array_equal(result[7:], START[7:] * 4 + 1)


def test_torch(stream):
    """A model's layer by torch between launches of ours, on one stream and one piece of memory."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available() or library.current().provider.is_host:
        pytest.skip("torch has no device that is ours too")
    x, y = hiprt.array(START.astype(np.float32)), hiprt.zeros(N)
    source, target = (torch.from_dlpack(array) for array in (x, y))

    def function():
        k.add(x, x, out=x)
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle)), graphs.capture(reads=[x], writes=[y]):
            torch.add(source, 1.0, out=target)
        return k.add(y, x)

    step, values = graphs.Step(function, stream=stream), START.astype(np.float32)
    for _ in range(3):
        values = values * 2
        assert np.array_equal(step().numpy(stream=stream), values * 2 + 1)


def unload_while_captured():
    """Unload modules while a step records on a stream that is captured; how many go then, and afterwards."""
    with hiprt.Stream() as stream, hiprt.use_stream(stream), flags.override(cache_modules=0):
        x, seen = hiprt.array(START), []
        source = 'extern "C" __global__ void f(unsigned* y) { y[threadIdx.x] += 1; }'
        kernel = k.hip_kernel(source, "f", {"y": "update uint32"})
        kernel(x, threads=N, block=N)
        del kernel
        gc.collect()

        def function():
            foreign.affine(stream.handle, x, x, 2, 0)
            seen.append(modules.sweep())
            return k.add(x, x)

        result = graphs.Step(function)().numpy().tolist()
        return [seen, modules.sweep() > 0, result == ((START + 1) * 4).tolist()]


@pytest.mark.parametrize("profile", ["", "clr-6.4"])
def test_our_own_waiting_ends_no_capture(profile):
    assert child(unload_while_captured, profile=profile) == [[0], True, True]


def random_program(seed, eager):
    """A random sequence of launches, ours and other code's, over a few arrays; the arrays after each of some calls."""
    rng = np.random.default_rng(seed)
    with hiprt.Stream() as stream, hiprt.use_stream(stream), flags.override(graph=not eager):
        arrays = [hiprt.array(rng.integers(0, 1 << 30, N, dtype=np.uint32)) for _ in range(6)]
        side = foreign.Side()
        plan = [(rng.integers(8), *rng.integers(6, size=2), int(rng.integers(1, 9))) for _ in range(12)]
        factor = 1

        def own(x, y, m):
            k.add(arrays[x], arrays[y], out=arrays[y])

        def undeclared(x, y, m):
            foreign.affine(stream.handle, arrays[y], arrays[x], m * factor)

        def declared(x, y, m):
            with graphs.capture(reads=[arrays[x]], writes=[arrays[y]]):
                foreign.affine(stream.raw, arrays[y], arrays[x], m * factor)

        def structure(x, y, m):
            with graphs.capture(reads=[arrays[y]], writes=[arrays[y]]):
                foreign.pair(stream.raw, arrays[y], m, factor)

        def filled(x, y, m):
            foreign.fill(stream.handle, arrays[y], m)

        def forked(x, y, m):
            with graphs.capture(reads=[arrays[x], arrays[y]], writes=[arrays[x], arrays[y]]):
                side.fork.between(stream.raw, side.handle)
                foreign.pair(stream.raw, arrays[x], m)
                if x != y:
                    foreign.pair(side.handle, arrays[y], m + factor)
                side.join.between(side.handle, stream.raw)

        def made(x, y, m):
            new = k.add(arrays[x], arrays[x])
            with graphs.capture(reads=[new], writes=[arrays[y]]):
                foreign.affine_packed(stream.raw, arrays[y], new, m)

        calls = (own, own, undeclared, declared, structure, filled, forked, made)

        def function():
            for kind, x, y, m in plan:
                calls[kind](x, y, m)

        step = graphs.Step(function, keep=bool(seed % 2), stream=stream)
        seen = []
        for i in range(5):
            if not seed % 2:
                factor = 1 + i // 2
            step()
            seen.append(np.concatenate([array.numpy(stream=stream) for array in arrays]))
        assert eager or not step.rungs["eager"]
    return seen


def check_programs(seeds):
    """The first of some random programs whose graphs do not give eager's bits, or -1."""
    for seed in seeds:
        if not np.array_equal(random_program(seed, True), random_program(seed, False)):
            return seed
    return -1


def test_random_programs():
    assert check_programs(range(60)) == -1


@pytest.mark.parametrize("profile", PROFILES)
def test_random_programs_under_profiles(profile, form, part):
    seeds = part(range(1000, 1020 if form == "short" else 1200))
    assert child(check_programs, [*seeds], profile=profile) == -1


def test_a_capture_that_hip_refuses_is_an_error(stream, monkeypatch):
    """G14: without it, what other code puts on the stream would run ahead of the step; nothing of that has run."""
    real, x = core.lib, hiprt.zeros(4)

    class Refusing:
        def __getattr__(self, name):
            return getattr(real, name)

        def hiprt_flatten_begin(self, *_):
            return 999

    _ = stream.handle
    step = graphs.Step(lambda: k.add(x, 1.0, out=x), stream=stream)
    with monkeypatch.context() as patch:
        patch.setattr(core, "lib", Refusing())
        with pytest.raises(HipError, match="work of other code on its stream would not be noticed"):
            step()
    assert not x.numpy().any()
    step()
    assert x.numpy().tolist() == [1.0] * 4
