"""Arenas: intermediates at provisional addresses find their place when the recording ends."""

import threading

import numpy as np
import pytest
from helpers.kernels import functions, scale
from helpers.plans import check_plans
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import Arena, InPlace, Outline, Pool, arena as module, default_pool
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import load
from hiprt.bench.story import CHECKPOINT
from hiprt.compiler import compile_source
from hiprt.errors import OutOfMemoryError
from hiprt.module import SCALAR, WRITE, Argument, Function, Module

N = 100


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(N, dtype=np.float32))


def arenas(step):
    """The arenas of a step's kept graphs."""
    return [segment.recording.memory for kept in step.kept.values() for segment in kept.segments]


def test_a_chain_needs_two_places(stream, x):
    """Ten intermediates, of which two are live at a time; the result lies in the same block."""

    def function():
        y = x
        for _ in range(10):
            y = scale(y, 2.0)
        return y

    step = graphs.Step(function, stream=stream, overwrite=True)
    result = step()
    (memory,) = arenas(step)
    (plan,) = memory.plans
    assert plan.nbytes == plan.lower_bound == 2 * 512
    assert step.nbytes == 1024
    (block,) = memory.chunks.values()
    assert block.address <= result.address < block.address + block.nbytes
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), x.numpy() * 1024)


def test_branches_lie_apart(stream, x):
    """Sharing adds no edge: what may run together has its own memory."""

    def function():
        branches = [scale(scale(x, float(i)), 2.0) for i in range(1, 5)]
        for branch in branches[1:]:
            kernels.add(branches[0], branch)
        return branches

    step = graphs.Step(function, stream=stream)
    results = step()
    # The edges of the data, and none more: one in each branch, and two into each addition.
    assert step.edges == 4 + 6
    for i, result in enumerate(results, 1):
        np.testing.assert_array_equal(result.numpy(), x.numpy() * 2 * i)


def test_views_and_arrays_of_other_owners_move(stream, x):
    """Views, and arrays that the function keeps for itself, show the memory that the graph writes."""
    kept = []

    def function():
        y = scale(x, 3.0)
        kept[:] = [y, y[10:20], y[::2]]
        return y[50:]

    result = graphs.Step(function, stream=stream)()
    expected = x.numpy() * 3
    for got, wanted in zip([result, *kept], [expected[50:], expected, expected[10:20], expected[::2]], strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_memory_that_was_asked_for_and_not_yet_used_is_nobody_elses(stream, x):
    """An array that a later part of the step writes first."""

    def function():
        late = hiprt.empty(N)
        y = scale(x, 2.0)
        stream.synchronize()
        late.copy_from(x)
        return y, late

    step = graphs.Step(function, stream=stream)
    for _ in range(2):
        y, late = step()
        np.testing.assert_array_equal(y.numpy(), x.numpy() * 2)
        np.testing.assert_array_equal(late.numpy(), x.numpy())


def test_a_full_part_is_launched_with_the_addresses_it_has_then(stream, x):
    """The launch that no longer fits names arrays that have moved since it was packed."""
    with hiprt.flags.override(graph_max_nodes=2):
        step = graphs.Step(lambda: scale(scale(scale(scale(scale(x, 2.0), 2.0), 2.0), 2.0), 2.0), stream=stream)
        for _ in range(3):
            np.testing.assert_array_equal(step().numpy(), x.numpy() * 32)


POINTED = """
struct Where { long tag; float* to; };
extern "C" __global__ void by_number(float* out, unsigned long long address) {
  out[0] = ((float*)address)[0];
}
extern "C" __global__ void by_struct(float* out, struct Where where) { out[0] = where.to[where.tag]; }
struct Pair { long long first, second; };
extern "C" __global__ void store(long long* out, long long number, struct Pair pair) {
  out[0] = number; out[1] = pair.first; out[2] = pair.second;
}
"""
ONE = (1, 1, 1)


@pytest.fixture(scope="module")
def pointed():
    """The module of `POINTED`."""
    return Module(compile_source(POINTED, "pointed.hip")[0])


@pytest.fixture
def by_number(pointed):
    """A kernel that takes an address as a number."""
    return Function(pointed, "by_number", [Argument("out", WRITE), Argument("address", SCALAR, "address")])


@pytest.fixture
def by_struct(pointed):
    """A kernel that takes an address inside a structure."""
    where = Argument("where", SCALAR, "bytes", size=16, alignment=8, addresses=[8])
    return Function(pointed, "by_struct", [Argument("out", WRITE), where])


def test_addresses_passed_as_numbers_move_too(stream, x, by_number, by_struct):
    """In a number, and inside a structure; what they point to is in use as long as the node may read it."""

    def function():
        y = scale(x, 5.0)
        stream.barrier()
        a, b = hiprt.empty(1), hiprt.empty(1)
        by_number(stream, ONE, ONE, a, y.address + 4)
        by_struct(stream, ONE, ONE, b, np.array([7, y.address], np.uint64).tobytes())
        return a, b

    step = graphs.Step(function, stream=stream)
    for _ in range(2):
        a, b = step()
        assert (a.item(), b.item()) == (5, 35)


@pytest.mark.parametrize("most", [0, 1])
def test_numbers_that_look_like_addresses_stay(stream, x, pointed, most):
    """A value is moved only where the declaration names an address, even one that equals an array's address.

    With a bound of one node the launch that no longer fits is packed before memory moves, and launched after it.
    """
    pair = Argument("pair", SCALAR, "bytes", size=16, alignment=8)
    store = Function(pointed, "store", [Argument("out", WRITE), Argument("number", SCALAR, "int64"), pair])
    passed = []

    def function():
        y, out = scale(x, 5.0), hiprt.empty(3, np.int64)
        passed[:] = [y.address, y.address + 8, module.PROVISIONAL]
        store(stream, ONE, ONE, out, passed[0], np.array(passed[1:], np.int64).tobytes())
        return out

    with hiprt.flags.override(graph_max_nodes=most):
        step = graphs.Step(function, stream=stream)
        for _ in range(2):
            assert step().numpy().tolist() == passed
    assert passed[0] >= module.PROVISIONAL


def test_an_address_follows_an_argument_that_moved(stream, by_number):
    """A kept step that is called with another array: its address goes to whoever takes it as a number."""

    def function(x):
        out = hiprt.empty(1)
        by_number(stream, ONE, ONE, out, x.address)
        return scale(out, 1.0), scale(x, 2.0)

    arrays = [hiprt.array(np.full(N, i, np.float32)) for i in range(3)]
    step = graphs.Step(function, stream=stream, moves=True)
    for _ in range(2):
        for i, array in enumerate(arrays):
            assert step(array)[0].item() == i
    assert step.rungs["patch"] > 0


@pytest.mark.parametrize(
    "argument",
    [
        {"dtype": "bytes", "size": 16, "alignment": 8, "addresses": [9]},
        {"dtype": "bytes", "size": 16, "alignment": 8, "addresses": [-8]},
        {"dtype": "int32", "addresses": [0]},
    ],
)
def test_addresses_lie_inside_their_argument(pointed, argument):
    """A declaration that names bytes behind the value, or before it, is refused."""
    with pytest.raises(ValueError, match="pair: 8 bytes at"):
        Argument("pair", SCALAR, **argument)


def test_another_stream_reads_what_is_being_recorded(stream, x):
    """The thread that records may read on any stream: what it recorded is launched first, and is waited for (G13)."""
    with hiprt.Stream() as other:

        def function():
            y = scale(x, 2.0)
            np.testing.assert_array_equal(y.numpy(other), x.numpy() * 2)
            y.set(np.ones(N, np.float32), other)
            return scale(y, 3.0)

        step = graphs.Step(function, stream=stream)
        for _ in range(2):
            np.testing.assert_array_equal(step().numpy(), np.full(N, 3, np.float32))
        assert step.reasons["split: host read of an array"] == 4


def test_another_thread_cannot_read_what_is_being_recorded(stream, x):
    """Where such an array will lie is not known before the recording ends."""
    errors = []

    def read(y):
        with pytest.raises(RuntimeError, match="still recording"):
            y.numpy()
        with pytest.raises(RuntimeError, match="still recording"):
            y.set(np.zeros(N, np.float32))
        with pytest.raises(RuntimeError, match="still recording"):
            scale(y, 2.0)
        with pytest.raises(RuntimeError, match="still recording"):
            y.copy_from(x)
        errors.append(y.shape)

    def function():
        y = scale(x, 2.0)
        thread = threading.Thread(target=read, args=(y,))
        thread.start()
        thread.join()
        return y

    np.testing.assert_array_equal(graphs.Step(function, stream=stream)().numpy(), x.numpy() * 2)
    assert errors == [(N,)]


def test_arrays_of_a_step_that_failed_have_memory(stream, x):
    """Nobody computed them, but reading them is no fault."""
    kept = []

    def function():
        kept.append(scale(x, 2.0))
        raise KeyError("planned")

    with pytest.raises(KeyError):
        graphs.Step(function, stream=stream)()
    assert kept[0].numpy().shape == (N,)


def test_no_memory_for_the_block(stream, x):
    """The step raises, nothing is launched, and the next call succeeds."""
    step = graphs.Step(lambda: scale(x, 2.0), stream=stream)
    before = default_pool.stats().reserved >> 20
    big = graphs.Step(lambda: hiprt.zeros((1 << 30,)), stream=stream)
    with hiprt.flags.override(alloc_limit_mb=before + 16), pytest.raises(OutOfMemoryError):
        big()
    np.testing.assert_array_equal(step().numpy(), x.numpy() * 2)


def test_the_shipped_models_step_is_near_the_lower_bound(stream):
    """At most 1.05 of what is live at once in program order."""
    decoder = Decoder(load(Checkpoint(CHECKPOINT)), stream, 256)
    decoder.start([1, 2, 3])
    decoder.step()
    check_plans(decoder.graph)


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_steps_that_differ_in_sizes_share_what_does_not_depend_on_them(data):
    """The layout is that of a step of which nothing was known, also where a size is zero, or another pair is equal."""
    count = data.draw(st.integers(1, 10))
    dependencies = [sorted(data.draw(st.sets(st.integers(0, i - 1), max_size=2))) if i else [] for i in range(count)]
    nodes = st.sets(st.integers(0, count - 1), max_size=4).map(lambda each: tuple(sorted(each)))
    users = data.draw(st.lists(nodes, min_size=1, max_size=8))
    some = range(len(users))
    pairs = [InPlace(node, a, b) for a in some for b in some for node in {*users[a]} & {*users[b]} if a < b]
    outline = Outline(users, dependencies, pairs)
    results = data.draw(st.sets(st.sampled_from(some)).map(sorted))
    key = repr((outline, results)).encode()
    for turn in range(4):
        sizes = data.draw(st.lists(st.sampled_from([0, 256, 300, 512, 1000]), min_size=len(users), max_size=len(users)))
        shared = module.layout(sizes, (key, lambda: outline), results)
        assert shared == module.layout(sizes, (key + bytes([turn]), lambda: outline), results)


def chain(count, in_place=()):
    """What as many nodes do with as many intermediates: each waits for the one before, and reads what that wrote."""
    users = [(i, i + 1) if i + 1 < count else (i,) for i in range(count)]
    outline = Outline(users, [[i - 1] if i else [] for i in range(count)], in_place)
    return repr(outline).encode(), lambda: outline


@pytest.mark.parametrize("window", [1, 3, 1000])
def test_windows_share_nothing_with_each_other(monkeypatch, window):
    """Requests of one chain: those within so many nodes share, the others lie apart."""
    monkeypatch.setattr(module, "WINDOW", window)
    count = 12
    made = module.layout([256] * count, chain(count), [count - 1])
    for i in range(count):
        for k in range(i):
            if made.offsets[i] == made.offsets[k]:
                assert i - k > 1
                assert i // window == (i + 1) // window or i == count - 1
    assert made.nbytes == {1: 12, 3: 11, 1000: 2}[window] * 256


@pytest.mark.parametrize(("window", "places"), [(1, 12), (3, 7), (1000, 1)])
def test_windows_write_in_place_within_each(monkeypatch, window, places):
    """Of a chain in which each may lie over the one before: those that two windows use have places of their own."""
    monkeypatch.setattr(module, "WINDOW", window)
    made = module.layout([256] * 12, chain(12, [InPlace(i, i - 1, i) for i in range(1, 12)]), [11])
    assert made.nbytes == places * 256


def test_alone(stream):
    """Without a graph: buffers get memory, and stats name it."""
    made = Arena(default_pool.allocate, "alone")
    buffer = made.allocate(1000, stream)
    assert buffer.address >= module.PROVISIONAL
    nothing = b"", lambda: Outline([()], [], [])
    (move,) = made.settle(stream, lambda _: nothing)
    assert (buffer.address, buffer.pool) == (move.to, None)
    assert move.start < move.end
    assert made.stats().reserved >= 1000
    assert not made.settle(stream, lambda _: nothing)
    assert isinstance(made.parent, Pool)
    functions()


@pytest.mark.parametrize("nbytes", [-1, 2**64 - 2**58, 2**64 - 1, 2**64])
def test_no_address_is_given_twice(stream, nbytes):
    """A request behind which no address is left, and one that is no size, leave the next one where it was."""
    made = Arena(default_pool.allocate, "alone")
    before = made.allocate(100, stream)
    with pytest.raises(OverflowError):
        made.allocate(nbytes, stream)
    assert made.allocate(100, stream).address == before.address + 512


def test_a_buffer_outlives_its_arena(stream):
    """Once it has memory, it asks the arena for nothing, and the next request is not taken for it."""
    made = Arena(default_pool.allocate, "alone")
    nothing = b"", lambda: Outline([()], [], [])
    first = made.allocate(1000, stream)
    made.settle(stream, lambda _: nothing)
    second = made.allocate(1000, stream)
    del first
    assert made.found()[2] == [(0, second)]
    made.abandon(stream)
    del made
    assert second.nbytes == 1000
