"""gather_qmm and quantized_matmul: every format, both ways round, stacks, every rule of indices, mistakes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import dequantize_floating, quantize

FORMATS = [("affine", group, bits) for group, bits in product((32, 64, 128), (2, 3, 4, 5, 6, 8))]
FORMATS += [("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]


def stored(shape, dtype, mode, group, bits, seed=0):
    """A random quantised stack: what the op takes, and its exact values."""
    random = np.random.default_rng(seed)
    if mode == "affine":
        parts = quantize(random.normal(size=shape).astype(dtype), group, bits)
        flat = [part.reshape(-1, part.shape[-1]) for part in parts]
        return list(parts), reference.weights(*flat, group, bits).reshape(shape)
    packed = random.integers(0, 2**32, (*shape[:-1], shape[-1] * bits // 32), dtype=np.uint32)
    packed &= np.uint32(0xBFBFBFBF) if bits == 8 else np.uint32(0xFFFFFFFF)  # no NaN
    low, high = (40, 60) if mode == "nvfp4" else (122, 128)
    scales = random.integers(low, high, (*shape[:-1], shape[-1] // group)).astype(np.uint8)
    return [packed, scales], dequantize_floating(packed, scales, mode)


def check(close, got, x, w, lhs=None, rhs=None, transpose=True):
    exact = reference.gather_qmm(x, w, lhs, rhs, transpose)
    magnitude = reference.gather_qmm(np.abs(reference.double(x)), np.abs(w), lhs, rhs, transpose)
    close(got, exact, magnitude=3 * magnitude + 1e-30, steps=20)


@pytest.mark.parametrize(("mode", "group", "bits"), FORMATS)
@pytest.mark.parametrize("transpose", [True, False])
def test_every_format(branch, mode, group, bits, transpose, normal, close):
    for name in ("float16", "float32"):
        dtype = np.dtype(name)
        shape = (9, 2 * group) if transpose else (11, 2 * group)
        parts, w = stored(shape, dtype, mode, group, bits, bits)
        x = normal((3, 2 * group if transpose else 11), dtype, 1)
        options = {"transpose": transpose, "group_size": group, "bits": bits, "mode": mode}
        got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts), **options)
        assert got.dtype == dtype
        check(close, got, x, w, transpose=transpose)


@pytest.mark.parametrize(("mode", "group", "bits"), FORMATS)
@pytest.mark.parametrize("transpose", [True, False])
def test_float32_is_within_2e6_of_the_largest_result(branch, mode, group, bits, transpose, normal):
    """One vector, the most that are vectors, and so many that they are tiles."""
    parts, w = stored((12, 1024) if transpose else (1024, 128), np.float32, mode, group, bits)
    options = {"transpose": transpose, "group_size": group, "bits": bits, "mode": mode}
    for rows in (1, 8, 20):
        x = normal((rows, 1024), np.float32, rows)
        got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts), **options).numpy()
        exact = reference.gather_qmm(x, w, None, None, transpose)
        assert np.abs(got - exact).max() <= 2e-6 * np.abs(exact).max(), rows


@pytest.mark.every(2)
@pytest.mark.parametrize(("mode", "group", "bits"), FORMATS)
@pytest.mark.parametrize("half", [np.dtype(np.float16), hiprt.bfloat16], ids=str)
def test_16_bits_are_within_a_rounding_of_the_terms(branch, mode, group, bits, half, normal):
    """Also where a tile holds the weights in the dtype: half a unit for the terms, and half a one for the result."""
    parts, w = stored((12, 512), half, mode, group, bits)
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[half.name]
    for rows in (1, 8, 20):
        x = normal((rows, 512), half, rows)
        options = {"group_size": group, "bits": bits, "mode": mode}
        got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts), **options)
        assert got.dtype == half
        exact, terms = (reference.gather_qmm(f(reference.double(x)), f(w), None, None) for f in (np.array, np.abs))
        assert (np.abs(reference.double(got.numpy()) - exact) <= unit * terms).all(), rows


@pytest.mark.parametrize("bits", [4, 3])
@pytest.mark.parametrize(
    ("x_batch", "w_batch"),
    [((2,), (2,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1, 3, 1), (2, 1, 2)), ((), (2,)), ((0,), (1,))],
)
def test_stacks_broadcast(branch, bits, x_batch, w_batch, normal, close):
    parts, w = stored((*w_batch, 5, 64), np.float32, "affine", 64, bits)
    x = normal((*x_batch, 2, 64), np.float32, 2)
    got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts), bits=bits)
    exact = reference.double(x) @ np.swapaxes(w, -1, -2)
    close(got, exact, magnitude=np.abs(exact) + 60, steps=20)


def test_one_and_many_leading_axes(branch, normal, close):
    parts, w = stored((5, 64), np.float32, "affine", 64, 4)
    for shape in ((64,), (2, 3, 1, 64)):
        x = normal(shape, np.float32, 2)
        got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts))
        exact = reference.double(x) @ w.T
        close(got, exact, magnitude=np.abs(exact) + 60, steps=20)


def test_dtypes_are_promoted(normal, close):
    parts, w = stored((5, 64), np.float16, "affine", 64, 4)
    x = normal((2, 64), np.float32, 2)
    got = kernels.quantized_matmul(hiprt.array(x), *map(hiprt.array, parts))
    assert got.dtype == np.float32
    check(close, got, x, w)
    got = kernels.quantized_matmul(hiprt.array(x.astype(hiprt.bfloat16)), *map(hiprt.array, parts))
    assert got.dtype == np.float32


RULES = {
    "none": (None, None),
    "experts of a token": (None, [[[0, 3], [2, 2]]]),
    "both": ([0, 1, 1], [3, 0, 1]),
    "broadcast together": ([[0], [1]], [[1, 2, 3]]),
    "one for all": ([0], [[2], [1]]),
    "no products": ([], []),
    "no such matrix": ([0, 1, 7], [4, -1, 2]),
}


@pytest.mark.parametrize("bits", [4, 8, 5])
@pytest.mark.parametrize("rule", RULES)
def test_rules_of_indices(branch, rule, bits, normal, close):
    lhs, rhs = (None if v is None else np.array(v, np.int32) for v in RULES[rule])
    batch = (1, 2, 1) if rule == "experts of a token" else (4,) if rule == "none" else (2,)
    parts, w = stored((4, 7, 64), np.float32, "affine", 32, bits)
    x = normal((*batch, 2, 64), np.float32, 3)
    indices = [None if v is None else hiprt.array(v) for v in (lhs, rhs)]
    got = kernels.gather_qmm(hiprt.array(x), *map(hiprt.array, parts), *indices, group_size=32, bits=bits)
    check(close, got, x, w, lhs, rhs)


@pytest.mark.parametrize("kind", ["uint8", "int64", "uint32", "int16"])
def test_any_integers_are_indices(kind, normal, close):
    parts, w = stored((4, 7, 64), np.float32, "affine", 64, 4)
    x, rhs = normal((3, 1, 64), np.float32, 3), np.array([3, 0, 3], kind)
    got = kernels.gather_qmm(
        hiprt.array(x), *map(hiprt.array, parts), rhs_indices=hiprt.array(rhs), sorted_indices=True
    )
    check(close, got, x, w, None, rhs)


@settings(max_examples=9, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(), mode=st.sampled_from([("affine", 32, 6), ("mxfp4", 32, 4), ("affine", 32, 4)]), turned=st.booleans()
)
def test_any_shapes(branch, dtype, normal, close, data, mode, turned):
    experts, lines, columns, groups = (data.draw(st.integers(1, top)) for top in (4, 3, 20, 4))
    shape = (experts, 32 * groups, 32) if turned else (experts, columns, 32 * groups)
    parts, w = stored(shape, dtype, *mode)
    x = normal((data.draw(st.integers(1, 3)), lines, 32 * groups), dtype, 5)
    rhs = np.array(data.draw(st.lists(st.integers(-1, experts), min_size=1, max_size=4)), np.int32)[:, None]
    device = list(map(hiprt.array, parts))
    options = {"transpose": not turned, "group_size": 32, "bits": mode[2], "mode": mode[0]}
    biases = device[2] if len(device) > 2 else None
    got = kernels.gather_qmm(hiprt.array(x), *device[:2], biases, rhs_indices=hiprt.array(rhs), **options)
    check(close, got, x, w, None, rhs, not turned)


def test_equals_mlx_where_it_is_exact(normal):
    mx = pytest.importorskip("mlx.core")
    parts, _ = stored((4, 7, 64), np.float32, "affine", 64, 4)
    x, rhs = normal((2, 1, 1, 1, 64), np.float32, 3), np.array([[[0, 3]], [[2, 2]]], np.int32)
    got = kernels.gather_qmm(hiprt.array(x), *map(hiprt.array, parts), rhs_indices=hiprt.array(rhs)).numpy()
    theirs = np.array(mx.gather_qmm(mx.array(x), *map(mx.array, parts), rhs_indices=mx.array(rhs)))
    assert got.shape == theirs.shape
    assert np.abs(got - theirs).max() <= 2e-6 * np.abs(theirs).max()


def test_mistakes_are_named():
    parts = [hiprt.array(v) for v in stored((2, 8, 64), np.float32, "affine", 64, 4)[0]]
    x, one = hiprt.zeros((2, 1, 64)), hiprt.zeros(1, np.int32)
    for message, wrong in [
        ("Indices must be integral", lambda: kernels.gather_qmm(x, *parts, rhs_indices=hiprt.zeros(1))),
        ("Indices must be integral", lambda: kernels.gather_qmm(x, *parts, lhs_indices=hiprt.zeros(1, np.bool_))),
        (
            r"Shapes \(3\) and \(2\) cannot",
            lambda: kernels.gather_qmm(x, *parts, hiprt.zeros(3, np.int32), hiprt.zeros(2, np.int32)),
        ),
        ("two dimensions", lambda: kernels.gather_qmm(x[0, 0], *parts, one, one)),
        ("received float32", lambda: kernels.gather_qmm(x, x, *parts[1:])),
        ("out overlaps", lambda: kernels.gather_qmm(x, *parts, one, one, out=x.reshape(128)[:8].reshape(1, 1, 8))),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
