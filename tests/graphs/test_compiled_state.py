"""State of compiled functions: arrays that they capture, and those that they write in place."""

import threading
import time
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from helpers.compiled import ramp

import hiprt
from hiprt import kernels


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
