"""cumsum: every dtype, any axis and strides, both ways, nothing, many rows, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels


def expected(x, axis, reverse=False, inclusive=True):
    wide = x.astype(np.float64) if x.dtype.kind not in "biu" else x.astype(np.int32) if x.dtype == np.bool_ else x
    wide, axis = (wide.reshape(-1), 0) if axis is None else (wide, axis)
    ordered = np.flip(wide, axis) if reverse else wide
    sums = np.cumsum(ordered, axis, dtype=wide.dtype)
    sums = sums if inclusive else sums - ordered
    return np.flip(sums, axis) if reverse else sums


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "bool", "int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize(("reverse", "inclusive"), [(False, True), (True, True), (False, False), (True, False)])
def test_every_dtype_both_ways(branch, kind, reverse, inclusive, close):
    dtype = hiprt.bfloat16 if kind == "bfloat16" else np.dtype(kind)
    x = (np.random.default_rng(1).normal(size=(3, 700)) * 2).astype(dtype)
    got = kernels.cumsum(hiprt.array(x), -1, reverse=reverse, inclusive=inclusive)
    exact = expected(x, -1, reverse, inclusive)
    if dtype.kind in "biu":
        assert got.dtype == (np.int32 if kind == "bool" else dtype)
        np.testing.assert_array_equal(got.numpy(), exact)
    else:
        sizes = np.abs(x.astype(np.float64)).sum(-1, keepdims=True)
        close(got, exact, magnitude=np.broadcast_to(sizes, exact.shape), steps=32)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_any_axis_and_strides(branch, data, shape):
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.int32)
    order = data.draw(st.permutations(range(len(shape))))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    got = kernels.cumsum(hiprt.array(x).transpose(*order), axis)
    np.testing.assert_array_equal(got.numpy(), expected(x.transpose(order), axis))


def test_many_rows_out_and_mistakes():
    x = np.arange(66000 * 2, dtype=np.int32).reshape(66000, 2)
    out = hiprt.empty(x.shape, np.int32)
    assert kernels.cumsum(hiprt.array(x), 1, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x, 1))
    with pytest.raises(ValueError, match="axis"):
        kernels.cumsum(hiprt.array(x), 2)
    with pytest.raises(ValueError, match="out has shape"):
        kernels.cumsum(hiprt.array(x), 0, out=out[1:])
