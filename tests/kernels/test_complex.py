"""complex64: elementwise ops, reductions, order, products and conversions, beside numpy's complex128."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels
from hiprt.kernels.ops.promotion import promote

COMPLEX = np.dtype(np.complex64)
# The largest error of an op's result in units of float32's rounding, relative to the result's size.
UNARY = {
    "abs": 2, "arccos": 4, "arccosh": 4, "arcsin": 4, "arcsinh": 4, "arctan": 16, "arctanh": 64, "conjugate": 0,
    "cos": 4, "cosh": 4, "exp": 4, "imag": 0, "log": 4, "log1p": 8, "log2": 4, "log10": 4, "negative": 0, "real": 0,
    "reciprocal": 4, "round": 0, "rsqrt": 4, "sign": 2, "sin": 4, "sinh": 4, "sqrt": 2, "square": 2, "tan": 8,
    "tanh": 8,
}  # fmt: skip
TESTS = ("isfinite", "isinf", "isnan", "logical_not")
BINARY = {"add": 1, "divide": 4, "maximum": 0, "minimum": 0, "multiply": 2, "power": 64, "subtract": 1}
ORDERS = ("equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "not_equal")
NUMPY = {"real": np.real, "imag": np.imag, "rsqrt": lambda x: 1 / np.sqrt(x), "negative": np.negative}
REAL_ONLY = "arctan2 ceil erf erfinv expm1 floor floor_divide gelu remainder sigmoid silu softplus".split()


def numbers(shape, seed):
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) * 2 + 2j * random.normal(size=shape)).astype(COMPLEX)


def check(got, exact, steps):
    error = np.abs(got.astype(np.complex128) - exact)
    assert (error <= steps * 2.0**-23 * (np.abs(exact) + 1e-3) + (np.abs(exact) * 1e-6 if steps > 8 else 0)).all()


@pytest.mark.every(3)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name):
    x = numbers((5, 40), 1)
    exact = NUMPY.get(name, getattr(np, name, None))(x.astype(np.complex128))
    for given, expected in ((hiprt.array(x), exact), (hiprt.array(x).T[::-1], exact.T[::-1])):
        got = getattr(kernels, name)(given)
        assert got.dtype == (np.float32 if name in ("abs", "imag", "real") else COMPLEX)
        check(got.numpy(), expected, UNARY[name])


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name):
    x, y = numbers((5, 40), 1), numbers(40, 2)
    got = getattr(kernels, name)(hiprt.array(x), hiprt.array(y))
    assert got.dtype == COMPLEX
    check(got.numpy(), getattr(np, name)(x.astype(np.complex128), y.astype(np.complex128)), BINARY[name])


@pytest.mark.parametrize("name", [*TESTS, *ORDERS])
def test_truth_and_order(name):
    parts = [0.0, -0.0, 1.0, 2.0, np.inf, -np.inf, np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], COMPLEX)
    if name in TESTS:
        np.testing.assert_array_equal(getattr(kernels, name)(hiprt.array(x)).numpy(), getattr(np, name)(x))
        return
    a, b = (each.ravel() for each in np.meshgrid(x, x))
    # numpy calls (1, NaN) less than (2, 0) as well, whose order the real parts tell.
    got = getattr(kernels, name)(hiprt.array(a), hiprt.array(b)).numpy()
    whole = ~(np.isnan(a) | np.isnan(b))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got[whole], getattr(np, name)(a, b)[whole])


def test_special_values():
    for name, x, expected in [
        ("exp", complex(-np.inf, 3), 0), ("exp", 2 + 0j, np.exp(2)), ("abs", complex(np.inf, np.nan), np.inf),
        ("abs", 3e38 + 3e37j, 3.0149627e38), ("abs", 1e-40 + 0j, np.abs(np.float32(1e-40))), ("sqrt", -4 + 0j, 2j),
        ("sqrt", complex(-4, -0.0), -2j), ("log", 0j, complex(-np.inf, 0)), ("sign", 0j, 0), ("tanh", 50 + 1j, 1),
        ("log", 1 + 1e-4j, complex(5e-9, 1e-4)),
    ]:  # fmt: skip
        got = getattr(kernels, name)(hiprt.array(np.array([x], COMPLEX))).numpy()
        np.testing.assert_allclose(got, np.array([expected]), rtol=1e-6, err_msg=name)
    zero = hiprt.zeros(1, COMPLEX)
    for exponent, expected in ((2, 0), (0, 1), (-1, complex(np.nan, np.nan))):
        np.testing.assert_array_equal(kernels.power(zero, exponent).numpy(), [expected])


def test_parts_are_joined():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(3, dtype=np.int32)
    np.testing.assert_array_equal(kernels.complex(hiprt.array(a), hiprt.array(b)).numpy(), a + 1j * b)
    with pytest.raises(TypeError, match="a part is complex64"):
        kernels.complex(hiprt.zeros(2, COMPLEX), hiprt.zeros(2))


@pytest.mark.parametrize("name", REAL_ONLY)
def test_what_is_not_defined_says_so(name):
    x = hiprt.zeros(3, COMPLEX)
    two = name in ("arctan2", "floor_divide", "remainder")
    with pytest.raises(TypeError, match="Not supported for complex64"):
        getattr(kernels, name)(*(x, x) if two else (x,))
    for op in (kernels.softmax, kernels.logsumexp):
        with pytest.raises(TypeError, match="Not supported for complex64"):
            op(x)
    with pytest.raises(TypeError, match="no bits"):
        kernels.bitwise_and(x, x)


def test_promotion_and_numbers():
    for dtype in (np.bool_, np.uint8, np.int64, np.float16, hiprt.bfloat16, np.float32):
        assert promote(COMPLEX, np.dtype(dtype)) == promote(np.dtype(dtype), COMPLEX) == COMPLEX
        x = hiprt.array(np.ones(3).astype(dtype))
        np.testing.assert_array_equal(kernels.add(x, hiprt.array(np.full(3, 1j, COMPLEX))).numpy(), np.full(3, 1 + 1j))
    for number in (True, 3, 2.5):
        got = kernels.multiply(hiprt.array(np.full(3, 1 + 2j, COMPLEX)), number)
        assert got.dtype == COMPLEX
        np.testing.assert_array_equal(got.numpy(), np.full(3, 1 + 2j) * number)


def test_conversions():
    x = np.array([0, 1j, 2.75 - 3j, -5], COMPLEX)
    for dtype in (np.bool_, np.int8, np.int32, np.float16, hiprt.bfloat16, np.float32):
        expected = x.astype(bool) if dtype is np.bool_ else x.real.astype(dtype)
        np.testing.assert_array_equal(kernels.astype(hiprt.array(x), dtype).numpy(), expected)
        back = kernels.astype(hiprt.array(expected), COMPLEX)
        np.testing.assert_array_equal(back.numpy(), expected.astype(np.float32).astype(COMPLEX))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions(axis):
    x = numbers((7, 30), 3)
    x /= np.abs(x)  # products stay in range
    exact = x.astype(np.complex128)
    for name in ("sum", "mean", "prod", "max", "min", "all", "any"):
        got, expected = getattr(kernels, name)(hiprt.array(x), axis).numpy(), getattr(np, name)(exact, axis=axis)
        size = np.abs(exact).sum(axis) if name in ("sum", "mean") else np.abs(expected)
        assert (np.abs(got * 1.0 - expected) <= 1e-5 * np.maximum(size, 1e-3)).all(), name
    np.testing.assert_allclose(kernels.cumsum(hiprt.array(x), axis).numpy(), np.cumsum(exact, axis), 1e-4, 1e-4)


def test_nan_wins():
    for part in (complex(np.nan, 1), complex(1, np.nan)):
        for at in range(20):
            x = numbers(20, at)
            x[at] = part
            for name in ("max", "min"):
                assert np.isnan(getattr(kernels, name)(hiprt.array(x)).numpy()), (name, at)


def test_order_and_places():
    x = numbers((3, 1500), 4)
    x[:, ::5] = x[:, :1]
    x[:, 1::7] = x[:, 1::7].real
    x[1, 44] = complex(1, np.nan)
    np.testing.assert_array_equal(kernels.sort(hiprt.array(x)).numpy(), np.sort(x, kind="stable"))
    np.testing.assert_array_equal(kernels.argsort(hiprt.array(x)).numpy(), np.argsort(x, kind="stable"))
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(getattr(kernels, name)(hiprt.array(x)).numpy(), getattr(np, name)(x, -1))


def test_products_of_matrices():
    a, b = numbers((2, 5, 33), 5), numbers((33, 7), 6)
    np.testing.assert_allclose(kernels.matmul(hiprt.array(a), hiprt.array(b)).numpy(), a @ b, 1e-4, 1e-4)
    real = a.real.copy()
    np.testing.assert_allclose(kernels.matmul(hiprt.array(real), hiprt.array(b)).numpy(), real @ b, 1e-4, 1e-4)


def test_indexing_and_joining():
    x, at = numbers((4, 6), 7), np.array([2, 0, 2], np.int32)
    device, places = hiprt.array(x), hiprt.array(at)
    np.testing.assert_array_equal(kernels.take(device, places, 1).numpy(), x[:, at])
    added = x.copy()
    np.add.at(added, (slice(None), at), x[:, :3])
    np.testing.assert_allclose(kernels.scatter_add(device, places, device[:, :3], 1).numpy(), added, 1e-6)
    np.testing.assert_array_equal(
        kernels.concatenate([device, device.T[:4].T], 1).numpy(), np.concatenate([x, x[:, :4]], 1)
    )
    np.testing.assert_array_equal(kernels.where(hiprt.array(x.real > 0), device, 0).numpy(), np.where(x.real > 0, x, 0))


def test_fused_chains_give_the_same_bits():
    @hiprt.compile
    def chain(x, y):
        return kernels.abs(kernels.exp(kernels.multiply(kernels.add(x, y), 0.5))), kernels.conjugate(kernels.square(x))

    x, y = (hiprt.array(numbers((6, 40), seed)) for seed in (8, 9))
    plain = kernels.abs(kernels.exp(kernels.multiply(kernels.add(x, y), 0.5))), kernels.conjugate(kernels.square(x))
    for _ in range(3):
        for got, expected in zip(chain(x, y), plain):
            np.testing.assert_array_equal(got.numpy(), expected.numpy())
