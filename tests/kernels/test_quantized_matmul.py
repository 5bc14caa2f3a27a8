"""quantized_matmul: every supported format, odd numbers of rows, widths of any number of groups, mistakes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hiprt
from hiprt import kernels
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.reference.quantize import pack, quantize

FORMATS = [(group, bits) for group in (32, 64, 128) for bits in (4, 8)]


def operands(m, n, k, dtype, group, bits, seed=0):
    random = np.random.default_rng(seed)
    packed, scales, biases = quantize(random.normal(size=(n, k)).astype(dtype), group, bits)
    return random.normal(size=(m, k)).astype(dtype), packed, scales, biases


def check(close, m, n, k, dtype, group, bits, seed=0):
    hosts = operands(m, n, k, dtype, group, bits, seed)
    got = kernels.quantized_matmul(*map(hiprt.array, hosts), group_size=group, bits=bits)
    x, packed, scales, biases = hosts
    # The terms that are summed: scale * code * x and bias * x, by groups.
    parts = reference.weights(packed, np.abs(scales), np.abs(biases), group, bits)
    close(
        got,
        reference.quantized_matmul(*hosts, group, bits),
        magnitude=np.abs(reference.double(x)) @ parts.T,
        steps=16 + k / 256,
    )


@pytest.mark.parametrize(("group", "bits"), FORMATS)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (1, 7, 3), (3, 33, 2), (1, 70, 9)])
def test_matches_the_reference(branch, dtype, group, bits, m, n, k, close):
    check(close, m, n, k * group, dtype, group, bits, seed=n)


@pytest.mark.parametrize("shape", [(1, 2, 2048 + 64), (2, 5, 4096), (1, 129, 192), (1, 1030, 64)])
def test_more_than_one_chunk_stretch_and_threadgroup(branch, dtype, shape, close):
    check(close, *shape, dtype, 64, 4, seed=5)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(m=st.integers(1, 4), n=st.integers(1, 90), groups=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_any_shape(branch, dtype, close, m, n, groups, seed):
    check(close, m, n, 32 * groups, dtype, 32, 4, seed)


def test_every_code_counts(branch, dtype):
    # One code of the row is c, x picks it out: the product is c exactly.
    for bits in (4, 8):
        for place in (0, 1, 7, 8, 31, 32, 63):
            codes = np.zeros((2**bits, 64), np.uint8)
            codes[:, place] = np.arange(2**bits)
            x = np.zeros((1, 64), dtype)
            x[0, place] = 1
            ones, zeros = np.ones((2**bits, 1), dtype), np.zeros((2**bits, 1), dtype)
            packed = pack(codes, bits)
            got = kernels.quantized_matmul(*map(hiprt.array, (x, packed, ones, zeros)), group_size=64, bits=bits)
            assert got.numpy().astype(int).tolist() == [list(range(2**bits))]


def test_no_rows(branch, dtype):
    x, packed, scales, biases = map(hiprt.array, operands(1, 4, 64, dtype, 64, 4))
    assert kernels.quantized_matmul(hiprt.empty((0, 64), dtype), packed, scales, biases).shape == (0, 4)
    assert kernels.quantized_matmul(x, packed[:0], scales[:0], biases[:0]).shape == (1, 0)


def test_out_receives_the_product(branch, dtype):
    x, packed, scales, biases = map(hiprt.array, operands(2, 6, 64, dtype, 64, 4))
    out = hiprt.zeros((2, 6), dtype)
    assert kernels.quantized_matmul(x, packed, scales, biases, out=out) is out
    np.testing.assert_array_equal(out.numpy(), kernels.quantized_matmul(x, packed, scales, biases).numpy())


def test_unaligned_operands_take_the_other_kernel(branch, dtype, close):
    x, packed, scales, biases = operands(1, 6, 128, dtype, 64, 4)
    shifted = hiprt.array(np.concatenate([np.zeros(1, dtype), x[0]]))[1:].reshape(1, 128)
    got = kernels.quantized_matmul(shifted, *map(hiprt.array, (packed, scales, biases)))
    exact = reference.quantized_matmul(x, packed, scales, biases, 64, 4)
    close(got, exact, magnitude=np.abs(exact) + 30, steps=16)


def test_more_rows_than_a_grid_has(dtype):
    x, packed, scales, biases = operands(65600, 3, 32, dtype, 32, 4)
    got = kernels.quantized_matmul(*map(hiprt.array, (x, packed, scales, biases)), group_size=32).numpy()
    part = kernels.quantized_matmul(*map(hiprt.array, (x[65500:], packed, scales, biases)), group_size=32).numpy()
    np.testing.assert_array_equal(got[65500:], part)


def test_mistakes_are_named(dtype):
    x, w, s, b = map(hiprt.array, operands(2, 8, 128, dtype, 64, 4))
    for message, wrong in [
        ("number of bits 7 is not supported", lambda: kernels.quantized_matmul(x, w, s, b, bits=7)),
        ("group size 16 is not supported", lambda: kernels.quantized_matmul(x, w, s, b, group_size=16)),
        ("with group_size=32 and bits=4", lambda: kernels.quantized_matmul(x, w, s, b, group_size=32)),
        (r"biases with \(4,2\)", lambda: kernels.quantized_matmul(x, w, s, b[:4])),
        (r"w.shape\(\) == \(8,16\) .* bits=8", lambda: kernels.quantized_matmul(x, w, s, b, bits=8)),
        (r"\(..., 64\) does not match .* \(128, 8\)", lambda: kernels.quantized_matmul(x.reshape(4, 64), w, s, b)),
        (r"matrix \(8, 128\) .* transpose=false", lambda: kernels.quantized_matmul(x, w, s, b, transpose=False)),
        ("incompatible", lambda: kernels.quantized_matmul(x, w[0], s, b)),
        ("should be uint32 but received int32", lambda: kernels.quantized_matmul(x, w.view(np.int32), s, b)),
        ("Biases must be provided", lambda: kernels.quantized_matmul(x, w, s)),
        ("Biases must be null", lambda: kernels.quantized_matmul(x, w, s, b, mode="mxfp4")),
        ("Scale type must be uint8", lambda: kernels.quantized_matmul(x, w, s, mode="mxfp4")),
        ("received int32", lambda: kernels.quantized_matmul(hiprt.zeros((2, 128), np.int32), w, s, b)),
        ("out overlaps", lambda: kernels.quantized_matmul(x, w, s, b, out=x.reshape(256)[:16].reshape(2, 8))),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
