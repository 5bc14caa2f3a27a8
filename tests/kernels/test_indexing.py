"""take, scatter and slices at device positions: any shapes, dtypes and strides, indices that name nothing, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels

KINDS = ["bool", "uint8", "float16", "bfloat16", "float32", "int64"]


def dtype_of(name):
    return hiprt.bfloat16 if name == "bfloat16" else np.dtype(name)


def numbers(shape, kind="float32", seed=0):
    return np.random.default_rng(seed).integers(0, 100, shape).astype(dtype_of(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("index", ["int32", "uint8", "int64"])
def test_dtypes(kind, index):
    x, at = numbers((5, 4, 3), kind), np.array([[3, 0], [1, 3]], index)
    np.testing.assert_array_equal(kernels.take(hiprt.array(x), hiprt.array(at), 1).numpy(), np.take(x, at, 1))
    along = np.array([[[3], [0]]], index)
    expected = np.take_along_axis(x, np.broadcast_to(along, (5, 2, 3)).astype(np.int64), 1)
    np.testing.assert_array_equal(kernels.take_along_axis(hiprt.array(x), hiprt.array(along), 1).numpy(), expected)
    values = numbers((5, 2, 3), kind, 1)
    exact = x.copy()
    np.put_along_axis(exact, np.broadcast_to(along, (5, 2, 3)).astype(np.int64), values, 1)
    got = kernels.put_along_axis(hiprt.array(x), hiprt.array(along), hiprt.array(values), 1)
    np.testing.assert_array_equal(got.numpy(), exact)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_shapes_and_strides(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    x = numbers(shape)
    order = data.draw(st.permutations(range(len(shape))))
    view, host = hiprt.array(x).transpose(*order), x.transpose(order)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    length = host.shape[axis]
    at = np.array(data.draw(st.lists(st.integers(-length, length - 1), max_size=6)), np.int32)
    np.testing.assert_array_equal(kernels.take(view, hiprt.array(at), axis).numpy(), np.take(host, at, axis))
    flat = kernels.take(view, hiprt.array(at))
    np.testing.assert_array_equal(flat.numpy(), np.take(host, at))
    updates = numbers(np.take(host, at, axis).shape, seed=1)
    for op, join in ((kernels.scatter, lambda _, b: b), (kernels.scatter_add, lambda a, b: a + b)):
        exact = np.moveaxis(host.copy(), axis, 0)
        for i, place in enumerate(at):
            exact[place] = join(exact[place], np.moveaxis(updates, axis, 0)[i])
        got = op(view, hiprt.array(at), hiprt.array(updates), axis)
        np.testing.assert_array_equal(got.numpy(), np.moveaxis(exact, 0, axis))


def test_indices_that_name_nothing():
    x = hiprt.array(numbers((4, 3)) + 1)
    at = hiprt.array(np.array([4, -5, 2**31 - 1, 1], np.int64))
    np.testing.assert_array_equal(kernels.take(x, at, 0).numpy()[:3], np.zeros((3, 3)))
    np.testing.assert_array_equal(kernels.take(x, at, 0).numpy()[3], x.numpy()[1])
    got = kernels.scatter(x, at[:3], hiprt.zeros((3, 3)))
    np.testing.assert_array_equal(got.numpy(), x.numpy())
    huge = hiprt.array(np.array([2**32 + 1, 2**63], np.uint64))
    assert not kernels.take(x, huge, 0).numpy().any()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int32", "uint8"])
def test_sums_of_equal_indices_are_in_order(branch, kind):
    dtype = dtype_of(kind)
    x, at = numbers((3, 70), kind), np.array([1, 1, 2, 1], np.int32)
    updates = numbers((4, 70), kind, 1)
    exact = x.copy()
    for i, place in enumerate(at):
        exact[place] = (exact[place].astype(np.float64) + updates[i].astype(np.float64)).astype(dtype)
    target = hiprt.array(x)
    assert kernels.scatter_add(target, hiprt.array(at), hiprt.array(updates), out=target) is target
    np.testing.assert_array_equal(target.numpy(), exact)


def test_values_are_converted_and_broadcast():
    x = hiprt.zeros((2, 4), np.float16)
    got = kernels.put_along_axis(x, hiprt.array(np.array([[1], [3]])), hiprt.full((1, 1), 7, np.int32), 1)
    assert got.numpy().tolist() == [[0, 7, 0, 0], [0, 0, 0, 7]]
    assert not x.numpy().any()
    got = kernels.scatter(x, hiprt.array(np.array([0])), hiprt.full(4, 2))
    assert got.numpy().tolist() == [[2] * 4, [0] * 4]


def test_more_than_65535_blocks():
    x = numbers((300, 60000), "uint8")
    at = np.arange(299, -1, -1, dtype=np.int32)
    np.testing.assert_array_equal(kernels.take(hiprt.array(x), hiprt.array(at), 0).numpy(), x[at])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_slices_begin_where_the_device_says(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    size = tuple(data.draw(st.integers(0, n)) for n in shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    starts = [data.draw(st.integers(-2, 8)) for _ in axes]
    x, update = numbers(shape), numbers(size, seed=1)
    index = [np.s_[0:n] for n in size]
    for axis, start in zip(axes, starts):
        first = min(max(start, 0), shape[axis] - size[axis])
        index[axis] = np.s_[first : first + size[axis]]
    on_device = hiprt.array(np.array(starts, np.int32))
    turned = data.draw(st.booleans())
    view = kernels.contiguous(hiprt.array(x).T).T if turned else hiprt.array(x)
    np.testing.assert_array_equal(kernels.slice(view, on_device, axes, size).numpy(), x[tuple(index)])
    exact = x.copy()
    exact[tuple(index)] = update
    np.testing.assert_array_equal(kernels.slice_update(view, hiprt.array(update), on_device, axes).numpy(), exact)


def test_slice_update_in_place_writes_the_part_alone():
    x = numbers((3, 8, 5), "float16")
    target, part = hiprt.array(x), numbers((3, 1, 5), "float32", 1)
    step = hiprt.array(np.array([6], np.int32))
    assert kernels.slice_update(target, hiprt.array(part), step, [1], out=target) is target
    x[:, 6:7] = part
    np.testing.assert_array_equal(target.numpy(), x)


def test_mistakes_are_named():
    x, at, one = hiprt.zeros((3, 4)), hiprt.zeros(2, np.int32), hiprt.zeros(1, np.int32)
    for error, message, wrong in [
        (ValueError, "must be integral", lambda: kernels.take(x, x)),
        (ValueError, "Invalid axis 2", lambda: kernels.take(x, at, 2)),
        (TypeError, "not a hiprt.Array", lambda: kernels.take(x, [0])),
        (ValueError, "dimension 1", lambda: kernels.take_along_axis(x, at, 1)),
        (ValueError, "cannot be broadcast", lambda: kernels.take_along_axis(x, hiprt.zeros((2, 1), np.int32), 1)),
        (ValueError, "do not fit", lambda: kernels.take_along_axis(x[:1], hiprt.zeros((2, 1), np.int32), 1)),
        (ValueError, "out overlaps", lambda: kernels.take(x, at, 0, out=x[:2])),
        (ValueError, "do not fit", lambda: kernels.scatter(x, at, hiprt.zeros((3, 2, 4)))),
        (ValueError, "out overlaps", lambda: kernels.scatter(x, at, x[:2], out=x)),
        (ValueError, "named twice", lambda: kernels.slice(x, at, [0, -2], (1, 1))),
        (ValueError, "start_indices has shape", lambda: kernels.slice(x, at, [0], (1, 1))),
        (TypeError, "start_indices is", lambda: kernels.slice(x, hiprt.zeros(1), [0], (1, 1))),
        (ValueError, r"slice of shape \(4, 4\)", lambda: kernels.slice(x, one, [0], (4, 4))),
        (ValueError, r"slice of shape \(1,\)", lambda: kernels.slice_update(x, hiprt.zeros(1), one, [0])),
    ]:
        with pytest.raises(error, match=message):
            wrong()
