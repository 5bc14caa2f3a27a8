"""Elementwise ops of two and three arrays: promotion, broadcasting, Python numbers, copies."""

import itertools
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import graphs, kernels
from hiprt.kernels.ops.elementwise import binary
from hiprt.kernels.ops.elementwise.reference import BINARY, values
from hiprt.kernels.ops.promotion import WORDS, promote

# test_complex.py has the op that makes complex numbers.
OPS = [name for name in binary.__all__ if name not in ("Binary", "complex")] + ["add"]
BITS = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
STEPS = {"logaddexp": 24, "power": 40, "remainder": 8}
NAMES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
NAMES += ["float16", "bfloat16", "float32", "complex64"]
# MLX's table: what the dtype of a row and the one of a column become, columns in the order of NAMES.
PROMOTED = """
bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 complex64
uint8 uint8 uint16 uint32 uint64 int16 int16 int32 int64 float16 bfloat16 float32 complex64
uint16 uint16 uint16 uint32 uint64 int32 int32 int32 int64 float16 bfloat16 float32 complex64
uint32 uint32 uint32 uint32 uint64 int64 int64 int64 int64 float16 bfloat16 float32 complex64
uint64 uint64 uint64 uint64 uint64 float32 float32 float32 float32 float16 bfloat16 float32 complex64
int8 int16 int32 int64 float32 int8 int16 int32 int64 float16 bfloat16 float32 complex64
int16 int16 int32 int64 float32 int16 int16 int32 int64 float16 bfloat16 float32 complex64
int32 int32 int32 int64 float32 int32 int32 int32 int64 float16 bfloat16 float32 complex64
int64 int64 int64 int64 float32 int64 int64 int64 int64 float16 bfloat16 float32 complex64
float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float32 float32 complex64
bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 bfloat16 float32 bfloat16 float32 complex64
float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 complex64
complex64 complex64 complex64 complex64 complex64 complex64 complex64
complex64 complex64 complex64 complex64 complex64 complex64
""".split()


def dtype_of(name):
    return hiprt.bfloat16 if name == "bfloat16" else np.dtype(name)


def numbers(dtype, shape, seed):
    random = np.random.default_rng(seed)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        return random.integers(0 if dtype.kind == "u" else -5, 6, shape).astype(dtype)
    return (np.round(random.normal(size=shape) * 8) / 4).astype(dtype)


def check(close, name, got, a, b):
    rule = getattr(binary, name).rule
    computed, result = rule(promote(a.dtype, b.dtype))
    assert got.dtype == result
    with np.errstate(all="ignore"):
        exact = np.asarray(BINARY[name](values(a, computed), values(b, computed)))
    if result.kind in "biu":
        np.testing.assert_array_equal(got.numpy(), exact)
        return
    host = got.numpy()
    if name == "power":
        exact = exact.astype(np.float64)
    usual = np.isfinite(exact)
    np.testing.assert_array_equal(np.isnan(host), np.isnan(exact))
    np.testing.assert_array_equal(host[np.isinf(exact)].astype(np.float64), exact[np.isinf(exact)])
    kept = np.where(usual, exact, 0)
    magnitude = np.abs(kept) + (1 if name in ("logaddexp", "remainder") else 0)
    host = np.where(usual, host, np.zeros((), host.dtype)).astype(host.dtype)
    close(hiprt.array(host), kept, magnitude=magnitude, steps=STEPS.get(name, 2))


@pytest.mark.singles
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", OPS)
def test_matches_the_reference(name, kind, close):
    dtype = dtype_of(kind)
    a, b = numbers(dtype, (4, 33), 1), numbers(dtype, (4, 33), 2)
    if name in BITS and dtype.kind not in "biu":
        with pytest.raises(TypeError, match="integers are needed"):
            getattr(kernels, name)(hiprt.array(a), hiprt.array(b))
        return
    if "shift" in name:
        b = np.abs(b.astype(np.int8)).astype(dtype)
    check(close, name, getattr(kernels, name)(hiprt.array(a), hiprt.array(b)), a, b)


def test_dtypes_are_promoted_as_in_mlx():
    for (a, b), expected in zip(itertools.product(NAMES, NAMES), PROMOTED, strict=True):
        assert promote(dtype_of(a), dtype_of(b)) == dtype_of(expected), (a, b)
    assert set(map(dtype_of, NAMES)) == set(WORDS)


def test_the_table_is_mlx():
    mx = pytest.importorskip("mlx.core")
    for (a, b), expected in zip(itertools.product(NAMES, NAMES), PROMOTED, strict=True):
        kinds = [getattr(mx, name + "_" if name == "bool" else name) for name in (a, b)]
        assert str(mx.add(*(mx.zeros(1, kind) for kind in kinds)).dtype).split(".")[-1] == expected


@pytest.mark.parametrize(
    ("a", "b"),
    [("int32", "float16"), ("bool", "int8"), ("uint8", "int8"), ("float16", "bfloat16"), ("uint64", "int64")],
)
def test_mixed_dtypes(a, b, close):
    x, y = numbers(dtype_of(a), (2, 40), 1), numbers(dtype_of(b), (2, 40), 2)
    for name in ("multiply", "less", "maximum"):
        check(close, name, getattr(kernels, name)(hiprt.array(x), hiprt.array(y)), x, y)


@st.composite
def fitting(draw):
    full = draw(st.lists(st.integers(0, 4), min_size=0, max_size=5))
    cut = [draw(st.integers(0, len(full))) for _ in range(2)]
    return [tuple(1 if draw(st.booleans()) and draw(st.booleans()) else n for n in full[c:]) for c in cut]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shapes=fitting(), turned=st.booleans())
def test_shapes_broadcast(shapes, turned):
    a, b = (numbers(np.dtype(np.float32), shape, i) for i, shape in enumerate(shapes))
    x, y = hiprt.array(a), hiprt.array(b)
    if turned and a.ndim and a.shape == b.shape:
        a, x = np.ascontiguousarray(a.T).T, kernels.contiguous(x.T).T
    np.testing.assert_array_equal(kernels.subtract(x, y).numpy(), a - b)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", OPS)
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), shape=st.tuples(st.integers(0, 40), st.integers(1, 40)))
def test_every_op_on_any_dtypes_and_strides(close, name, data, shape):
    """Two arrays of a shape, each turned, in steps, backwards or one row for all; or of two dtypes."""
    kinds = ["int32", "uint8", "bool"] if name in BITS else ["float16", "bfloat16", "float32", "int32", "uint8", "bool"]
    given, hosts = [], []
    for seed in (1, 2):
        x = numbers(dtype_of(data.draw(st.sampled_from(kinds))), shape, seed)
        if "shift" in name or name == "power":
            x = np.abs(x.astype(np.float32)).astype(x.dtype)
        step = data.draw(st.sampled_from([1, 2, -1]))
        wide = np.repeat(x, abs(step), axis=1)
        form = data.draw(st.sampled_from(["whole", "turned", "row"]))
        if form == "row":
            x, wide = x[:1], wide[:1]
        view = hiprt.array(wide.T).T if form == "turned" else hiprt.array(wide)
        given.append(view[:, ::step])
        hosts.append(wide[:, ::step])
    check(close, name, getattr(kernels, name)(*given), *hosts)


def test_python_numbers_take_the_dtype_of_the_array():
    half, whole, truth = hiprt.full(3, 2, np.float16), hiprt.full(3, 2, np.int32), hiprt.full(3, 1, np.bool_)
    for got, dtype, value in [
        (kernels.multiply(half, 2.5), np.float16, 5),
        (kernels.multiply(2.5, half), np.float16, 5),
        (kernels.multiply(whole, 2.5), np.float32, 5),
        (kernels.add(truth, 2), np.int32, 3),
        (kernels.add(half, True), np.float16, 3),
        (kernels.subtract(7, whole), np.int32, 5),
        (kernels.add(hiprt.full(3, 2, np.uint8), 250), np.uint8, 252),
        (kernels.greater(whole, 1.5), np.bool_, True),
    ]:
        assert got.dtype == dtype
        assert got.numpy().tolist() == [value] * 3
    with pytest.raises(OverflowError, match="300 does not fit uint8"):
        kernels.add(hiprt.zeros(3, np.uint8), 300)
    with pytest.raises(TypeError, match="multiply: b is a type, not a hiprt"):
        kernels.multiply(hiprt.zeros(3), float)
    with pytest.raises(TypeError, match="no operand"):
        kernels.subtract(1, 2)


def test_remainder_of_floats_and_large_quotients():
    a = np.array([1e6 + 0.5, -7.5, 7.5, 5.0, 1e30, 3.0, np.inf, 2.0, -2.0], np.float32)
    b = np.array([3.0, 2.0, -2.0, 0.0, 7.0, np.inf, 2.0, -5.0, 5.0], np.float32)
    got = kernels.remainder(hiprt.array(a), hiprt.array(b)).numpy()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.remainder(a, b))


def test_integers_by_zero_give_zero():
    a, zero = hiprt.array(np.array([5, -5, 0], np.int32)), hiprt.zeros(3, np.int32)
    assert kernels.floor_divide(a, zero).numpy().tolist() == [0, 0, 0]
    assert kernels.remainder(a, zero).numpy().tolist() == [0, 0, 0]
    lowest = hiprt.array(np.array([-(2**31)], np.int32))
    assert kernels.floor_divide(lowest, -1).numpy().tolist() == [-(2**31)]


def test_where_and_clip(normal):
    x, y = normal((3, 40), np.float32, 1), normal(40, np.float16, 2)
    condition = np.random.default_rng(3).random((3, 1)) < 0.5
    got = kernels.where(*map(hiprt.array, (condition, x, y)))
    np.testing.assert_array_equal(got.numpy(), np.where(condition, x, y.astype(np.float32)))
    got = kernels.where(hiprt.array(x > 0), hiprt.array(x), 0.0)
    np.testing.assert_array_equal(got.numpy(), np.where(x > 0, x, np.float32(0)))
    assert kernels.where(hiprt.array(condition), 1, 0).dtype == np.int32
    device = hiprt.array(x)
    for low, high in [(-0.5, 0.5), (None, 0.1), (0.2, None), (0.5, -0.5)]:
        expected = np.minimum(x if low is None else np.maximum(x, np.float32(low)), np.inf if high is None else high)
        np.testing.assert_array_equal(kernels.clip(device, low, high).numpy(), expected.astype(np.float32))
    with pytest.raises(ValueError, match="a_min and a_max"):
        kernels.clip(device, None, None)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", NAMES)
def test_casts(name):
    dtype = dtype_of(name)
    for source in ("float32", "int64", "bool", "bfloat16", "uint8"):
        x = np.abs(numbers(dtype_of(source), (3, 50), 4)) if source != "bool" else numbers(np.dtype(bool), (3, 50), 4)
        got = kernels.astype(hiprt.array(x), dtype)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got.numpy(), x.astype(dtype))
    turned = hiprt.array(x).T[::-1, ::2]
    np.testing.assert_array_equal(kernels.contiguous(turned).numpy(), x.T[::-1, ::2])


def test_what_needs_no_copy_is_not_copied():
    x = hiprt.zeros((4, 5))
    assert kernels.contiguous(x) is x
    assert kernels.astype(x, np.float32) is x
    assert kernels.contiguous(x, out=hiprt.zeros((4, 5))) is not x


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concatenate(axis, normal):
    shapes = []
    for n in (3, 0, 1, 5):
        shape = [2, 4, 3]
        shape[axis] = n
        shapes.append(tuple(shape))
    hosts = [normal(shape, np.float32 if i % 2 else np.float16, i) for i, shape in enumerate(shapes)]
    got = kernels.concatenate([hiprt.array(x) for x in hosts], axis)
    np.testing.assert_array_equal(got.numpy(), np.concatenate(hosts, axis))


def test_concatenate_of_views_and_mistakes(normal):
    x = normal((6, 4), np.float32)
    got = kernels.concatenate([hiprt.array(x).T, hiprt.array(x).T[::2]], 0)
    np.testing.assert_array_equal(got.numpy(), np.concatenate([x.T, x.T[::2]]))
    y = hiprt.array(x)
    for error, message, wrong in [
        (ValueError, "No arrays", lambda: kernels.concatenate([])),
        (ValueError, "Invalid axis 2", lambda: kernels.concatenate([y], 2)),
        (ValueError, "must match", lambda: kernels.concatenate([y, y[:, :2]], 0)),
        (ValueError, "out overlaps", lambda: kernels.concatenate([y[:3], y[3:]], 0, out=y)),
    ]:
        with pytest.raises(error, match=message):
            wrong()


def test_in_place_and_views_as_operands(normal):
    x, y = normal((8, 8), np.float32, 1), normal((8, 8), np.float32, 2)
    a, b = hiprt.array(x), hiprt.array(y)
    assert kernels.subtract(a, b, out=a) is a
    np.testing.assert_array_equal(a.numpy(), x - y)
    with pytest.raises(ValueError, match="out overlaps"):
        kernels.subtract(b.T, a, out=b)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        kernels.subtract(a, b[:3])


FLOATS = (np.float32, np.float64, np.float16, hiprt.bfloat16.type)
NUMBERS = [kind(3) for kind in (*FLOATS, np.int32, np.uint8, np.bool_)]


@pytest.mark.singles
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_scalars_of_numpy_count_as_python_numbers(stream, dtype, number):
    """A value that is read from an array of numpy's is one, as engines have them."""
    x = hiprt.array(np.arange(4).astype(dtype))
    for made, expected in (
        (kernels.multiply(x, number), kernels.multiply(x, number.item())),
        (kernels.subtract(number, x), kernels.subtract(number.item(), x)),
        (kernels.where(x, number, x), kernels.where(x, number.item(), x)),
        (kernels.where(x, x, number), kernels.where(x, x, number.item())),
        (kernels.where(x, number, number), kernels.where(x, number.item(), number.item())),
    ):
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(made.numpy(), expected.numpy())
    step = graphs.Step(lambda x, *, by: kernels.multiply(x, by))
    np.testing.assert_array_equal(step(x, by=number).numpy(), kernels.multiply(x, number.item()).numpy())


def test_a_member_of_an_enumeration_is_a_number(stream):
    """Eagerly, compiled and in a step."""
    two = IntEnum("Factor", {"two": 2}).two
    x, exact = hiprt.array(np.arange(4, dtype=np.float32)), 2 * np.arange(4, dtype=np.float32) + 2

    def function(x, factor):
        return kernels.add(kernels.multiply(x, factor), factor)

    for way in (function, hiprt.compile(function), graphs.Step(function)):
        made = way(x, two)
        assert made.dtype == np.float32
        np.testing.assert_array_equal(made.numpy(), exact)


@pytest.mark.parametrize("wrong", [np.complex64(1), np.str_("a"), "a", None, np.ones(4, np.float32)])
def test_what_is_no_number_is_named(stream, wrong):
    with pytest.raises(TypeError, match=rf"multiply: b is a {type(wrong).__name__}, not a hiprt\.Array"):
        kernels.multiply(hiprt.zeros(4), wrong)
    with pytest.raises(TypeError, match=r"multiply: no operand is a hiprt\.Array"):
        kernels.multiply(np.float32(2), 3.0)
