"""Quantised ops of the module, and its codes of 8 bits, beside the reference and beside MLX where it is installed."""

import ml_dtypes
import numpy as np
import pytest

from hiprt.kernels.reference import quantize as reference
from hiprt.metal_compat import mlx as mx

RANDOM = np.random.default_rng(4)
W = RANDOM.normal(size=(16, 64)).astype(np.float32)
X = RANDOM.normal(size=(3, 64)).astype(np.float32)


def of_codes(mode):
    """What is left of the matrix in a mode."""
    return reference.dequantize_floating(*reference.quantize_floating(W, mode), mode)


@pytest.mark.parametrize("mode", reference.FLOATING)
def test_each_mode_is_written_and_read(mode):
    packed, scales = mx.quantize(mx.array(W), mode=mode)
    for found, exact in zip((packed, scales), reference.quantize_floating(W, mode)):
        np.testing.assert_array_equal(np.array(found), exact)
    np.testing.assert_array_equal(np.array(mx.dequantize(packed, scales, mode=mode, dtype=mx.float32)), of_codes(mode))
    product = mx.quantized_matmul(mx.array(X), packed, scales, mode=mode)
    np.testing.assert_allclose(np.array(product), X @ of_codes(mode).T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_both_sides_are_quantised(mode):
    rows = reference.dequantize_floating(*reference.quantize_floating(X, mode), mode)
    exact = rows @ of_codes(mode).T
    for matrix in (mx.quantize(mx.array(W), mode=mode), (mx.array(W),)):
        np.testing.assert_allclose(np.array(mx.qqmm(mx.array(X), *matrix, mode=mode)), exact, rtol=1e-5, atol=1e-5)
    one = mx.qqmm(mx.array(X[0]), mx.array(W), mode=mode)
    np.testing.assert_allclose(np.array(one), exact[0], rtol=1e-5, atol=1e-5)
    stacks = mx.array(X.reshape(3, 1, 64)), mx.array(W.reshape(2, 8, 64))
    chosen = mx.gather_qqmm(*stacks, rhs_indices=mx.array([1, 0, 1]), mode=mode)
    for row, at, found in zip(exact, (1, 0, 1), np.array(chosen)):
        np.testing.assert_allclose(found[0], row[8 * at : 8 * at + 8], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_global_scale_is_that_of_mlx(dtype):
    """Tiny values come back, which scales of groups alone cannot say."""
    top = np.abs(W).max()
    w, whole = mx.array(W * 1e-4).astype(getattr(mx, dtype)), mx.array(np.float32(top * 1e-4))
    packed, scales = mx.quantize(w, mode="nvfp4", global_scale=whole)
    back = mx.dequantize(packed, scales, mode="nvfp4", global_scale=whole, dtype=mx.float32)
    assert np.abs(np.array(back) - W * 1e-4).max() < 0.17 * top * 1e-4
    theirs = pytest.importorskip("mlx.core")
    given = theirs.array(W * 1e-4).astype(getattr(theirs, dtype))
    exact = theirs.quantize(given, mode="nvfp4", global_scale=theirs.array(np.float32(top * 1e-4)))
    for found, expected in zip((packed, scales), exact, strict=True):
        np.testing.assert_array_equal(np.array(found), np.array(expected))


def test_codes_of_8_bits():
    words = RANDOM.integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
    near = RANDOM.normal(size=4000) * 2.0 ** RANDOM.uniform(-12, 10, 4000)
    edges = [448, 449, 464, 0, -0.0, 2**-9, 2**-10, 3 * 2**-10, 2**-6, np.inf, -np.inf, np.nan]
    values = np.concatenate([words, near.astype(np.float32), np.array(edges, np.float32)])
    np.testing.assert_array_equal(np.array(mx.to_fp8(mx.array(values))), reference.to_e4m3(values))
    codes = np.arange(256, dtype=np.uint8)
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        found = np.array(mx.from_fp8(mx.array(codes), dtype).astype(mx.float32))
        np.testing.assert_array_equal(found, codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32))


def test_mistakes_are_named():
    w, scale = mx.array(W), mx.array(1.0)
    packed, scales = mx.quantize(w, mode="nvfp4")
    for message, wrong in [
        ("only supported for 'nvfp4'", lambda: mx.quantize(w, mode="mxfp4", global_scale=scale)),
        ("must be a scalar", lambda: mx.quantize(w, mode="nvfp4", global_scale=w)),
        ("must have dtype float32", lambda: mx.dequantize(packed, scales, mode="nvfp4", global_scale=mx.array(1))),
        ("Scales must be provided", lambda: mx.qqmm(w, packed)),
        ("or neither", lambda: mx.qqmm(w, packed, scales, global_scale_x=scale)),
        ("Mode 'affine' is not supported", lambda: mx.qqmm(w, w, mode="affine")),
        ("first argument dtype == int32", lambda: mx.qqmm(w.astype(mx.int32), w)),
        ("Input must have type uint8", lambda: mx.from_fp8(w)),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
