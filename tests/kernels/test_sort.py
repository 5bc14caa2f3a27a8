"""sort, argsort, partitions, top-k: every dtype, ties, NaN, long rows, axes, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels

KINDS = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
KINDS += ["float16", "bfloat16", "float32"]


def dtype_of(name):
    return hiprt.bfloat16 if name == "bfloat16" else np.dtype(name)


def numbers(shape, dtype, seed=0):
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        few = random.integers(0, 9, shape)
        wide = random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(random.random(shape) < 0.5, few.astype(dtype), wide)
    return (random.integers(-20, 20, shape) / 4).astype(dtype)


def order_of(x, axis=-1):
    """The stable order; NaN last."""
    return np.argsort(x if x.dtype.kind in "biu" else x.astype(np.float32), axis=axis, kind="stable")


@pytest.mark.singles
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 100), (1, 1024), (2, 1025), (1, 5000)])
def test_order_of_numpy(kind, shape):
    x = numbers(shape, dtype_of(kind), len(kind))
    got = kernels.argsort(hiprt.array(x))
    assert got.dtype == np.uint32
    np.testing.assert_array_equal(got.numpy(), order_of(x))
    np.testing.assert_array_equal(kernels.sort(hiprt.array(x)).numpy(), np.take_along_axis(x, order_of(x), -1))


def test_both_branches(branch, normal):
    x = normal((3, 2100), np.float32)
    np.testing.assert_array_equal(kernels.argsort(hiprt.array(x)).numpy(), order_of(x))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_axis_and_strides(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    x = numbers(shape, np.dtype(np.float32))
    order = data.draw(st.permutations(range(len(shape))))
    view, host = hiprt.array(x).transpose(*order), x.transpose(order)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1))
    np.testing.assert_array_equal(kernels.argsort(view, axis).numpy(), order_of(host, axis))
    np.testing.assert_array_equal(kernels.sort(view, axis).numpy(), np.sort(host, axis))
    length = host.size if axis is None else host.shape[axis]
    k = data.draw(st.integers(0, length))
    sorted_host = np.sort(host, axis)
    expected = np.take(sorted_host, range(length - k, length), 0 if axis is None else axis)
    np.testing.assert_array_equal(kernels.topk(view, k, axis).numpy(), expected)


def test_specials():
    x = np.array([np.nan, 1, -np.inf, 0.0, -0.0, np.inf, -np.nan, -1], np.float32)
    assert kernels.argsort(hiprt.array(x)).numpy().tolist() == [2, 7, 3, 4, 1, 5, 0, 6]


def test_partitions(normal):
    x = normal((4, 300), np.float32)
    for kth in (0, 17, -3, 299):
        got = kernels.argpartition(hiprt.array(x), kth).numpy().astype(np.int64)
        parted = np.take_along_axis(x, got, -1)
        np.testing.assert_array_equal(parted, kernels.partition(hiprt.array(x), kth).numpy())
        place = kth % 300
        assert (parted[:, :place] <= parted[:, place : place + 1]).all()
        assert (parted[:, place:] >= parted[:, place : place + 1]).all()
        np.testing.assert_array_equal(np.sort(got), np.broadcast_to(np.arange(300), (4, 300)))


def test_a_vocabulary(normal):
    x = normal((1, 151936), np.float16)
    np.testing.assert_array_equal(kernels.argsort(hiprt.array(x)).numpy(), order_of(x))


def test_more_rows_than_65535():
    x = numbers((65600, 3), np.dtype(np.uint8))
    np.testing.assert_array_equal(kernels.sort(hiprt.array(x)).numpy(), np.sort(x))


def test_out_and_mistakes(normal):
    x = normal((3, 5), np.float32)
    device = hiprt.array(x)
    assert kernels.sort(device, out=device) is device
    np.testing.assert_array_equal(device.numpy(), np.sort(x))
    for message, wrong in [
        ("Invalid axis 2", lambda: kernels.sort(device, 2)),
        ("invalid kth 5", lambda: kernels.argpartition(device, 5)),
        ("invalid kth -6", lambda: kernels.partition(device, -6)),
        ("invalid k=6", lambda: kernels.topk(device, 6)),
        ("invalid k=-1", lambda: kernels.topk(device, -1)),
        ("out has shape", lambda: kernels.sort(device, out=device[:2])),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
