"""Canaries find changes that HIP reports and does not make."""

import numpy as np
import pytest
from helpers.child import child
from helpers.kernels import launch

import hiprt
from hiprt import graphs

N, CHANGES = 192, 200
LOST = "update_swallow_error,kernarg_limit=8192"


def changes():
    """How many calls of a step were wrong, one argument changed each time; why rungs were taken, and which."""
    x, out, factor, wrong = hiprt.array(np.ones(N, np.float32)), hiprt.zeros(N), 0.0, 0
    step = graphs.Step(lambda: launch("scale", x, out, factor, size=N), keep=False)
    for factor in range(CHANGES):
        step()
        wrong += float(out.numpy()[0]) != factor
    return wrong, step.reasons, step.rungs


@pytest.mark.parametrize("rung", ["patch", "update"])
def test_a_lost_change_is_found_before_the_next(rung):
    rungs = f"replay,{rung},instantiate,eager"
    wrong, reasons, counts = child(changes, quirks=LOST, HIPRT_GRAPH_CANARY="1", HIPRT_GRAPH_RUNGS=rungs)
    assert wrong == 1
    assert sum("HIPRT_E_STALE" in reason for reason in reasons) == 1
    assert counts[rung] > 10
    # Neither patch nor update is used any more.
    assert counts["instantiate"] > 10
    assert counts["eager"] == 1


def test_without_a_canary_they_are_not_found():
    wrong, reasons, _ = child(changes, quirks=LOST)
    assert wrong > 1
    assert not any("HIPRT_E_STALE" in reason for reason in reasons)


def test_a_canary_costs_no_bits_and_no_rungs(stream):
    """The same rungs, the same results, with and without."""
    seen = []
    for is_on in (False, True):
        x, total, results = hiprt.zeros(N), hiprt.zeros(N), []

        def function(factor, x=x, total=total):
            launch("scale", x, total, factor, size=N)
            x.copy_from(total)

        steps = [graphs.Step(function, stream=stream, keep=keep) for keep in (True, False)]
        with hiprt.flags.override(graph_canary=is_on):
            for i in range(20):
                for step in steps:
                    step(float(i % 3))
                results.append(total.numpy())
        seen.append((np.array(results), [step.rungs for step in steps]))
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    assert seen[0][1] == seen[1][1]
