"""Arguments and results of compiled functions: trees of arrays, of any containers."""

from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from helpers.compiled import double, ramp

import hiprt
from hiprt import kernels


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


def test_results_stay_as_they_were():
    compiled = hiprt.compile(double)
    made = [compiled(hiprt.full((4,), float(i))) for i in range(5)]
    assert [array.numpy()[0] for array in made] == [0, 2, 4, 6, 8]


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
