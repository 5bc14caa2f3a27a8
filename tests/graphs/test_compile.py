"""compile: what is traced when, what a compiled function returns and writes, and that its bits are those of the ops."""

import gc
import threading
import time
import warnings
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import stats, trim
from hiprt.errors import HipWarning
from hiprt.flags import flags
from hiprt.graphs.trace.core import Primitive
from hiprt.metal_compat import metal_kernel


def ramp(*shape, dtype=np.float32):
    return hiprt.array((np.arange(np.prod(shape, dtype=int)) % 7 - 2).reshape(shape).astype(dtype))


def counted(function):
    """Return the function and a list that grows with each call of it."""
    calls = []

    def counting(*args, **kwargs):
        calls.append(1)
        return function(*args, **kwargs)

    return counting, calls


def double(x, *_args, **_kwargs):
    return kernels.add(x, x)


# What is traced when


@pytest.mark.parametrize(
    ("calls", "traces"),
    [
        ([lambda f: f(ramp(3)), lambda f: f(ramp(3))], 1),
        ([lambda f: f(ramp(3)), lambda f: f(ramp(4)), lambda f: f(ramp(3))], 2),
        ([lambda f: f(ramp(3)), lambda f: f(ramp(3, dtype=np.int32))], 2),
        ([lambda f: f(ramp(3)), lambda f: f(ramp(1, 3))], 2),
        ([lambda f: f(ramp(3, 2)), lambda f: f(ramp(2, 3).T)], 2),
        ([lambda f: f(ramp(3), 1), lambda f: f(ramp(3), 1), lambda f: f(ramp(3), 2)], 2),
        ([lambda f: f(ramp(3), 1), lambda f: f(ramp(3), True), lambda f: f(ramp(3), 1.0)], 3),
        ([lambda f: f(ramp(3), 0.0), lambda f: f(ramp(3), -0.0), lambda f: f(ramp(3), 0.0)], 2),
        ([lambda f: f(ramp(3), float("nan")), lambda f: f(ramp(3), float("nan"))], 1),
        ([lambda f: f(ramp(3), "a"), lambda f: f(ramp(3), None), lambda f: f(ramp(3), "a")], 2),
        ([lambda f: f(ramp(3), [ramp(2)]), lambda f: f(ramp(3), (ramp(2),))], 2),
        ([lambda f: f(ramp(3), [ramp(2)], ramp(2)), lambda f: f(ramp(3), [ramp(2), ramp(2)])], 2),
        ([lambda f: f(ramp(3), a=1, b=2), lambda f: f(ramp(3), b=2, a=1)], 2),
        ([lambda f: f(ramp(3), {"a": ramp(1)}), lambda f: f(ramp(3), {"b": ramp(1)})], 2),
    ],
)
def test_when_it_is_traced_again(calls, traces):
    function, seen = counted(double)
    compiled = hiprt.compile(function)
    for call in calls:
        call(compiled)
    assert len(seen) == compiled.traces == traces


def test_results_have_the_tree_that_the_function_returns():
    compiled = hiprt.compile(lambda x: {"a": [kernels.exp(x), 3], "b": ("s", None, x), "c": object})
    x = ramp(4)
    for _ in range(3):
        made = compiled(x)
        assert list(made) == ["a", "b", "c"]
        assert made["a"][1] == 3
        assert made["b"][:2] == ("s", None)
        assert made["c"] is object
        np.testing.assert_array_equal(made["a"][0].numpy(), kernels.exp(x).numpy())
        np.testing.assert_array_equal(made["b"][2].numpy(), x.numpy())
    assert hiprt.compile(lambda x: None)(x) is None
    assert hiprt.compile(lambda: 7)() == 7


def test_containers_are_new_at_each_call():
    """Also where nothing in them is copied, because it is the caller's."""
    compiled = hiprt.compile(lambda x: ([kernels.add(x, 1.0, out=x)], {"a": x}))
    x = ramp(4)
    made = [compiled(x) for _ in range(4)]
    assert all(each[0][0] is x and each[1]["a"] is x for each in made)
    assert len({id(each[0]) for each in made}) == len({id(each[1]) for each in made}) == 4
    made[-1][0].append("mine")
    assert len(compiled(x)[0]) == 1


def test_arrays_that_share_memory_share_its_copy():
    def function(x):
        y = kernels.exp(x)
        return y, y[1:], x

    compiled, x = hiprt.compile(function), ramp(5)
    for _ in range(4):
        whole, part, given = compiled(x)
        assert part.buffer is whole.buffer
        assert given is x
        np.testing.assert_array_equal(part.numpy(), whole.numpy()[1:])
        np.testing.assert_array_equal(whole.numpy(), kernels.exp(x).numpy())


def test_many_arguments():
    """As many arrays as a model has weights, in a tree."""
    weights = {"layers": [{"w": ramp(2), "b": ramp(2)} for _ in range(600)]}
    compiled = hiprt.compile(lambda x, tree: kernels.add(x, tree["layers"][-1]["b"]))
    for _ in range(3):
        np.testing.assert_array_equal(compiled(ramp(2), weights).numpy(), 2 * ramp(2).numpy())
    assert compiled.traces == 1


def test_calls_follow_the_stream_of_their_caller():
    compiled, x = hiprt.compile(double), ramp(4)
    streams = [hiprt.Stream() for _ in range(2)]
    for stream in (*streams, *streams, hiprt.current_stream()):
        with hiprt.use_stream(stream):
            before = stream.launches
            for _ in range(3):
                made = compiled(x)
            np.testing.assert_array_equal(made.numpy(), double(x).numpy())
        assert stream.launches > before
    assert compiled.traces == 1
    assert len(compiled.steps) == 3
    for stream in streams:
        stream.close()
    np.testing.assert_array_equal(compiled(x).numpy(), double(x).numpy())


def test_results_stay_as_they_were():
    compiled = hiprt.compile(double)
    made = [compiled(hiprt.full((4,), float(i))) for i in range(5)]
    assert [array.numpy()[0] for array in made] == [0, 2, 4, 6, 8]


def test_constants_and_other_objects_are_refused():
    compiled = hiprt.compile(double)
    for wrong in (np.zeros(3), np.dtype(np.float32), 1j, {1}, b"", object()):
        with pytest.raises(ValueError, match=r"\[compile\] Function arguments must be trees of arrays or constants"):
            compiled(ramp(3), wrong)
    for number in (np.zeros(3), np.float32(1)):
        with pytest.raises(ValueError, match=r"received type \w+\. hiprt\.array\(\) makes an array of it\."):
            compiled(number)
    with pytest.raises(TypeError, match="not callable"):
        hiprt.compile(3)


def test_a_tree_that_contains_itself():
    tree = [ramp(3)]
    tree.append(tree)
    with pytest.raises(RecursionError):
        hiprt.compile(lambda tree: double(tree[0]))(tree)


def test_a_parameter_may_be_called_self(tmp_path):
    def function(self):
        return double(self)

    hiprt.export_function(tmp_path / "f.hiprt", function, self=ramp(3))
    imported = hiprt.import_function(tmp_path / "f.hiprt")
    bucketed = hiprt.bucketed(0, [4])(function)
    for call in (hiprt.compile(function), graphs.Step(function), bucketed, lambda **named: imported(**named)[0]):
        np.testing.assert_array_equal(call(self=ramp(3)).numpy(), 2 * ramp(3).numpy())


def test_as_a_decorator():
    @hiprt.compile
    def plain(x):
        """Say."""
        return kernels.exp(x)

    @hiprt.compile(shapeless=True)
    def shapeless(x):
        return kernels.exp(x)

    assert plain.__name__ == "plain"
    assert plain.__doc__ == "Say."
    assert "exp" not in plain.program
    for n in (3, 4):
        np.testing.assert_array_equal(plain(ramp(n)).numpy(), shapeless(ramp(n)).numpy())
    assert (plain.traces, shapeless.traces) == (2, 1)
    assert "exp(%0)" in plain.program
    assert "exp(%0)" in plain.explain()


def test_side_effects_happen_once():
    said = []
    compiled = hiprt.compile(lambda x: said.append(x.shape) or kernels.exp(x))
    for _ in range(3):
        compiled(ramp(4))
    assert said == [(4,)]


def test_the_collector_rests_while_a_function_is_traced():
    """A trace makes thousands of objects, and a collection looks at every object of the process."""
    begun = []

    def function(x):
        begun.clear()
        for _ in range(100):
            x = kernels.exp(x)
        calls.append(len(begun))
        return x

    calls, thresholds = [], gc.get_threshold()
    gc.callbacks.append(lambda phase, info: begun.append(phase))
    try:
        gc.set_threshold(10)
        hiprt.compile(function).trace((ramp(3),), {})
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.pop()
    assert calls == [0]
    assert gc.isenabled()


def test_what_no_better_program_uses_is_gone():
    def function(x):
        for _ in range(30):
            x = kernels.maximum(kernels.multiply(kernels.add(x, y), 0.5), kernels.multiply(x, 0.25))
        return x

    def alive():
        gc.collect()
        return sum(type(each) is Primitive for each in gc.get_objects())

    y, before = ramp(4), alive()
    compiled = hiprt.compile(function)
    compiled(ramp(4))
    assert alive() - before <= len(compiled.programs[0]) + 1  # an input has one, too


def test_an_error_leaves_nothing_behind():
    fails = [True]

    def function(x):
        if fails[0]:
            raise KeyError("once")
        return kernels.exp(x)

    compiled = hiprt.compile(function)
    with pytest.raises(KeyError):
        compiled(ramp(3))
    fails[0] = False
    np.testing.assert_array_equal(compiled(ramp(3)).numpy(), kernels.exp(ramp(3)).numpy())
    assert compiled.traces == 1
    assert len(compiled.programs) == 1


def test_host_reads_name_the_line():
    def function(x):
        y = kernels.exp(x)
        return y if y.item() > 1 else x

    with pytest.raises(ValueError, match=r"\[eval\] .*test_compile\.py:\d+ in function: item\(\) needs the contents"):
        hiprt.compile(function)(ramp(1))


def test_captured_arrays():
    """Their contents are read at each call; another array under the same name is not seen."""
    held = {"weight": hiprt.full((4,), 2.0)}
    compiled = hiprt.compile(lambda x: kernels.multiply(x, held["weight"]))
    x = hiprt.full((4,), 3.0)
    assert compiled(x).numpy()[0] == 6
    held["weight"].set([5.0] * 4)
    assert compiled(x).numpy()[0] == 15
    held["weight"] = hiprt.zeros(4)
    assert compiled(x).numpy()[0] == 15


@pytest.mark.parametrize("order", ["xxwxxwx", "wxx", "wwx"])
def test_a_captured_array_is_an_argument_as_well(order):
    """What is patched in the place of the argument does not take the place of what was captured."""
    w = hiprt.array(np.array([10, 20], np.float32))
    compiled = hiprt.compile(lambda x: kernels.add(x, w))
    for i, each in enumerate(order):
        x = w if each == "w" else hiprt.array(np.array([i, i], np.float32))
        expected = x.numpy() + w.numpy()
        np.testing.assert_array_equal(compiled(x).numpy(), expected)


def test_captured_inputs_and_outputs():
    state = {"weight": hiprt.full((4,), 2.0), "steps": [hiprt.zeros(1)], "name": "s"}

    def function(x):
        state["steps"][0] = kernels.add(state["steps"][0], 1.0)
        state["sum"] = kernels.sum(state["weight"])
        return kernels.multiply(x, state["weight"])

    compiled = hiprt.compile(function, inputs=state, outputs=state)
    x, steps = hiprt.full((4,), 3.0), state["steps"]
    for i in range(1, 5):
        assert compiled(x).numpy()[0] == 6
        assert state["steps"] is steps
        assert steps[0].numpy()[0] == i
        assert state["sum"].item() == 8
    assert compiled.traces == 2, "the second call found the new entry"
    state["weight"] = hiprt.full((4,), 10.0)
    assert compiled(x).numpy()[0] == 30
    assert state["sum"].item() == 40
    assert compiled.traces == 2


class State(NamedTuple):
    """A tuple with names."""

    first: hiprt.Array
    second: list[hiprt.Array]


def test_tuples_in_captured_state():
    """Others are put in their place; lists and dictionaries in them stay what they were."""
    steps, fixed = [hiprt.zeros(1)], ("name", ())
    state = {"pair": State(hiprt.full((1,), 2.0), steps), "fixed": fixed}

    def function(x):
        steps[0] = kernels.add(steps[0], 1.0)
        state["pair"] = State(kernels.multiply(state["pair"].first, 2.0), steps)
        return kernels.multiply(x, state["pair"].first)

    compiled = hiprt.compile(function, inputs=state, outputs=state)
    for i in range(1, 5):
        assert compiled(hiprt.full((1,), 3.0)).item() == 3 * 2 ** (i + 1)
        assert type(state["pair"]) is State
        assert state["pair"].second is steps
        assert state["fixed"] is fixed
        assert steps[0].item() == i
    assert compiled.traces == 1
    alone = (hiprt.zeros(1), steps)
    with pytest.raises(TypeError, match="not in a tuple alone"):
        hiprt.compile(lambda: alone[0], inputs=alone)()
    assert steps[0].item() == 4


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((4,), (2,))])
def test_captured_inputs_are_seen_by_another_thread_as_they_are(shapes):
    """It calls the function while this one traces it: the state has values without contents then."""
    state, made, threads = {"weight": hiprt.full((1,), 2.0)}, [], []

    def other():
        made.append(compiled(hiprt.full(shapes[1], 3.0)).numpy())

    def function(x):
        if not threads:
            threads.append(threading.Thread(target=other))
            threads[0].start()
            time.sleep(0.05)
        return kernels.multiply(x, state["weight"])

    compiled = hiprt.compile(function, inputs=state)
    np.testing.assert_array_equal(compiled(hiprt.full(shapes[0], 4.0)).numpy(), np.full(shapes[0], 8))
    threads[0].join()
    np.testing.assert_array_equal(made[0], np.full(shapes[1], 6))
    assert compiled.traces == len(set(shapes))


def test_a_value_that_is_left_behind_names_the_remedy():
    """What the function leaves in a dictionary that is not named is no array, and says what to do."""
    state = {"sum": hiprt.zeros(4)}

    def function(x):
        state["sum"] = kernels.add(state["sum"], x)

    hiprt.compile(function)(ramp(4))
    with pytest.raises(ValueError, match=r"\[eval\] .*test_compile\.py:\d+ in .*left behind.* outputs=\.\.\.\)"):
        state["sum"].numpy()


def test_state_is_as_before_after_an_error():
    state = [hiprt.zeros(4)]
    before = state[0]

    def function():
        state[0] = kernels.exp(state[0])
        raise KeyError

    with pytest.raises(KeyError):
        hiprt.compile(function, inputs=state, outputs=state)()
    assert state == [before]


def test_writes_in_place_reach_the_callers_arrays():
    """As they do without compile, also through a view, and into an array that was captured."""
    held = [hiprt.zeros((2, 5, 4))]

    def function(cache, x, position):
        kernels.kv_write(cache[:2], x, position)
        kernels.kv_write(held[0], x, position)
        kernels.add(cache[2], 1.0, out=cache[2])
        return kernels.sum(cache)

    x, position = ramp(2, 4), hiprt.array(np.array([3], np.int32))
    mine, its, captured = hiprt.zeros((4, 5, 4)), hiprt.zeros((4, 5, 4)), held[0]
    compiled = hiprt.compile(function)
    found = [compiled(mine, x, position).item() for _ in range(3)]
    held[0] = hiprt.zeros((2, 5, 4))
    assert found == [function(its, x, position).item() for _ in range(3)]
    np.testing.assert_array_equal(mine.numpy(), its.numpy())
    np.testing.assert_array_equal(captured.numpy(), held[0].numpy())


def test_disable_and_enable():
    function, calls = counted(double)
    compiled = hiprt.compile(function)
    compiled(ramp(3))
    hiprt.disable_compile()
    try:
        compiled(ramp(3))
        compiled(ramp(3))
    finally:
        hiprt.enable_compile()
    assert len(calls) == 3
    with flags.override(compile=False):
        compiled(ramp(3))
    compiled(ramp(3))
    assert len(calls) == 4
    assert compiled.traces == 1


def test_compiled_in_compiled_is_inlined():
    inner = hiprt.compile(double)
    outer = hiprt.compile(lambda x: kernels.exp(inner(x)))
    np.testing.assert_array_equal(outer(ramp(3)).numpy(), kernels.exp(double(ramp(3))).numpy())
    assert inner.traces == 0
    assert "'v0 = add(x0, x0); v1 = exp(v0); return v1'" in outer.program


def test_compiled_in_a_step_is_inlined():
    inner, x = hiprt.compile(double), ramp(3)
    step = graphs.Step(lambda: kernels.exp(inner(x)))
    for _ in range(4):
        np.testing.assert_array_equal(step().numpy(), kernels.exp(double(x)).numpy())
    assert step.nodes == 2
    assert step.rungs["replay"] == 3
    assert inner.traces == 1


@pytest.mark.parametrize("calls", [0, 3])
def test_a_step_in_compiled_is_inlined(calls):
    """Also one that would launch its graph without Python: it is a part of the program, and runs at each call."""
    state, x = hiprt.zeros(3), ramp(3)
    step = graphs.Step(lambda: kernels.add(state, 1.0, out=state))
    scaled = graphs.Step(lambda x, n: kernels.multiply(x, n), varying={"n": np.float32})
    for _ in range(calls):
        step()
        scaled(x, 2.0)

    @hiprt.compile
    def function(x):
        return kernels.add(scaled(x, 2.0), step())

    for i in range(calls + 1, calls + 4):
        np.testing.assert_array_equal(function(x).numpy(), 2 * x.numpy() + i)
    assert function.traces == 1


def test_one_launch_a_call():
    compiled = hiprt.compile(lambda x: kernels.exp(kernels.add(kernels.softmax(x), x)), outputs=None)
    x = ramp(4, 8)
    compiled(x)
    stream = hiprt.current_stream()
    before = stream.launches
    for _ in range(10):
        compiled(x)
    assert stream.launches - before == 10
    assert compiled.steps[0].rungs["replay"] == 10


def test_another_stream_and_another_thread():
    compiled, x = hiprt.compile(double), ramp(3)
    found = []

    def call():
        found.append(compiled(x).numpy())

    call()
    with hiprt.use_stream(hiprt.Stream()):
        call()
    other = threading.Thread(target=call)
    other.start()
    other.join()
    assert all((each == 2 * x.numpy()).all() for each in found)
    assert len(found) == 3
    assert compiled.traces == 1


def test_streams_that_are_closed_leave_nothing():
    """A server may open a stream for each request."""
    compiled, x = hiprt.compile(lambda x: double(double(x))), ramp(1000)
    reserved = []
    for _ in range(8):
        with hiprt.Stream() as stream, hiprt.use_stream(stream):
            np.testing.assert_array_equal(compiled(x).numpy(), 4 * x.numpy())
        trim()
        reserved.append(stats()["reserved"])
    assert reserved[-1] == reserved[2]
    assert compiled.traces == 1


def test_many_traces_warn_once_and_are_bounded():
    compiled = hiprt.compile(double)
    x = ramp(3)
    for i in range(31):
        compiled(x, i)
    with pytest.warns(HipWarning, match="double was traced 32 times"):
        compiled(x, 31)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(32, 300):
            compiled(x, i)
    assert len(compiled.programs) == 256


# shapeless


def test_shapeless_uses_sizes_as_numbers():
    def function(x):
        flat = x.reshape(x.shape[0] * x.shape[1], -1)
        last = kernels.add(x[-1], kernels.astype(kernels.arange(x.shape[1]), np.float32)[:, None])
        halves = kernels.add(x[: x.shape[0] // 2], 1.0)
        return flat, last, halves, x.reshape(-1, x.shape[-1])

    compiled = hiprt.compile(function, shapeless=True)
    for shape in ((4, 3, 2), (5, 3, 2), (1, 7, 5), (6, 1, 1)):
        x = ramp(*shape)
        for mine, its in zip(compiled(x), function(x)):
            assert mine.shape == its.shape
            np.testing.assert_array_equal(mine.numpy(), its.numpy())
    assert compiled.traces == 1


def test_shapeless_returns_sizes_as_numbers():
    """A size that is returned, or left in the state, is the one of the call."""
    state = {"rows": 0}

    def function(x):
        state["rows"] = x.shape[0]
        return [kernels.exp(x), x.shape], x.shape[0] // 2, divmod(x.shape[0], 3)

    compiled = hiprt.compile(function, outputs=state, shapeless=True)
    for n in (3, 5, 3, 8):
        (_, shape), half, divided = compiled(ramp(n))
        assert (shape, half, divided, state["rows"]) == ((n,), n // 2, divmod(n, 3), n)
        assert type(shape[0]) is type(half) is type(state["rows"]) is int
    assert compiled.traces == 3


def test_shapeless_is_traced_again_where_an_answer_changes():
    def function(x):
        if x.shape[0] > 4:
            return kernels.exp(x)
        return kernels.add(x, float(len(range(x.shape[0]))))

    compiled = hiprt.compile(function, shapeless=True)
    for n, traces in ((3, 1), (5, 2), (9, 2), (4, 3), (3, 3)):
        np.testing.assert_array_equal(compiled(ramp(n)).numpy(), function(ramp(n)).numpy())
        assert compiled.traces == traces
    assert "assert %0.shape[0] > 4" in compiled.explain()
    assert "assert not %0.shape[0] > 4" in compiled.explain()


def test_shapeless_is_traced_again_for_axes_dtypes_and_constants():
    compiled = hiprt.compile(double, shapeless=True)
    for call, traces in (
        (lambda: compiled(ramp(3)), 1),
        (lambda: compiled(ramp(9)), 1),
        (lambda: compiled(ramp(3, 3)), 2),
        (lambda: compiled(ramp(3, dtype=np.float16)), 3),
        (lambda: compiled(ramp(3), 1), 4),
        (lambda: compiled(ramp(0)), 4),
    ):
        call()
        assert compiled.traces == traces


def test_shapeless_refuses_what_it_cannot_infer_before_anything_runs():
    """The primitive and the remedy are named; nothing was launched."""
    held = ramp(4)
    compiled = hiprt.compile(lambda x: kernels.add(kernels.exp(x), held), shapeless=True)
    compiled(ramp(4))
    stream = hiprt.current_stream()
    x, before = ramp(5), stream.launches
    with pytest.raises(ValueError, match=r"fused of the program cannot take the shapes \(5,\), \(4,\): \[add\] Shapes"):
        compiled(x)
    assert stream.launches == before
    np.testing.assert_array_equal(compiled(ramp(4)).numpy(), kernels.add(kernels.exp(ramp(4)), held).numpy())


def test_shapeless_refusals_are_sentences():
    compiled = hiprt.compile(lambda x: x.reshape(-1), shapeless=True)
    compiled(ramp(4, 3))
    with pytest.raises(ValueError, match=r"reshape .* call contiguous\(\) first\. A number .* for each set"):
        compiled(ramp(3, 4).T)


@pytest.mark.parametrize("way", ["graph", "eager", "in a step"])
def test_shapeless_writes_nothing_where_an_op_refuses(way):
    """Neither in a graph of its own, nor without graphs, nor behind other work of a step that goes on."""
    held, state = ramp(4), ramp(4)

    def function(x):
        kernels.copyto(state, kernels.multiply(state, 2.0))
        return kernels.add(x, held)

    compiled, refused = hiprt.compile(function, shapeless=True), []

    def call(x):
        out = kernels.exp(x)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"cannot take the shapes \(5,\), \(4,\)"):
                compiled(x)
            refused.append(x)
        return out

    compiled(ramp(4))
    before = state.numpy()
    with hiprt.flags.override(graph=way != "eager"):
        (graphs.Step(call) if way == "in a step" else call)(ramp(5))
    assert refused
    np.testing.assert_array_equal(state.numpy(), before)


def test_shapeless_custom_kernels():
    """Sizes of values, functions of shapes, and constants: shape and grid are right for 4 and then 8 elements."""
    body = "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];"
    kernel = metal_kernel("double", ["x"], ["y"], body)

    def by_sizes(x):
        return kernel(
            inputs=[x], output_shapes=[x.shape], output_dtypes=[x.dtype], grid=(x.size, 1, 1), threadgroup=(4, 1, 1)
        )[0]

    def by_functions(x):
        return kernel(
            inputs=[x],
            output_shapes=lambda shape: [shape],
            output_dtypes=[x.dtype],
            grid=lambda shape: (shape[0], 1, 1),
            threadgroup=(4, 1, 1),
        )[0]

    for function in (by_sizes, by_functions):
        compiled = hiprt.compile(function, shapeless=True)
        for n in (4, 8, 3, 100):
            np.testing.assert_array_equal(compiled(ramp(n)).numpy(), 2 * ramp(n).numpy())
        assert compiled.traces == 1
    assert "grid=test_shapeless_custom_kernels.<locals>.by_functions.<locals>.<lambda>, thr" in compiled.program
    fixed = hiprt.compile(
        lambda x: kernel(
            inputs=[x], output_shapes=[(2,)], output_dtypes=[x.dtype], grid=(2, 1, 1), threadgroup=(2, 1, 1)
        )[0],
        shapeless=True,
    )
    assert [fixed(ramp(n)).shape for n in (4, 8)] == [(2,), (2,)]


def test_shapeless_gather_qmm_with_another_batch():
    """Default indices follow the batch of the call, not that of the trace."""
    w, scales, biases = kernels.quantize(ramp(4, 8, 64))
    compiled = hiprt.compile(
        lambda x, right: kernels.gather_qmm(x, w, scales, biases, rhs_indices=right, transpose=True), shapeless=True
    )
    for rows in (2, 5):
        x, right = ramp(rows, 1, 64), hiprt.array((np.arange(rows) % 4).astype(np.uint32))
        exact = kernels.gather_qmm(x, w, scales, biases, rhs_indices=right, transpose=True)
        assert compiled(x, right).shape == (rows, 1, 8)
        np.testing.assert_array_equal(compiled(x, right).numpy(), exact.numpy())
    assert compiled.traces == 1


@pytest.mark.parametrize(("op", "arrays"), [("exp", 1), ("softmax", 2), ("sort", 3)])
def test_a_chain_takes_the_memory_of_its_widest_place(op, arrays):
    """Elementwise kernels write over their operand at its last use; others need a second array, and sort a third."""
    x = ramp(64, 256)

    def chain(x, length):
        for _ in range(length):
            x = getattr(kernels, op)(x)
        return x

    with flags.override(compile_passes=("simplify", "dead_code")):
        sizes = []
        for length in (4, 16):
            compiled = hiprt.compile(chain)
            for _ in range(3):
                made = compiled(x, length)
            np.testing.assert_array_equal(made.numpy(), chain(x, length).numpy())
            (step,) = compiled.steps
            sizes.append(sum(plan.nbytes for plan in step.plans))
    assert sizes[0] == sizes[1]
    assert sizes[0] <= arrays * x.nbytes + 8192, sizes


class Pair(NamedTuple):
    """Two arrays by name."""

    a: hiprt.Array
    b: hiprt.Array


class Values(list):
    """A list of a class of its own."""


@pytest.mark.parametrize("make", [Pair, lambda *pair: Values(pair)])
def test_sequences_of_other_classes(stream, make):
    """Their arrays are read at each call, and results of such a class are made anew."""
    x, y = (hiprt.full(4, number) for number in (1.0, 10.0))
    compiled = hiprt.compile(lambda pair: make(kernels.subtract(*pair), pair[0]))
    for _ in range(2):
        for one, other in ((x, y), (y, x)):
            made = compiled(make(one, other))
            assert type(made) is type(make(x, y))
            assert made[0].numpy().tolist() == (one.numpy() - other.numpy()).tolist()
    assert compiled.traces == 1
    joined = hiprt.compile(lambda x, y: kernels.concatenate(make(x, y)))
    assert joined(x, y).numpy().tolist() == [1] * 4 + [10] * 4
    assert joined(y, x).numpy().tolist() == [10] * 4 + [1] * 4


def test_dictionaries_of_other_classes(stream):
    """Their arrays come in the order that the class shows, which is not that in which they were put there."""
    x, y = (hiprt.full(4, number) for number in (1.0, 10.0))
    compiled = hiprt.compile(lambda pair: kernels.subtract(pair["a"], pair["b"]))
    for one, other in ((x, y), (y, x)):
        turned = OrderedDict(a=one, b=other)
        turned.move_to_end("a")
        for pair in (turned, OrderedDict(a=one, b=other), turned):
            assert compiled(pair).numpy().tolist() == (one.numpy() - other.numpy()).tolist()
    assert compiled.traces == 2


def test_state_in_a_dictionary_of_another_class(stream):
    """It stays the same object, and is read and left as others are."""
    state = OrderedDict(sum=hiprt.zeros(1))

    def add(x):
        state["sum"] = kernels.add(state["sum"], x)

    compiled = hiprt.compile(add, inputs=state, outputs=state)
    for _ in range(3):
        compiled(hiprt.full(1, 2.0))
    assert isinstance(state, OrderedDict)
    assert state["sum"].item() == 6


def test_an_array_that_lies_elsewhere_is_named_by_its_parameter(stream):
    """Also in lists and dictionaries, among named arguments and in captured inputs."""
    state = [ramp(3)]

    @hiprt.compile(inputs=state)
    def together(x, pair, *, last):
        return kernels.add(kernels.add(x, pair[0]), kernels.add(pair[1]["y"], kernels.add(last, state[0])))

    moved = ["x", "pair[0]", "pair[1]['y']", "last", "inputs[0]"]
    given = [ramp(3) for _ in moved]
    others = [ramp(3) for _ in moved]
    for place in range(-1, len(moved)):
        x, first, y, last, state[0] = (others[i] if i <= place else each for i, each in enumerate(given))
        together(x, (first, {"y": y}), last=last)
        if place >= 0:
            was, now = given[place].address, others[place].address
            assert f"argument {moved[place]}: {was:#x} -> {now:#x}" in told(together)


def told(compiled):
    """What the last patch of a compiled function was for."""
    return next(event.difference for event in reversed(graphs.explain()) if event.step == compiled.name)
