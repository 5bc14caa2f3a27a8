"""Reductions: every dtype, any axes and strides, specials, nothing, many rows, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference

FLOAT = ["float16", "bfloat16", "float32"]
KINDS = [*FLOAT, "bool", "uint8", "int8", "int16", "uint32", "int32", "int64"]
OPS = ["sum", "prod", "max", "min", "mean", "all", "any"]
# MLX's dtypes of sums and products, in the order of KINDS.
SUMS = [*FLOAT, "int32", "uint32", "int32", "int32", "uint32", "int32", "int64"]


def dtype_of(name):
    return hiprt.bfloat16 if name == "bfloat16" else np.dtype(name)


def numbers(dtype, shape, seed=0):
    random = np.random.default_rng(seed)
    if dtype == np.bool_:
        return random.random(shape) < 0.7
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)
    return (random.normal(size=shape) + 0.5).astype(dtype)


def result_of(name, dtype):
    if name in ("all", "any"):
        return np.dtype(np.bool_)
    if name in ("max", "min"):
        return dtype
    if name == "mean":
        return dtype if dtype.name in FLOAT else np.dtype(np.float32)
    return dtype_of(dict(zip(KINDS, SUMS))[dtype.name])


def check(close, name, got, x, axis=None, keepdims=False):
    dtype = result_of(name, x.dtype)
    assert got.dtype == dtype
    wide = (
        x.astype(np.float64)
        if dtype.kind not in "biu"
        else x
        if name in ("all", "any", "max", "min")
        else x.astype(dtype)
    )
    exact = np.asarray(getattr(np, name)(wide, axis=axis, keepdims=keepdims))
    if dtype.kind in "biu":
        np.testing.assert_array_equal(got.numpy(), exact.astype(dtype))
        return
    sizes = np.abs(wide)
    count = x.size / max(1, exact.size)
    magnitude = (
        np.abs(exact)
        if name in ("prod", "max", "min")
        else np.asarray(getattr(np, name)(sizes, axis=axis, keepdims=keepdims))
    )
    close(got, exact, magnitude=magnitude, steps=(count if name == "prod" else count / 8) + 8)


@pytest.mark.singles
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPS)
def test_matches_numpy(branch, name, kind, close):
    dtype = dtype_of(kind)
    shape, axis = ((5, 9), 1) if name == "prod" else ((3, 270), 1)
    x = numbers(dtype, shape, 1)
    check(close, name, getattr(kernels, name)(hiprt.array(x), axis), x, axis)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_axes_and_strides(close, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), max_size=4)))
    x = numbers(np.dtype(np.float32), shape)
    order = data.draw(st.permutations(range(len(shape))))
    view, host = (hiprt.array(x).transpose(*order), x.transpose(order)) if shape else (hiprt.array(x), x)
    axes = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1)).map(tuple) if shape else st.none())
    keepdims = data.draw(st.booleans())
    for name in ("sum", "max") if host.size else ("sum", "any"):
        check(close, name, getattr(kernels, name)(view, axes, keepdims), host, axes, keepdims)


@pytest.mark.parametrize("name", OPS)
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=st.tuples(st.integers(1, 9), st.integers(1, 40)))
def test_every_op_on_any_dtype_and_strides(close, name, data, shape):
    x = numbers(dtype_of(data.draw(st.sampled_from(KINDS))), shape[::-1] if name != "prod" else (6, 5))
    step, axis = data.draw(st.sampled_from([1, 2, -1])), data.draw(st.sampled_from([None, 0, 1]))
    check(close, name, getattr(kernels, name)(hiprt.array(x).T[:, ::step], axis), x.T[:, ::step], axis)


def test_nan_wins_and_zero_size(branch):
    x = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    np.testing.assert_array_equal(kernels.max(hiprt.array(x), 1).numpy(), [np.nan, 6])
    np.testing.assert_array_equal(kernels.min(hiprt.array(x), 1).numpy(), [np.nan, 4])
    empty = hiprt.empty((3, 0))
    assert kernels.sum(empty, 1).numpy().tolist() == [0, 0, 0]
    assert kernels.prod(empty, 1).numpy().tolist() == [1, 1, 1]
    assert kernels.sum(empty, 0).shape == (0,)
    assert np.isnan(kernels.mean(empty).item())
    with pytest.raises(ValueError, match="Cannot max reduce zero size"):
        kernels.max(empty, 1)


def test_more_rows_than_65535(close):
    x = numbers(np.dtype(np.float32), (65600, 3))
    check(close, "sum", kernels.sum(hiprt.array(x), 1), x, 1)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
def test_logsumexp(branch, dtype, axis, normal, close):
    x = normal((3, 4, 50), dtype, 1, 4.0)
    exact = reference.logsumexp(x, axis, True)
    close(kernels.logsumexp(hiprt.array(x), axis, True), exact, magnitude=np.abs(exact) + 1, steps=60)


@pytest.mark.parametrize("width", [8192, 8193, 20001])
def test_logsumexp_of_a_vocabulary(branch, width, normal, close):
    """Rows whose largest number comes last, so that sums are scaled down, and rows that have no finite sum."""
    x = np.sort(normal((3, width), np.float32, 1, 4.0), axis=1)
    exact = reference.logsumexp(x, 1, False)
    close(kernels.logsumexp(hiprt.array(x), 1), exact, magnitude=np.abs(exact) + 1, steps=60)
    close(kernels.softmax(hiprt.array(x)), reference.softmax(x), steps=200)
    x[0, width - 1], x[1, 5], x[2] = np.nan, np.inf, -np.inf
    assert np.array_equal(kernels.logsumexp(hiprt.array(x), 1).numpy(), [np.nan, np.inf, -np.inf], equal_nan=True)


def test_logsumexp_of_extremes(branch):
    inf, nan = np.inf, np.nan
    rows = [[1000, 1000], [-inf, -inf], [inf, 1], [inf, -inf], [nan, inf], [nan, 0], [-inf, 3]]
    got = kernels.logsumexp(hiprt.array(np.array(rows, np.float32)), 1).numpy()
    np.testing.assert_allclose(got, [1000 + np.log(2), -inf, inf, inf, nan, nan, 3], rtol=1e-6)
    assert kernels.logsumexp(hiprt.empty((2, 0)), 1).numpy().tolist() == [-inf, -inf]
    assert kernels.logsumexp(hiprt.zeros(4, np.int32)).dtype == np.float32


def test_mistakes_are_named():
    x = hiprt.zeros((2, 3))
    for message, wrong in [
        ("Invalid axis 2", lambda: kernels.sum(x, 2)),
        ("named twice", lambda: kernels.sum(x, (0, -2))),
        ("out has shape", lambda: kernels.sum(x, 0, out=hiprt.zeros(2))),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
