"""Values, shapes and addresses that change from call to call: what is patched, what is kept, and what is said of it."""

import copy
import itertools
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import fuzz, varied
from helpers.kernels import accumulate, mix, scale

import hiprt
from hiprt import graphs

N = 64


@pytest.fixture
def x(stream):
    """Some input."""
    return hiprt.array(np.arange(N, dtype=np.float32))


def host(by):
    """What `scale` makes of the input."""
    return np.arange(N, dtype=np.float32) * np.float32(by)


def latest():
    """The last event, as it is printed."""
    return str(graphs.explain()[-1])


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_value_that_changes_each_time_makes_few_graphs(stream, x, overwrite):
    """A thousand calls: three graphs, and the memory of a few calls."""
    step = graphs.Step(lambda x, by: scale(scale(x, 1.0), by), stream=stream, overwrite=overwrite)
    for i in range(1000):
        made = step(x, i / 8)
        if i % 50 == 0:
            np.testing.assert_array_equal(made.numpy(), host(i / 8))
    assert step.rungs["instantiate"] <= 3
    assert step.rungs["patch"] + step.rungs["update"] >= 990
    assert len(step.kept) == 1
    assert step.nbytes <= 16384


def test_an_address_that_changes_each_time_makes_few_graphs(stream):
    """The function is called for each, because it may know the memory by another name."""
    arrays = [hiprt.full(N, float(i)) for i in range(100)]
    step = graphs.Step(lambda x: scale(x, 2.0), stream=stream)
    results = [step(array) for array in arrays]
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.full(N, 2 * i, np.float32))
    assert step.rungs["instantiate"] <= 3


def test_a_shape_that_changes_each_time_makes_few_graphs(stream):
    """Where the nodes stay the same, as those of a short array that grows."""
    whole = hiprt.array(np.arange(N, dtype=np.float32))
    step = graphs.Step(lambda x: scale(x, 2.0), stream=stream)
    for n in range(1, N):
        np.testing.assert_array_equal(step(whole[:n]).numpy(), host(2.0)[:n])
    assert step.rungs["instantiate"] <= 6


@pytest.mark.parametrize("values", [(True, False), (1.0, 2.0, 3.0, 4.0), ("a", "b", "c")])
def test_values_that_come_back_are_replayed(stream, x, values):
    """Each has a graph of its own before long, and needs the function no more."""
    calls = []

    def function(x, value):
        calls.append(value)
        return scale(x, float(values.index(value)))

    step = graphs.Step(function, stream=stream)
    for value in itertools.islice(itertools.cycle(values), 100):
        np.testing.assert_array_equal(step(x, value).numpy(), host(values.index(value)))
    assert len(calls) <= 3 * len(values)
    assert step.rungs["replay"] >= 100 - 3 * len(values)


def test_a_value_that_decides_what_is_launched_is_never_patched_in(stream, x):
    """The function is asked, whatever it does with the value."""

    def function(x, by):
        y = scale(x, by * 2 if by < 10 else 1.0)
        return scale(y, 3.0) if int(by) % 2 else y

    step = graphs.Step(function, stream=stream)
    for by in np.random.default_rng(1).integers(0, 20, 200).astype(float).tolist():
        expected = host(by * 2 if by < 10 else 1.0) * np.float32(3 if int(by) % 2 else 1)
        np.testing.assert_array_equal(step(x, by).numpy(), expected)


def test_results_of_other_values_stay(stream, x):
    """Calls share graphs and memory, and no call's results are written over by those of another value."""
    step = graphs.Step(lambda x, by: (scale(x, by), scale(scale(x, by), 2.0)), stream=stream)
    results = [step(x, float(by)) for by in (*range(20), *range(5))]
    for by, (one, two) in zip((*range(20), *range(5)), results):
        np.testing.assert_array_equal(one.numpy(), host(by))
        np.testing.assert_array_equal(two.numpy(), host(by) * 2)


def test_what_the_function_leaves_behind_stays(stream, x):
    """An array that lives on in the function's own state is not written over, where it was recorded each time."""
    history = []

    def function(x, by):
        y = scale(x, by)
        if history:
            y = mix(y, history[-1])
        history.append(y)

    step, last = graphs.Step(function, stream=stream), None
    for by in range(1, 30):
        step(x, float(by))
        last = host(by) if last is None else host(by) * np.float32(0.5) + last[::-1]
        np.testing.assert_array_equal(history[-1].numpy(), last)


@pytest.mark.parametrize("way", range(len(varied.WAYS)))
def test_random_calls_have_the_bits_of_numpy(stream, form, part, way):
    """Values, shapes, structures and addresses in any order."""
    for seed in part(range(1000 * way, 1000 * way + {"short": 5, "usual": 60, "long": 600}[form])):
        assert varied.run(seed, stream=stream, **varied.WAYS[way]) is None


@pytest.mark.every(2)
@pytest.mark.parametrize("profile", fuzz.PROFILES)
def test_random_calls_under_every_profile(root, form, part, profile):
    """The same on imitations of ROCm's releases."""
    seeds = part(range({"short": 5, "usual": 50, "long": 200}[form]))
    child = subprocess.run(
        [sys.executable, "-m", "helpers.varied", "--seed", str(1000 * seeds[0]), "--count", str(len(seeds))],
        cwd=root / "tests",
        env=os.environ | {"HIPRT_CPU_PROFILE": profile},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stdout + child.stderr


# Explanations.


@pytest.mark.parametrize("keep", [True, False])
def test_the_argument_that_changed_is_named(stream, x, keep):
    """Its name, and its value before and now; behind that the first node that differs."""
    step = graphs.Step(lambda tokens, factor: scale(tokens, factor), stream=stream, keep=keep, name="named")
    for i in range(8):
        step(x, 1.0 + i)
        stream.synchronize()
    assert re.match(
        r"named \[\w+\] (patch|update): another value of argument factor: arguments of 1 of 1 nodes changed; "
        r"argument factor: 7.0 -> 8.0; node 0 \(scale\) by: [\d.]+ -> 8.0 ",
        latest(),
    )
    reasons = [reason for reason in step.reasons if "another value of argument factor" in reason]
    assert sum(step.reasons[reason] for reason in reasons) == 7


def test_a_pointer_that_changes_is_named(stream):
    """The argument by its name, with both addresses."""
    made = [hiprt.zeros(N) for _ in range(6)]
    step = graphs.Step(lambda source, cache: accumulate(source, cache), stream=stream, name="pointers")
    for cache in made:
        step(made[0], cache)
    assert f"argument cache: {made[4].address:#x} -> {made[5].address:#x}" in latest()
    assert any("another address of argument cache" in reason for reason in step.reasons)


@pytest.mark.parametrize(
    ("change", "aspect", "old", "new"),
    [
        (lambda a: a.view(np.int32), "dtype", "float32", "int32"),
        (lambda a: a[: N // 2], "shape", "(64,)", "(32,)"),
        (lambda a: a[::-1], "layout", "strides (1,)", "strides (-1,)"),
        (lambda a: 7, "type", "array", "int"),
    ],
)
def test_each_thing_that_may_differ_has_a_reason(stream, x, change, aspect, old, new):
    """Shapes, dtypes and layouts are not called values."""
    step = graphs.Step(lambda given: scale(x, 2.0), stream=stream)
    step(x)
    step(change(x))
    difference = step.latest.difference(graphs.arguments.Arguments((x,), {}, ("given",)))
    assert (difference.name, difference.aspect, difference.old, difference.new) == ("given", aspect, old, new)


def test_alignment_has_a_reason_of_its_own(stream):
    """A view that begins anywhere may need other kernels."""
    whole = hiprt.zeros(4 * N)
    one, two = (graphs.arguments.Arguments((whole[at : at + N],), {}, ("part",)) for at in (0, 1))
    assert two.difference(one).reason == "another alignment of argument part"


def test_differences_inside_structures_have_paths():
    """Keywords, lists and dictionaries; the most important difference comes first, the others are counted."""
    arguments = graphs.arguments.Arguments
    before = arguments((1,), {"weights": {"a": [1.0, 2.0]}, "mode": "x"}, ("n",))
    assert str(arguments((1,), {"weights": {"a": [1.0, 3.0]}, "mode": "y"}, ("n",)).difference(before)) == (
        "argument weights['a'][1]: 2.0 -> 3.0 (and 1 other argument)"
    )
    assert str(arguments((1,), {"weights": {"a": [1.0]}, "mode": "x"}, ("n",)).difference(before)) == (
        "argument weights['a'][1]: given -> not given"
    )
    assert arguments((1,), {"weights": {"a": [1.0, 2.0]}, "mode": "x"}, ("n",)).difference(before) is None


def test_many_graphs_of_one_step_are_warned_of_once(stream, caplog):
    """At the tenth, with the argument and what would help."""
    step = graphs.Step(lambda rows: scale(rows, 2.0), stream=stream, name="many")
    for n in range(1, 15):
        step(hiprt.zeros(64 * n))
    (warning,) = [record.getMessage() for record in caplog.records if "instantiated" in record.getMessage()]
    assert warning == (
        "step many: 10 graphs were instantiated, the last one because of argument rows: (576,) -> (640,). Pad it to a "
        "few shapes: each shape has a graph of its own"
    )


def test_a_split_names_the_line_and_the_array(stream, x):
    """And what would avoid it."""

    def function(x):
        y = scale(x, 2.0)
        return scale(x, float(y.numpy()[3]))

    step = graphs.Step(function, stream=stream, name="split here")
    step(x)
    (event,) = [event for event in graphs.explain() if event.step == "split here" and event.rung == "split"]
    line = function.__code__.co_firstlineno + 2
    assert event.reason == "host read of an array"
    assert event.difference == (
        f"{__file__}:{line} in function; float32 array of shape (64,), written by node 0 (scale); read it behind the "
        "step, or decide on the device"
    )


# What an argument may be.


def test_keywords_lists_and_dictionaries_are_replayed(stream, x):
    """By what is inside, whatever object that is in."""
    calls = []

    def function(x, *, scale_by=1.0, weights=None, shape=()):
        calls.append(1)
        return mix(scale(x, scale_by * shape[0]), weights["w"][0])

    w = hiprt.full(N, 2.0)
    step = graphs.Step(function, stream=stream)
    for _ in range(5):
        made = step(x, scale_by=2.0, weights={"w": [w]}, shape=[3, 4])
        np.testing.assert_array_equal(made.numpy(), host(6) * np.float32(0.5) + 2)
    assert len(calls) == 1
    assert step.rungs["replay"] == 4
    made = step(x, scale_by=2.0, weights={"w": [x]}, shape=[3, 4])
    np.testing.assert_array_equal(made.numpy(), host(6) * np.float32(0.5) + host(1)[::-1])


def test_what_was_changed_where_it_is_is_another_argument(stream, x):
    """A list, a dictionary or a numpy array may be the same object and not the same value."""
    step = graphs.Step(lambda x, by: scale(x, float(by["by"][0])), stream=stream)
    for inside in ([1.0], np.ones(1, np.float32)):
        by = {"by": inside}
        for value in (1.0, 2.0, 2.0, 3.0):
            inside[0] = value
            np.testing.assert_array_equal(step(x, by).numpy(), host(value))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (np.float32(2), np.float64(2)),
        (np.float32(0.0), np.float32(-0.0)),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([1, 2], np.int32), np.array([1, 2], np.int64)),
        ([1], (1,)),
        ([1, [2]], [[1], 2]),
        ({"a": 1}, {"b": 1}),
        ((0.0,), (-0.0,)),
        ({"a": [True]}, {"a": [1]}),
    ],
    ids=repr,
)
def test_what_is_not_the_same_argument(one, two):
    """Types, signs of zero and structure count; equal contents are equal."""
    of = graphs.signature.signature_of
    assert of((one,), moves=False) != of((two,), moves=False)
    assert of((one,), moves=False) == of((copy.deepcopy(one),), moves=False)


def test_keywords_are_no_dictionary():
    """A dictionary by position is another call than its entries by name."""
    of = graphs.signature.signature_of
    assert of(({"a": 1},), moves=False) != of((), {"a": 1}, moves=False)


def test_what_is_no_argument_says_what_to_pass(stream):
    """Sets cannot be compared, and large arrays would be at each call."""
    step = graphs.Step(lambda value: None, stream=stream)
    with pytest.raises(TypeError, match="unhashable argument of type set"):
        step([{1}])
    with pytest.raises(TypeError, match=r"numpy array of 80,000 bytes.*pass hiprt.array"):
        step(np.zeros(10_000))
    with pytest.raises(TypeError, match="its objects cannot be compared"):
        step(np.array([object()]))


# Memory.


def test_memory_of_kept_calls_is_bounded(stream):
    """The least recently used call goes; the statistics say what is held and what was dropped."""
    arrays = [hiprt.zeros((1 << 16) + 64 * i) for i in range(12)]  # a quarter of a MiB each
    step = graphs.Step(lambda x: scale(x, 2.0), stream=stream, name="bounded memory", overwrite=True)
    with hiprt.flags.override(graph_keep_mb=1):
        for array in arrays:
            step(array)
    counts = graphs.stats()["bounded memory"]
    assert counts["signatures"] == len(step.kept) == 3
    assert 0 < counts["nbytes"] <= 1 << 20
    assert step.reasons["dropped: the calls that are kept take more than HIPRT_GRAPH_KEEP_MB"] == 9
    calls = step.rungs["instantiate"]
    step(arrays[-1])
    assert step.rungs["instantiate"] == calls
    with hiprt.flags.override(graph_keep_mb=0):
        for array in arrays:
            step(array)
    assert len(step.kept) == 12
    step.forget()
    assert (graphs.stats()["bounded memory"]["signatures"], graphs.stats()["bounded memory"]["nbytes"]) == (0, 0)


def test_graphs_made_for_other_nodes_name_the_first(stream, x, caplog):
    """Where no argument differs, for a step that takes what it launches from elsewhere."""
    layers = []

    def function():
        y = scale(x, 1.0)
        for _ in layers:
            y = mix(y, x)

    step = graphs.Step(function, stream=stream, keep=False, name="grows")
    for _ in range(10):
        layers.append(1)
        step()
    assert "instantiate: first of this topology; node 10 (mix) is launched besides" in latest()
    assert "10 graphs were instantiated" in caplog.text
    assert "No argument differs from the call before" in caplog.text


def test_moved_arrays_are_named(stream):
    """Those of moves=True, which are patched without the function."""
    arrays = [hiprt.full(N, float(i)) for i in range(2)]
    step = graphs.Step(lambda first, moving: mix(first, moving), stream=stream, moves=True, name="moving")
    for moving in arrays:
        step(arrays[0][::2], moving[::2])
    assert "moving" in step.name
    assert f"argument moving: {arrays[0].address:#x} -> {arrays[1].address:#x}" in latest()


def test_topologies_are_compared_by_the_first_node_that_differs(stream, x):
    """Other sizes, another number of nodes, other edges."""

    def recorded(work):
        recording = graphs.Recording()
        with recording.record(stream):
            recording.keep.append(work())
        return recording

    large, y = hiprt.zeros(8 * N), hiprt.zeros(N)
    one = recorded(lambda: scale(x, 2.0))
    assert one.first_other(recorded(lambda: scale(large, 2.0))) == (
        "node 0: scale 1x1x1 of 64x1x1 -> scale 8x1x1 of 64x1x1"
    )
    two = recorded(lambda: (accumulate(x, y), accumulate(y, x)))
    assert one.first_other(two) == "node 0: scale 1x1x1 of 64x1x1 -> accumulate 1x1x1 of 64x1x1"
    assert two.first_other(recorded(lambda: (accumulate(x, y), accumulate(large[:N], large[N : 2 * N])))) == (
        "the same nodes, with other edges"
    )
    assert two.first_other(recorded(lambda: accumulate(x, y))) == "node 1 (accumulate) is not launched"
