"""HIPRT_GRAPH_VERIFY=2: kept calls against what their functions launch now."""

import logging

import numpy as np
import pytest
from helpers import fuzz
from helpers.kernels import accumulate, scale

import hiprt
from hiprt import graphs, kernels

N = 64


@pytest.fixture
def verify():
    """What is kept is compared each time."""
    with hiprt.flags.override(graph_verify=2):
        yield


def reasons(step):
    """What was found out about a step."""
    return [reason for reason in step.reasons if "stale" in reason]


class Captured:
    """What a step's function uses besides its arguments."""

    def __init__(self):
        self.factor, self.count, self.size = 1.0, 2, N
        self.bias, self.other = hiprt.full(N, 1.0), hiprt.full(N, 10.0)
        self.op = kernels.add


CHANGES = {
    "value": (lambda c: setattr(c, "factor", 3.0), "node 0 (scale)", "by: 1.0 -> 3.0", 3 * 2 + 1 + 1),
    "array": (lambda c: setattr(c, "bias", c.other), "node 1 (add)", "b: the memory at 0x", 2 + 10 + 10),
    "fewer nodes": (lambda c: setattr(c, "count", 1), "node 2 (add)", "it is not launched any more", 2 + 1),
    "more nodes": (lambda c: setattr(c, "count", 3), "node 3 (add)", "it was not launched before", 2 + 1 + 1 + 1),
    "another kernel": (lambda c: setattr(c, "op", kernels.multiply), "node 1 (multiply", "it was add", 2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_closure_captured_is_named(stream, verify, change, caplog):
    """The first node and argument that differ, with the line; and the result is right."""
    captured, x = Captured(), hiprt.full(N, 2.0)

    def function(x):
        y = scale(x, captured.factor)
        for _ in range(captured.count):
            y = captured.op(y, captured.bias)
        return y

    step = graphs.Step(function, stream=stream)
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), np.full(N, 4.0, np.float32))
    assert not reasons(step)
    make, node, what, result = CHANGES[change]
    make(captured)
    with caplog.at_level(logging.ERROR):
        np.testing.assert_array_equal(step(x).numpy(), np.full(N, result, np.float32))
    (reason,) = reasons(step)
    assert node in reason
    assert what in reason
    assert "launched at " in reason
    assert reason.removeprefix("verify: ") in caplog.text
    assert "pass it, or call Step.forget" in caplog.text
    np.testing.assert_array_equal(step(x).numpy(), np.full(N, result, np.float32))
    assert len(reasons(step)) == 1


def test_without_it_the_kept_call_is_launched(stream):
    """The function is not called again, which is what a step is for."""
    captured, x = Captured(), hiprt.full(N, 2.0)
    step = graphs.Step(lambda: scale(x, captured.factor), stream=stream)
    step()
    captured.factor = 3.0
    with hiprt.flags.override(graph_verify=1):
        assert step().numpy()[0] == 2
    assert not reasons(step)
    with hiprt.flags.override(graph_verify=2):
        assert step().numpy()[0] == 6
    assert len(reasons(step)) == 1


def test_arrays_that_move_are_no_difference(stream, verify):
    """Arguments at other addresses are what `moves` is for; they are no captured arrays."""
    sums = [hiprt.zeros(N) for _ in range(3)]
    one = hiprt.full(N, 1.0)

    def function(a):
        accumulate(scale(one, 1.0), a)

    step = graphs.Step(function, stream=stream, moves=True)
    for which in (0, 1, 2, 0, 1, 0):
        step(sums[which])
    assert not reasons(step)
    assert [float(each.numpy()[0]) for each in sums] == [3, 2, 1]
    one = hiprt.full(N, 2.0)
    step(sums[2])
    (reason,) = reasons(step)
    assert "node 0 (scale)" in reason
    assert "x: the memory at 0x" in reason


@pytest.mark.parametrize("planned", [True, False])
def test_intermediates_may_lie_elsewhere(stream, verify, planned):
    """Another recording has other memory for them."""
    x, held = hiprt.full(N, 1.0), []
    with hiprt.flags.override(alloc_plan=planned):
        step = graphs.Step(lambda: kernels.add(scale(x, 2.0), scale(x, 3.0)), stream=stream)
        for i in range(5):
            held.append((step(), hiprt.empty(N * (i + 1))))
    assert not reasons(step)
    assert {float(result.numpy()[0]) for result, _ in held} == {5}


@pytest.mark.parametrize("level", [1, 2])
def test_random_programs_are_found_right(level):
    """No false alarm, and the bits of the program without it, in steps of all kinds."""
    before = alarms()
    with hiprt.flags.override(graph_verify=level):
        for seed in range(1000, 1040):
            assert not fuzz.check(seed)
    assert alarms() == before


def alarms():
    """How often verification has found something in this process."""
    found = [item for each in graphs.stats().values() for item in each["reasons"].items()]
    return sum(count for reason, count in found if "verify: node" in reason or "stale" in reason)
