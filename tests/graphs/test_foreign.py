"""Work of other code on the stream of a step while it records (G14): it becomes nodes, or an error."""

import numpy as np
import pytest
from helpers import foreign

import hiprt
from hiprt import graphs, kernels as k

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
