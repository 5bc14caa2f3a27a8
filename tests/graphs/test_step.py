"""Steps: recorded once, replayed, patched, instantiated, run eagerly; always the same bits."""

import gc
from weakref import ref

import numpy as np
import pytest
from helpers.kernels import accumulate, launch, mix, scale

import hiprt
from hiprt import graphs
from hiprt.errors import HipError


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(100, dtype=np.float32))


def test_second_call_replays_without_calling_the_function(stream, x):
    """A kept step does not touch a node when nothing changed."""
    calls = []

    def function():
        calls.append(1)
        return mix(scale(x, 2.0), scale(x, 3.0))

    step = graphs.Step(function, stream=stream)
    first = step().numpy()
    x.set(np.arange(100, dtype=np.float32) * 2)
    second = step().numpy()
    assert len(calls) == 1
    assert step.rungs == {"replay": 1, "patch": 0, "update": 0, "instantiate": 1, "eager": 0}
    np.testing.assert_array_equal(second, first * 2)


def test_step_is_one_launch(stream, x):
    """However many nodes: one graph launch."""
    step = graphs.Step(lambda: mix(scale(x, 2.0), scale(x, 3.0)), stream=stream)
    step()
    before = stream.launches
    step()
    assert stream.launches - before == 1
    assert (step.nodes, step.edges) == (3, 2)


def test_graph_equals_eager(stream, x):
    """Same bits eager and as a graph, in-place updates included."""
    state = hiprt.zeros(100)

    def function():
        y = scale(x, 1.1)
        accumulate(y, state)
        return mix(state, y)

    step = graphs.Step(function, stream=stream)
    results = [step().numpy() for _ in range(3)]
    state.fill_bytes(0)
    for result in results:
        np.testing.assert_array_equal(function().numpy(), result)


def test_second_shape_makes_a_second_slot(stream):
    """Another shape instantiates once; both stay."""
    a, b = hiprt.array(np.ones(64, np.float32)), hiprt.array(np.ones(256, np.float32))
    step = graphs.Step(lambda v: scale(v, 2.0), stream=stream)
    for v in (a, b, a, b):
        np.testing.assert_array_equal(step(v).numpy(), np.full(v.shape, 2, np.float32))
    assert step.rungs["instantiate"] == 2
    assert step.rungs["replay"] == 2


def test_rerecording_patches_what_changed(stream, x):
    """keep=False: same topology, other arguments: the changed node is patched, not the graph built again."""
    factor = 1.0
    out = hiprt.empty(100)

    def function():
        scaled = scale(x, factor)
        out.copy_from(scaled)

    step = graphs.Step(function, stream=stream, keep=False)
    for factor in (1.0, 2.0, 3.0):
        step()
        np.testing.assert_array_equal(out.numpy(), np.arange(100, dtype=np.float32) * factor)
    assert step.rungs["instantiate"] == 1
    assert step.rungs["patch"] == 2
    assert step.reasons["patch: arguments of 1 of 2 nodes changed"] == 2
    assert "node 0 (scale) by: 2.0 -> 3.0" in str(graphs.explain()[-1])


def test_a_buffer_that_lies_elsewhere_is_told_as_an_address(stream, x):
    """In the form in which addresses of arguments and of dumps are."""
    sources, used = [x, hiprt.array(np.ones(100, np.float32))], []
    step = graphs.Step(lambda: scale(used[-1], 2.0), stream=stream, keep=False)
    for source in sources:
        used.append(source)
        step()
        stream.synchronize()
    assert f" {sources[0].address:#x} -> {sources[1].address:#x}" in str(graphs.explain()[-1])


def test_flag_turns_graphs_off(stream, x):
    """HIPRT_GRAPH=0 runs every call eagerly."""
    step = graphs.Step(lambda: scale(x, 2.0), stream=stream)
    with hiprt.flags.override(graph=False):
        result = step().numpy()
    np.testing.assert_array_equal(result, np.arange(100, dtype=np.float32) * 2)
    assert step.rungs["eager"] == 1
    assert step.reasons["eager: HIPRT_GRAPH=0"] == 1


def test_host_read_splits_the_step(stream, x):
    """Work that cannot be a node splits the graph around it; the function is called every time, the reason counted."""

    def function():
        y = scale(x, 2.0)
        factor = float(y.numpy()[3])
        return mix(scale(y, factor), y)

    step = graphs.Step(function, stream=stream)
    expected = function().numpy()
    for _ in range(3):
        np.testing.assert_array_equal(step().numpy(), expected)
    assert step.reasons["split: host read of an array"] == 3
    assert step.rungs["instantiate"] <= 4
    assert step.nodes == 3


def test_host_write_and_synchronize_split_too(stream, x):
    """They happen between the parts, in order."""
    y = hiprt.zeros(100)

    def function():
        accumulate(x, y)
        stream.synchronize()
        y.set(y.numpy() + 1)
        accumulate(x, y)

    graphs.Step(function, stream=stream)()
    np.testing.assert_array_equal(y.numpy(), np.arange(100, dtype=np.float32) * 2 + 1)


def test_bounds_split_and_still_replay(stream, x):
    """HIPRT_GRAPH_MAX_NODES cuts a step into several graphs, all of them replayed."""

    def function():
        y = x
        for _ in range(10):
            y = scale(y, 1.5)
        return y

    step = graphs.Step(function, stream=stream)
    with hiprt.flags.override(graph_max_nodes=4):
        first = step().numpy()
        before = stream.launches
        np.testing.assert_array_equal(step().numpy(), first)
    assert stream.launches - before == 3
    assert step.rungs["instantiate"] == 3
    assert step.rungs["replay"] == 3
    assert step.nodes == 10
    np.testing.assert_array_equal(first, function().numpy())


def test_byte_bound_counts_distinct_memory(stream):
    """HIPRT_GRAPH_MAX_BYTES counts each byte once, however often it is used."""
    x, y = hiprt.zeros(1024), hiprt.zeros(1024)

    def function():
        for _ in range(20):
            accumulate(x, y)

    step = graphs.Step(function, stream=stream)
    with hiprt.flags.override(graph_max_bytes=8193):
        step()
        assert step.rungs["instantiate"] == 1
    with hiprt.flags.override(graph_max_bytes=8192):
        graphs.Step(function, stream=stream, name="bounded", keep=False)()
    assert sum(graphs.stats()["bounded"]["rungs"].values()) == 20


@pytest.mark.parametrize(("begin", "end"), [(0, 3), (2, 5), (7, 100)])
def test_forced_eager_nodes_give_the_same_bits(stream, x, begin, end):
    """HIPRT_GRAPH_FORCE_EAGER_FROM / _TO launch a range of nodes one by one."""

    def function():
        y = x
        for factor in range(1, 11):
            y = mix(scale(y, 1 / factor), x)
        return y

    expected = function().numpy()
    step = graphs.Step(function, stream=stream)
    with hiprt.flags.override(graph_force_eager_from=begin, graph_force_eager_to=end):
        for _ in range(3):
            np.testing.assert_array_equal(step().numpy(), expected)
    assert step.rungs["eager"] == 3
    assert step.nodes == 20


def test_bisection_names_its_flags_once(stream, x, caplog):
    """The reason is the flags that are set; from a node on means to the end; the log says it once."""
    step = graphs.Step(lambda: scale(scale(scale(x, 2.0), 3.0), 4.0), stream=stream, name="bisected")
    with hiprt.flags.override(graph_force_eager_from=1):
        for _ in range(3):
            step()
    assert step.reasons["eager: HIPRT_GRAPH_FORCE_EAGER_FROM=1"] == 3
    assert [len(part) for part in step.recordings] == [1, 2]
    step.forget()
    with hiprt.flags.override(graph_force_eager_to=2):
        step()
        step()
    assert step.reasons["eager: HIPRT_GRAPH_FORCE_EAGER_TO=2"] == 2
    step()
    left = "recorded while HIPRT_GRAPH_FORCE_EAGER_FROM or HIPRT_GRAPH_FORCE_EAGER_TO was set"
    assert step.reasons[f"eager: {left}"] == 1
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "HIPRT_GRAPH_FORCE_EAGER_FROM=1",
        "HIPRT_GRAPH_FORCE_EAGER_TO=2",
        left,
    ]


def test_other_arrays_of_the_same_shape_are_patched_in(stream):
    """A kept step called with arrays at other addresses patches the nodes that use them, without the function."""
    calls = []

    def function(a, b):
        calls.append(1)
        return mix(scale(a, 2.0), b)

    rng = np.random.default_rng(3)
    values = [rng.standard_normal(100, dtype=np.float32) for _ in range(6)]
    arrays = [hiprt.array(v) for v in values]
    step = graphs.Step(function, stream=stream, moves=True)
    for a, b in [(0, 1), (2, 3), (0, 3), (4, 5), (4, 5)]:
        expected = (values[a] * np.float32(2)) * np.float32(0.5) + values[b][::-1]
        np.testing.assert_array_equal(step(arrays[a], arrays[b]).numpy(), expected)
    assert len(calls) == 1
    assert step.rungs == {"replay": 1, "patch": 3, "update": 0, "instantiate": 1, "eager": 0}


def test_moved_arguments_of_another_form_are_recorded(stream):
    """They begin where arrays lay that were patched in before, with other shapes or strides, or with other values."""
    calls = []

    def function(a, by=2.0):
        calls.append(a.shape)
        return a * by

    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    x, y = hiprt.array(values), hiprt.array(values + 1)
    step = graphs.Step(function, stream=stream, moves=True)
    for _ in range(2):
        for array in (x, y):
            np.testing.assert_array_equal(step(array).numpy(), array.numpy() * 2)
    assert calls == [(8, 8)]
    assert step.rungs["patch"] == 3
    for array in (y.reshape(64), y.reshape(4, 16), y[:4], y[:, :4], x):
        np.testing.assert_array_equal(step(array).numpy(), array.numpy() * 2)
    np.testing.assert_array_equal(step(y, 3.0).numpy(), y.numpy() * 3)
    np.testing.assert_array_equal(step(x, by=4.0).numpy(), x.numpy() * 4)
    assert calls == [(8, 8), (64,), (4, 16), (4, 8), (8, 4), (8, 8), (8, 8)]


@pytest.mark.parametrize("among", ["a value", "a list", "lists", "names"])
def test_arrays_that_were_patched_among_other_arguments_are_another_call_alone(stream, among):
    """A function may do something else with the same arrays where it is given nothing but these."""

    def function(*args, **keywords):
        seen.append([*map(type, args), *keywords])
        scale(pair[0], 2.0)

    seen, pair = [], [hiprt.full(64, 1.0), hiprt.full(64, 2.0)]
    step = graphs.Step(function, stream=stream, moves=True)
    for _ in range(3):
        a, b = pair
        given = {"a value": (a, b, 3.0), "a list": ([a, b],), "lists": ([a], [b]), "names": ()}[among]
        step(*given, **({"x": a, "y": b} if among == "names" else {}))
        pair.reverse()
    assert step.rungs["patch"] == 2
    step(*pair)
    assert len(seen) == 2
    assert seen[1] == [hiprt.Array] * 2


def test_a_call_that_is_forgotten_is_not_held(stream):
    """Not by what was patched last either."""
    x, y = hiprt.zeros(100), hiprt.zeros(100)
    step = graphs.Step(lambda a: scale(a, 2.0), stream=stream, moves=True)
    for array in (x, y):
        step(array)
    kept = ref(next(iter(step.kept.values())))
    step.forget()
    gc.collect()
    assert kept() is None
    step(x)
    assert step.rungs["eager"] == 0


def test_arguments_that_alias_are_recorded_again(stream):
    """Moving must not change an edge: an argument that overlaps another, or the step's own memory, is not moved."""
    state, calls = hiprt.zeros(100), []

    def function(a, b):
        calls.append((a, b))
        accumulate(a, state)
        accumulate(state, b)
        return scale(b, 1.0)

    def expect(a, b, state):
        state += a
        b += state

    host = {"a": np.ones(100, np.float32), "b": np.zeros(100, np.float32), "state": np.zeros(100, np.float32)}
    device = {"a": hiprt.array(host["a"]), "b": hiprt.zeros(100), "state": state}
    step = graphs.Step(function, stream=stream, moves=True)
    for first, second in [("a", "b"), ("state", "b"), ("b", "b"), ("a", "b")]:
        step(device[first], device[second])
        expect(host[first], host[second], host["state"])
        np.testing.assert_array_equal(device["b"].numpy(), host["b"])
        np.testing.assert_array_equal(state.numpy(), host["state"])
    assert len(calls) == 4


def test_exception_in_the_function_leaves_nothing_behind(stream, x):
    """The stream records no more, nothing was launched."""

    def function():
        scale(x, 2.0)
        raise KeyError("mine")

    step = graphs.Step(function, stream=stream)
    before = stream.launches
    with pytest.raises(KeyError, match="mine"):
        step()
    assert stream.launches == before
    np.testing.assert_array_equal(scale(x, 2.0).numpy(), np.arange(100, dtype=np.float32) * 2)


def test_failed_launch_runs_eagerly_and_says_why(stream, x, monkeypatch):
    """G8: after a failed graph call the exec is discarded and the step runs eagerly, with the same bits."""
    step = graphs.Step(lambda: scale(x, 2.0), stream=stream)
    expected = step().numpy()

    def fail(self, stream):
        raise HipError(1, "hipErrorInvalidValue", "hipGraphLaunch")

    with monkeypatch.context() as patched:
        patched.setattr(graphs.Exec, "launch", fail)
        # Armed, it would not come to that: test_armed.py breaks what the C core calls.
        step.disarm()
        np.testing.assert_array_equal(step().numpy(), expected)
    assert step.rungs["eager"] == 1
    assert "eager: hipGraphLaunch: hipErrorInvalidValue (1)" in step.reasons
    np.testing.assert_array_equal(step().numpy(), expected)
    assert step.rungs["instantiate"] == 2


def test_a_launch_that_may_have_happened_is_an_error(stream, x, monkeypatch):
    """G8: nothing is run a second time, the exec is discarded, and the next call is right."""
    state = hiprt.zeros(100)
    step = graphs.Step(lambda: accumulate(x, state), stream=stream)
    step()
    launch = graphs.Exec.launch

    def fail(self, stream):
        launch(self, stream)
        raise hiprt.UndefinedOutputsError(719, "hipErrorLaunchFailure", "hipStreamSynchronize")

    with monkeypatch.context() as patched:
        patched.setattr(graphs.Exec, "launch", fail)
        step.disarm()
        with pytest.raises(hiprt.UndefinedOutputsError, match="hipErrorLaunchFailure"):
            step()
    assert step.rungs["eager"] == 0
    assert any(reason.startswith("undefined: hipStreamSynchronize") for reason in step.reasons)
    np.testing.assert_array_equal(state.numpy(), np.arange(100, dtype=np.float32) * 2)
    step()
    np.testing.assert_array_equal(state.numpy(), np.arange(100, dtype=np.float32) * 3)
    assert step.rungs["instantiate"] == 2


def test_inputs_stay_alive_as_long_as_the_exec(stream):
    """G1: a buffer that only a kept step uses is not reused for something else."""

    def record():
        source = hiprt.array(np.full(1000, 7, np.float32))
        step = graphs.Step(lambda: scale(source, 1.0), stream=stream)
        step()
        return source.address, step.kept.popitem()[1]

    address, recorded = record()
    gc.collect()
    others = [hiprt.array(np.zeros(1000, np.float32)) for _ in range(20)]
    assert address not in [other.address for other in others]
    recorded.exec.launch(stream)
    np.testing.assert_array_equal(recorded.result.numpy(), np.full(1000, 7, np.float32))


def test_intermediates_are_reused_inside_a_step(stream, x):
    """A dropped intermediate's memory serves later nodes of the same step, with edges that keep it right."""

    def function():
        y = x
        for _ in range(10):
            y = scale(y, 1.5)
        return y

    step = graphs.Step(function, stream=stream)
    result = step().numpy()
    np.testing.assert_array_equal(result, function().numpy())
    assert step.recordings[0].memory.stats().reserved <= 3 * 512


def test_nested_steps_become_part_of_the_outer_one(stream, x):
    """A step called while another records adds its nodes to it."""
    inner = graphs.Step(lambda: scale(x, 2.0), stream=stream)
    outer = graphs.Step(lambda: scale(inner(), 2.0), stream=stream)
    np.testing.assert_array_equal(outer().numpy(), np.arange(100, dtype=np.float32) * 4)
    assert outer.nodes == 2
    assert inner.rungs["instantiate"] == 0


def test_keys_are_bounded(stream):
    """The least recently used signature goes first."""
    step = graphs.Step(lambda v: scale(v, 2.0), stream=stream)
    arrays = [hiprt.array(np.ones(64 * (i + 1), np.float32)) for i in range(4)]
    with hiprt.flags.override(graph_keys=2):
        for v in arrays:
            step(v)
    assert len(step.kept) == 2
    assert len(list(step.ladder.execs)) == 2


def test_unhashable_argument_is_a_type_error(stream):
    """Arguments identify a recording, so that values must be hashable; what is inside lists counts."""
    step = graphs.Step(lambda v: None, stream=stream)
    with pytest.raises(TypeError, match="unhashable"):
        step({1})


@pytest.mark.parametrize("seed", range(8))
def test_random_steps_equal_eager(stream, seed):
    """Random programs over a few arrays, views and in-place updates: the graph gives eager's bits."""
    rng = np.random.default_rng(seed)
    start = [rng.standard_normal(128, dtype=np.float32) for _ in range(4)]
    program = [(rng.integers(3), rng.integers(4), rng.integers(4), int(rng.integers(0, 65))) for _ in range(30)]

    def run(pool):
        for kind, i, j, at in program:
            a, b = pool[i][at : at + 63], pool[j][64 - at : 127 - at]
            if kind == 0 and i != j:
                accumulate(a, b)
            elif kind == 1:
                pool[j] = mix(pool[i], pool[j])
            else:
                pool[i] = scale(pool[j], 0.75)
        return pool

    eager = [array.numpy() for array in run([hiprt.array(v) for v in start])]
    inputs = [hiprt.array(v) for v in start]
    step = graphs.Step(lambda: run(list(inputs)), stream=stream)
    for array, expected in zip(step(), eager):
        np.testing.assert_array_equal(array.numpy(), expected)


def test_context_form_finds_the_exec_by_content(stream, x):
    """`with graphs.step(name)`: every launch is issued again, the exec is reused."""
    y = hiprt.zeros(100)
    for _ in range(3):
        with graphs.step("form", stream=stream) as ladder:
            accumulate(x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(100, dtype=np.float32) * 3)
    assert ladder.stats.rungs["replay"] == 2


def test_wrong_user_key_is_detected(stream, x):
    """A key that names two topologies is counted and not trusted."""
    y = hiprt.zeros(100)
    for nodes in (1, 2, 1):
        with graphs.step("keys", key="decode", stream=stream) as ladder:
            for _ in range(nodes):
                accumulate(x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(100, dtype=np.float32) * 4)
    assert ladder.stats.reasons["key 'decode' names more than one topology"] == 2


def test_rungs_flag_limits_the_ladder(stream, x):
    """HIPRT_GRAPH_RUNGS: what is not named is not taken."""
    out = hiprt.empty(100)

    def run(rungs):
        factor = 1.0

        def function():
            out.copy_from(scale(x, factor))

        step = graphs.Step(function, stream=stream, keep=False)
        with hiprt.flags.override(graph_rungs=rungs):
            for factor in (1.0, 2.0, 3.0):
                step()
                np.testing.assert_array_equal(out.numpy(), np.arange(100, dtype=np.float32) * factor)
        return step.rungs

    assert run(("update", "instantiate")) == {"replay": 0, "patch": 0, "update": 2, "instantiate": 1, "eager": 0}
    assert run(("patch", "instantiate")) == {"replay": 0, "patch": 2, "update": 0, "instantiate": 1, "eager": 0}
    assert run(("instantiate",)) == {"replay": 0, "patch": 0, "update": 0, "instantiate": 3, "eager": 0}
    assert run(("eager",)) == {"replay": 0, "patch": 0, "update": 0, "instantiate": 0, "eager": 3}


def test_spent_exec_is_replaced(stream, x):
    """G7: after its update budget an exec gives way to one made beforehand."""
    out = hiprt.empty(100)
    factor = 0.0

    def function():
        out.copy_from(scale(x, factor))

    step = graphs.Step(function, stream=stream, keep=False)
    used = []
    with hiprt.flags.override(graph_update_budget=10, graph_rungs=("replay", "patch", "instantiate")):
        for i in range(50):
            factor = float(i)
            step()
            np.testing.assert_array_equal(out.numpy(), np.arange(100, dtype=np.float32) * i)
            used += [slot.updated_nodes for slot in step.ladder.execs]
    assert max(used) <= 10
    assert step.reasons["replaced: update budget spent"] == 4
    assert len(list(step.ladder.execs)) == 1


def test_an_exec_that_has_spent_its_bytes_is_replaced(stream, x):
    """HIPRT_GRAPH_UPDATE_BUDGET_MB: argument bytes count as well as nodes."""
    factor, used = 0.0, []
    step = graphs.Step(lambda: [scale(x, factor + i) for i in range(1000)][-1], stream=stream, keep=False)
    with hiprt.flags.override(
        graph_update_budget_mb=1, graph_update_budget=10**9, graph_rungs=("patch", "instantiate")
    ):
        for i in range(100):
            factor = float(i)
            np.testing.assert_array_equal(step().numpy(), np.arange(100, dtype=np.float32) * (i + 999))
            used += [slot.updated_bytes for slot in step.ladder.execs]
    assert 1 << 19 < max(used) <= 1 << 20
    # All nodes are patched each time, and an exec takes as many such changes as the budget has room for.
    each = min(filter(None, used))
    assert step.reasons["replaced: update budget spent"] == 98 // ((1 << 20) // each)


def test_buffers_that_take_turns_get_an_exec_each(stream, x):
    """Arguments that come back (double buffering) end in replays, without patches."""
    outs = [hiprt.empty(100), hiprt.empty(100)]
    for i in range(20):
        with graphs.step("turns", stream=stream) as ladder:
            launch("scale", x, outs[i % 2], 3.0, size=100)
        stream.synchronize()
    for out in outs:
        np.testing.assert_array_equal(out.numpy(), np.arange(100, dtype=np.float32) * 3)
    assert ladder.stats.rungs["instantiate"] == 2
    assert ladder.stats.rungs["patch"] + ladder.stats.rungs["update"] == 1
    assert ladder.stats.rungs["replay"] == 17


def test_results_outlive_the_next_call(stream):
    """Each call returns arrays of its own, views of one memory together, and the function's own memory as it is."""
    total = hiprt.zeros(100)

    def function(x):
        accumulate(x, total)
        y = scale(total, 2.0)
        return {"whole": y, "parts": (y[:50], [y[50:]]), "total": total, "count": 3}

    x = hiprt.full(100, 1.0)
    step = graphs.Step(function, stream=stream)
    results = [step(x) for _ in range(4)]
    assert step.rungs["replay"] == 3
    for i, result in enumerate(results, 1):
        np.testing.assert_array_equal(result["whole"].numpy(), np.full(100, 2 * i, np.float32))
        first, (second,) = result["parts"]
        assert first.buffer is second.buffer is result["whole"].buffer
        assert result["total"] is total
        assert result["count"] == 3
    results[0]["whole"].set(np.zeros(100, np.float32))
    np.testing.assert_array_equal(results[0]["parts"][0].numpy(), np.zeros(50, np.float32))


def test_results_may_be_overwritten_where_that_is_asked_for(stream):
    """The same arrays at each call, and no copy."""
    total = hiprt.zeros(100)

    def function():
        accumulate(x, total)
        return scale(total, 2.0)

    x = hiprt.full(100, 1.0)
    step = graphs.Step(function, stream=stream, overwrite=True)
    first = step()
    assert step() is first
    np.testing.assert_array_equal(first.numpy(), np.full(100, 4, np.float32))


def test_steps_with_results_of_unknown_types_are_recorded_again(stream):
    """Nobody could copy what is inside, so nothing is kept that the next call would write over."""

    class Result:
        def __init__(self, y):
            self.y = y

    total, x = hiprt.zeros(100), hiprt.full(100, 1.0)

    def function():
        accumulate(x, total)
        return Result(scale(total, 2.0))

    step = graphs.Step(function, stream=stream)
    results = [step() for _ in range(3)]
    for i, result in enumerate(results, 1):
        np.testing.assert_array_equal(result.y.numpy(), np.full(100, 2 * i, np.float32))
    assert step.reasons["not kept: its results are inside an object of an unknown type"] == 3
