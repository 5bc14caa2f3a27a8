"""Inlining: compiled functions in others and in steps, and steps in compiled functions."""

import numpy as np
import pytest
from helpers.compiled import double, ramp

import hiprt
from hiprt import graphs, kernels


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
