"""Elementwise ops of one array: every op over dtypes, special values, strides and sizes."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.elementwise import unary
from hiprt.kernels.ops.elementwise.reference import UNARY, values

# test_complex.py has the ops of complex numbers.
OPS = [name for name in unary.__all__ if name not in ("Unary", "conjugate", "imag", "real")]
REFUSED = {("negative", "bool")} | {("bitwise_invert", name) for name in ("float16", "bfloat16", "float32")}
# Float32 roundings of the result that a function may be off; where a result passes through zero, of 1.
STEPS = {"sin": 8, "cos": 8, "log": 8, "log2": 8, "log10": 8, "log1p": 24, "expm1": 24, "tanh": 48, "erf": 8}
STEPS |= {"erfinv": 12}
STEPS |= {"gelu": 8, "gelu_approx": 16, "gelu_fast_approx": 32}
# Results that pass through zero, beside what they come from.
BESIDE = {"gelu", "gelu_approx"}
KINDS = ["float16", "bfloat16", "float32", "int32", "uint8", "bool"]
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"}


def dtype_of(kind):
    return hiprt.bfloat16 if kind == "bfloat16" else np.dtype(kind)


def numbers(name, dtype, shape, seed=0):
    random = np.random.default_rng(seed)
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" or name in POSITIVE else -9, 9, shape).astype(dtype)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    x = random.normal(size=shape) * 3
    x = random.uniform(-1, 1, shape) if name == "erfinv" else x
    x = np.abs(x) + 0.1 if name in POSITIVE else np.clip(x, -0.9, 80) if name == "log1p" else x
    return x.astype(dtype)


def test_expm1_of_what_is_almost_too_large():
    x = np.array([80.0, 85.9, 86.5, 88.0, 88.7, 88.8, -88.0], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(kernels.expm1(hiprt.array(x)).numpy(), np.expm1(x), 1e-5)


def expected(name, x):
    rule = getattr(unary, name).rule
    computed, result = rule(x.dtype)
    with np.errstate(all="ignore"):
        return UNARY[name](values(x, computed)), result


def check(close, name, got, x):
    exact, dtype = expected(name, x)
    assert got.dtype == dtype
    if dtype.kind in "biu":
        np.testing.assert_array_equal(got.numpy(), exact)
    else:
        exact = np.where(np.abs(exact) > float(ml_dtypes.finfo(dtype).max), np.copysign(np.inf, exact), exact)
        finite = np.where(np.isfinite(exact), exact, 0)
        size = np.maximum(np.abs(finite), 1) if name in ("sin", "cos", "log", "log2", "log10") else np.abs(finite)
        if name in BESIDE:
            size = np.abs(np.where(np.isfinite(exact), values(x, np.dtype(np.float32)), 0))
        mask = np.isfinite(exact)
        host = got.numpy()
        np.testing.assert_array_equal(np.isnan(host), np.isnan(exact))
        np.testing.assert_array_equal(host[np.isinf(exact)].astype(np.float64), exact[np.isinf(exact)])
        host = np.where(mask, host, np.zeros((), host.dtype)).astype(host.dtype)
        close(hiprt.array(host), finite, magnitude=size, steps=STEPS.get(name, 6))


@pytest.mark.singles
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPS)
def test_matches_the_reference(name, kind, close):
    dtype = dtype_of(kind)
    x = numbers(name, dtype, (3, 67))
    if (name, kind) in REFUSED:
        with pytest.raises(TypeError, match=name):
            getattr(kernels, name)(hiprt.array(x))
    else:
        check(close, name, getattr(kernels, name)(hiprt.array(x)), x)


@pytest.mark.parametrize("name", [name for name in OPS if name != "bitwise_invert"])
def test_special_values(name, close):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, -1e-30, 1e30, 2.5, -2.5, 0.5], np.float32)
    if name in ("sin", "cos"):
        x = x[np.abs(x) < 1e9]
    check(close, name, getattr(kernels, name)(hiprt.array(x)), x)


@pytest.mark.singles
@pytest.mark.parametrize("kind", ["int8", "uint16", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", ["abs", "sign", "square", "bitwise_invert", "exp", "logical_not", "round"])
def test_the_other_integers(name, kind, close):
    x = numbers(name, np.dtype(kind), 40)
    check(close, name, getattr(kernels, name)(hiprt.array(x)), x)


shapes = st.lists(st.integers(0, 5), min_size=0, max_size=5).map(tuple)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=shapes)
def test_any_strides(close, data, shape):
    x = numbers("square", np.dtype(np.float32), shape)
    view, host = hiprt.array(x), x
    order = data.draw(st.permutations(range(len(shape))))
    index = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    view, host = view.transpose(*order)[index], host.transpose(order)[index]
    if not shape:
        view, host = hiprt.array(x), x
    check(close, "square", kernels.square(view), host)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", OPS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=st.tuples(st.integers(0, 40), st.integers(1, 40)))
def test_every_op_on_any_dtype_and_strides(close, name, data, shape):
    kind = data.draw(st.sampled_from([kind for kind in KINDS if (name, kind) not in REFUSED]))
    x = numbers(name, dtype_of(kind), shape)
    view, host = hiprt.array(x), x
    if data.draw(st.booleans()):
        view, host = view.T, host.T
    index = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    check(close, name, getattr(kernels, name)(view[index]), host[index])


def test_more_axes_than_a_kernel_walks(close):
    x = numbers("square", np.dtype(np.float32), (3, 2, 3, 2, 3, 2, 3, 2))
    view = hiprt.array(x)[::2, :, ::2, :, ::2, :, ::2, ::-1]
    check(close, "square", kernels.square(view), x[::2, :, ::2, :, ::2, :, ::2, ::-1])


def test_more_than_65535_blocks():
    x = np.arange(65536 * 256 + 3, dtype=np.uint8)
    np.testing.assert_array_equal(kernels.bitwise_invert(hiprt.array(x)).numpy(), ~x)


def test_into_itself_and_elsewhere(close):
    x = numbers("square", np.dtype(np.float32), (4, 4))
    target = hiprt.array(x)
    assert kernels.square(target, out=target) is target
    check(close, "square", target, x)
    with pytest.raises(ValueError, match="out overlaps"):
        kernels.square(target.T, out=target)


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="float64"):
        kernels.exp(hiprt.zeros(3, np.float64))
    with pytest.raises(TypeError, match=r"not a hiprt\.Array"):
        kernels.exp(np.zeros(3))
    with pytest.raises(TypeError, match="out is"):
        kernels.exp(hiprt.zeros(3), out=hiprt.zeros(3, np.float16))
