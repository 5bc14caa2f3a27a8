"""Lazy graphs: what is cut out, what is kept, and what is written in place."""

import gc
import weakref

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.graphs.trace import lazy
from hiprt.graphs.trace.core import cut, hold, pin


def leaf(values):
    return lazy.value_of(hiprt.array(np.asarray(values, np.float32)))


def made(op, *args, **named):
    with lazy.recording():
        return op(*args, **named)


def contents(value):
    lazy.evaluate([value])
    return lazy.held(value).numpy()


def test_equal_structures_have_one_key_and_others_another():
    def key(axis, twice=False, keep=False):
        x = leaf([[1, 2], [3, 4]])
        y = made(kernels.multiply, x, 2.0)
        z = made(kernels.softmax, y, axis)
        z = made(kernels.add, z, y if twice else z)
        kept = y if keep else None
        del y
        found = cut([z])[0]
        del kept
        return found

    assert key(-1) == key(-1)
    different = [key(-1), key(-2), key(-1, twice=True), key(-1, keep=True)]
    assert len(set(different)) == 4


def test_the_results_are_what_something_still_needs():
    x = leaf([1, 2])
    y = made(kernels.add, x, 1.0)
    z = made(kernels.multiply, y, 2.0)
    other = made(kernels.subtract, y, 5.0)  # its primitive needs y later
    del y
    _, primitives, leaves, _, results = cut([z])
    assert (len(primitives), len(leaves), len(results)) == (2, 1, 2)
    del primitives, leaves, results
    assert contents(z).tolist() == [4, 6]
    assert contents(other).tolist() == [-3, -2]


def changed(x, start):
    update = leaf([9])
    place = lazy.value_of(hiprt.array(np.asarray([start], np.int32)))
    return made(kernels.slice_update, x, update, place, (0,))


def test_an_array_that_nobody_needs_is_written_in_place():
    x = leaf(np.zeros(8))
    addresses = set()
    for i in range(6):
        x = changed(x, i)
        lazy.evaluate([x])
        addresses.add(lazy.held(x).address)
    assert contents(x).tolist() == [9] * 6 + [0, 0]
    assert len(addresses) == 1  # that of the copy which the first call made


@pytest.mark.parametrize("holder", ["value", "view", "graph", "pin"])
def test_an_array_that_something_needs_is_not_written(holder):
    for _ in range(4):
        x = leaf(np.zeros(4))
        if holder == "pin":
            kept = lazy.held(x)
            pin(kept)
        elif holder == "view":
            kept = lazy.value_of(lazy.held(x)[1:])
        elif holder == "graph":
            kept = made(kernels.add, x, 0.0)
        else:
            kept = x
        y = changed(x, 1)
        del x
        assert contents(y).tolist() == [0, 9, 0, 0]
        assert not np.any(kept.numpy() if holder == "pin" else contents(kept))


def test_a_part_that_is_read_after_the_update_is_not_overwritten():
    for _ in range(4):
        x = leaf(np.arange(4))
        y = changed(x, 0)
        z = made(kernels.add, y, x)
        del x
        assert contents(z).tolist() == [9, 2, 4, 6]
        assert contents(y).tolist() == [9, 1, 2, 3]


def test_graphs_are_freed_with_their_values():
    x = leaf(np.zeros(4))
    array = weakref.ref(lazy.held(x))
    y = made(kernels.add, x, 1.0)
    lazy.evaluate([y])
    maker = y.primitive
    assert maker.op is None
    assert maker.inputs == ()
    gc.collect()
    assert array() is not None
    del x
    assert array() is None


def test_wrong_arguments_are_refused():
    x = leaf([1])
    with pytest.raises(TypeError):
        cut(x)
    with pytest.raises(TypeError):
        cut([1])
    with pytest.raises(ValueError, match="an array for each value"):
        hold([x], ())
    with pytest.raises(TypeError):
        hold([x], (x,))
    with pytest.raises(TypeError):
        pin(3)


def test_random_programs_are_those_of_numpy():
    rng = np.random.default_rng(7)
    for _ in range(12):
        values = [leaf(rng.integers(-3, 4, 6)) for _ in range(2)]
        hosts = [lazy.held(value).numpy() for value in values]
        for _ in range(30):
            i, j = rng.integers(0, len(values), 2)
            kind = rng.integers(0, 5)
            if kind == 0:
                values.append(made(kernels.add, values[i], values[j]))
                hosts.append(hosts[i] + hosts[j])
            elif kind == 1:
                values.append(made(kernels.maximum, values[i], values[j]))
                hosts.append(np.maximum(hosts[i], hosts[j]))
            elif kind == 2:
                at = int(rng.integers(0, 5))
                values[i] = made(kernels.assign, values[i], (slice(at, at + 1),), leaf([at]))
                hosts[i] = hosts[i].copy()
                hosts[i][at] = at
            elif kind == 3 and len(values) > 2:
                del values[i], hosts[i]
            else:
                assert np.array_equal(contents(values[i]), hosts[i])
        for value, host in zip(values, hosts):
            assert np.array_equal(contents(value), host)


def test_the_programs_of_a_stream_go_with_it():
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        x = leaf([1, 2])
        for _ in range(2):
            assert contents(made(kernels.add, x, 7.0)).tolist() == [8, 9]
        assert any(used is stream for _, used in lazy.known)
    lazy.forget_gone()
    assert not any(used is stream for _, used in lazy.known)
