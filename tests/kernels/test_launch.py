"""Launch and Plan: arguments by name, what calls have in common, results, and mistakes."""

import gc
import weakref

import numpy as np
import pytest

import hiprt
from hiprt import loaded_modules, objects
from hiprt.graphs import Step
from hiprt.kernels import Kernel
from hiprt.kernels.lang.launch import Launch, Plan

FLOAT32 = np.dtype(np.float32)
GRID, THREADS = (1, 1, 1), (32, 1, 1)


def kernel(**changes):
    """A small kernel: out = x * by + N * bias, without the bias where N is 0."""
    declaration = {
        "inputs": {"x": "T", "bias": "T"},
        "outputs": {"out": "T"},
        "scalars": {"size": "uint", "by": "float"},
        "template": {"T": "dtype", "N": "int"},
        "threads": 32,
    }
    source = "uint i = thread_position_in_grid.x;\nif (i < size) out[i] = x[i] * by + (N ? N * bias[i] : 0.0f);"
    return Kernel("linear", source=source, **{**declaration, **changes})


@pytest.fixture
def x():
    return hiprt.array(np.arange(4, dtype=np.float32))


def test_arguments_are_matched_by_name(stream, x):
    launch = Launch(kernel(), GRID, THREADS, {"N": 2, "T": FLOAT32}, size=4, by=3.0)
    out, bias = hiprt.zeros(4), hiprt.full(4, 5.0)
    launch(stream, out=out, bias=bias, x=x)
    np.testing.assert_array_equal(out.numpy(), np.arange(4) * 3.0 + 10.0)
    assert (launch.grid, launch.threads, launch.template, launch.scalars) == (
        GRID,
        THREADS,
        (FLOAT32, 2),
        {"size": 4, "by": 3.0},
    )


def test_scalars_may_differ_from_call_to_call(stream, x):
    launch = Launch(kernel(), GRID, THREADS, (FLOAT32, 0), size=4)
    for by in (1.0, -2.0):
        out = hiprt.zeros(4)
        launch(stream, x=x, bias=x, out=out, by=by)
        np.testing.assert_array_equal(out.numpy(), np.arange(4) * by)


def test_a_function_that_the_kernel_dropped_is_kept_by_no_launch(stream, x, monkeypatch):
    """Launches are kept in plans, of which there are many more than functions of one kernel may be."""
    monkeypatch.setattr(loaded_modules, "FORMS", 2)
    made, functions = kernel(), []
    with hiprt.flags.override(cache_modules=0):
        launches = [Launch(made, GRID, THREADS, (FLOAT32, n), size=4, by=2.0) for n in range(4)]
        for n in (0, 1, 2, 3, 0):
            out = hiprt.zeros(4)
            launches[n](stream, x=x, bias=x, out=out)
            np.testing.assert_array_equal(out.numpy(), np.arange(4) * (2.0 + n))
            functions.append(weakref.ref(list(made.functions.values())[-1]))
        gc.collect()
    assert [function() is not None for function in functions] == [False, False, False, True, True]


def test_a_recorded_launch_keeps_its_arrays(stream):
    launch = Launch(kernel(), GRID, THREADS, (FLOAT32, 1), size=4, by=2.0)
    kept = []

    def function(y):
        inner = hiprt.array(np.ones(4, np.float32)) if not kept else kept[0]
        kept[:] = [inner]
        out = hiprt.empty(4, np.float32)
        launch(hiprt.current_stream(), x=y, bias=inner, out=out)
        return out

    kept[:] = [hiprt.array(np.ones(4, np.float32))]
    buffer = weakref.ref(kept[0].buffer)
    step, y = Step(function), hiprt.full(4, 3.0)
    np.testing.assert_array_equal(step(y).numpy(), np.full(4, 7.0))
    kept.clear()
    gc.collect()
    assert buffer() is not None
    np.testing.assert_array_equal(step(y).numpy(), np.full(4, 7.0))


def test_a_grid_with_a_zero_launches_nothing(stream, x):
    out = hiprt.full(4, 7.0)
    Launch(kernel(), (0, 1, 1), THREADS, (FLOAT32, 0), size=4, by=1.0)(stream, x=x, bias=x, out=out)
    np.testing.assert_array_equal(out.numpy(), np.full(4, 7.0))


def test_mistakes_of_a_launch_are_named(stream, x):
    made = kernel()
    launch = Launch(made, GRID, THREADS, (FLOAT32, 0), size=4)
    given = {"x": x, "bias": x, "out": hiprt.zeros(4), "by": 1.0}
    for error, message, wrong in [
        (TypeError, "by is not given", lambda: launch(stream, **{k: v for k, v in given.items() if k != "by"})),
        (TypeError, "no argument is named 'y'", lambda: launch(stream, **given, y=x)),
        (TypeError, "size is part of the launch already", lambda: launch(stream, **given, size=4)),
        (
            TypeError,
            "x is a numpy array of float64; a hiprt.Array is needed",
            lambda: launch(stream, **{**given, "x": np.ones(4)}),
        ),
        (TypeError, "is not a stream", lambda: launch(None, **given)),
        (TypeError, "takes a stream", lambda: launch(stream, x)),
        (TypeError, "no argument is named 'y'", lambda: Launch(made, GRID, THREADS, (FLOAT32, 0), y=1)),
        (ValueError, r"template values \['T'\]", lambda: Launch(made, GRID, THREADS, {"T": FLOAT32})),
        (ValueError, "three sizes", lambda: Launch(made, (1, 1), THREADS, (FLOAT32, 0))),
        (ValueError, "three sizes", lambda: Launch(made, GRID, (0, 1, 1), (FLOAT32, 0))),
        (ValueError, "declares 32 along x", lambda: Launch(made, GRID, (64, 1, 1), (FLOAT32, 0))),
        (ValueError, "declares 32 along x", lambda: Launch(made, GRID, (16, 2, 1), (FLOAT32, 0))),
    ]:
        with pytest.raises(error, match=message):
            wrong()
    launch(stream, **given)
    assert Launch(kernel(is_varied=True), GRID, (16, 2, 1), (FLOAT32, 0)).threads == (16, 2, 1)


def test_a_plan_makes_the_result_or_takes_the_callers(stream, x):
    launch = Launch(kernel(aliasing={"out": ("x",)}), GRID, THREADS, (FLOAT32, 0), size=4, by=2.0)
    plan = Plan("linear", (4,), FLOAT32, launch)
    made = plan.run(stream, None, x=x, bias=None)
    np.testing.assert_array_equal(made.numpy(), np.arange(4) * 2.0)
    out = hiprt.zeros(4)
    assert plan.run(stream, out, x=x, bias=None) is out
    np.testing.assert_array_equal(out.numpy(), made.numpy())
    assert plan.run(stream, x, x=x, bias=None) is x
    np.testing.assert_array_equal(x.numpy(), made.numpy())


def test_a_plan_without_a_launch_has_an_empty_result(stream):
    plan = Plan("nothing", (0, 3), FLOAT32, None)
    assert plan.run(stream, None, x=hiprt.zeros(1)).shape == (0, 3)
    with pytest.raises(ValueError, match=r"nothing: out has shape \(1,\)"):
        plan.run(stream, hiprt.zeros(1), x=hiprt.zeros(1))


def test_mistakes_of_a_plan_are_named(stream, x):
    launch = Launch(kernel(), GRID, THREADS, (FLOAT32, 0), size=4, by=2.0)
    plan, whole = Plan("linear", (4,), FLOAT32, launch), hiprt.zeros(8)
    for error, message, wrong in [
        (ValueError, "linear: out overlaps an input", lambda: plan.run(stream, x, x=x, bias=None)),
        (ValueError, "out has shape", lambda: plan.run(stream, hiprt.zeros(5), x=x, bias=None)),
        (TypeError, "out is float16", lambda: plan.run(stream, hiprt.zeros(4, np.float16), x=x, bias=None)),
        (ValueError, "overlaps", lambda: plan.run(stream, whole[2:6], x=whole[:4], bias=None)),
        (TypeError, "bias is not given", lambda: plan.run(stream, None, x=x)),
        (TypeError, "no argument is named 'z'", lambda: plan.run(stream, None, x=x, bias=None, z=x)),
        (TypeError, "on a stream, with out or None", lambda: plan.run(stream, x=x, bias=None)),
    ]:
        with pytest.raises(error, match=message):
            wrong()


def test_a_watcher_sees_every_launch_with_its_values(stream, x):
    launch = Launch(kernel(), GRID, THREADS, (FLOAT32, 0), size=4, by=2.0)
    seen, out = [], hiprt.zeros(4)
    before = objects.Launch.watch(lambda *each: seen.append(each))
    try:
        launch(stream, x=x, bias=x, out=out)
    finally:
        assert objects.Launch.watch(before) is not None
    launch(stream, x=x, bias=x, out=out)
    assert seen == [(launch, (x, x, out, 4, 2.0))]
