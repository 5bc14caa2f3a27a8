"""compile: when a function is traced, what it may take, and what a trace leaves behind."""

import gc
import warnings

import numpy as np
import pytest
from helpers.compiled import counted, double, ramp

import hiprt
from hiprt import graphs, kernels
from hiprt.errors import HipWarning
from hiprt.flags import flags
from hiprt.graphs.trace.core import Primitive


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


def test_a_value_that_is_left_behind_names_the_remedy():
    """What the function leaves in a dictionary that is not named is no array, and says what to do."""
    state = {"sum": hiprt.zeros(4)}

    def function(x):
        state["sum"] = kernels.add(state["sum"], x)

    hiprt.compile(function)(ramp(4))
    with pytest.raises(ValueError, match=r"\[eval\] .*test_compile\.py:\d+ in .*left behind.* outputs=\.\.\.\)"):
        state["sum"].numpy()


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
