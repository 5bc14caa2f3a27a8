"""Every fused op against the ops it stands for, within the roundings to the dtype that it leaves out."""

import numpy as np
import pytest

import hiprt
from hiprt import kernels

ROUNDING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-21}
EPS = 1e-6


def stored(normal, dtype, *shape):
    """A quantized matrix, or a stack of them, whose products keep the size of the vectors."""
    return kernels.quantize(hiprt.array(normal(shape, dtype, 9, shape[-1] ** -0.5)))


def halves(x):
    """Gate and up, side by side."""
    middle = x.shape[-1] // 2
    return kernels.contiguous(x[..., :middle]), kernels.contiguous(x[..., middle:])


def experts_of(x, parts, indices):
    """Products of each token with its experts: `x` of [tokens, k or 1, 1, width]."""
    return kernels.gather_qmm(x, *parts, rhs_indices=indices)


def add_rms_norm(make, normal, dtype):
    x, residual, weight = make(3, 96), make(3, 96), make(96)
    total = kernels.add(x, residual)
    return kernels.add_rms_norm(x, residual, weight, EPS), (total, kernels.rms_norm(total, weight, EPS))


def gated_rms_norm(make, normal, dtype):
    x, gate, weight = make(3, 96), make(3, 96), make(96)
    return kernels.gated_rms_norm(x, gate, weight, EPS), kernels.silu_mul(gate, kernels.rms_norm(x, weight, EPS))


def silu_mul(make, normal, dtype):
    gate, up = make(3, 96), make(3, 96)
    return kernels.silu_mul(gate, up), kernels.multiply(kernels.silu(gate), up)


def qmv_of_a_norm(make, normal, dtype):
    x, weight, parts = make(2, 128), make(128), stored(normal, dtype, 20, 128)
    normed = kernels.rms_norm(x, weight, EPS)
    return kernels.qmv(x, *parts, norm=weight, eps=EPS), kernels.quantized_matmul(normed, *parts)


def qmv_on_a_residual(make, normal, dtype):
    x, residual, parts = make(2, 128), make(2, 20), stored(normal, dtype, 20, 128)
    return kernels.qmv(x, *parts, residual=residual), kernels.add(residual, kernels.quantized_matmul(x, *parts))


def qmv_of_gate_and_up(make, normal, dtype):
    x, parts = make(2, 128), stored(normal, dtype, 40, 128)
    return kernels.qmv(x, *parts, swiglu=True), kernels.silu_mul(*halves(kernels.quantized_matmul(x, *parts)))


def moe_gate_up(make, normal, dtype):
    x, weight, parts = make(2, 64), make(64), stored(normal, dtype, 4, 40, 64)
    chosen = hiprt.array(np.array([[3, 0], [1, 3]], np.int32))
    normed = kernels.rms_norm(x, weight, EPS).reshape(2, 1, 1, 64)
    apart = kernels.silu_mul(*halves(experts_of(normed, parts, chosen).reshape(2, 2, 40)))
    return kernels.moe_gate_up(x, chosen, *parts, norm=weight, eps=EPS), apart


def moe_down(make, normal, dtype):
    y, shares, residual, parts = make(2, 2, 64), make(2, 2), make(2, 20), stored(normal, dtype, 4, 20, 64)
    chosen = hiprt.array(np.array([[3, 0], [1, 3]], np.int32))
    left = hiprt.array(np.arange(4, dtype=np.int32).reshape(2, 2))
    products = kernels.gather_qmm(y.reshape(4, 1, 64), *parts, lhs_indices=left, rhs_indices=chosen)
    apart = kernels.add(residual, kernels.moe_combine(products.reshape(2, 2, 20), shares))
    return kernels.moe_down(y, chosen, shares, *parts, residual=residual), apart


def moe_combine(make, normal, dtype):
    y, shares, shared, gate = make(3, 2, 40), make(3, 2), make(3, 40), make(3, 1)
    weighted = kernels.sum(kernels.multiply(y, shares.reshape(3, 2, 1)), 1)
    apart = kernels.add(weighted, kernels.multiply(kernels.sigmoid(gate), shared))
    return kernels.moe_combine(y, shares, shared, gate), apart


def moe_route(make, normal, dtype):
    logits = make(3, 33)
    chosen, shares = kernels.moe_route(logits, 4)
    order = kernels.argsort(kernels.negative(logits))
    taken = kernels.take_along_axis(kernels.softmax(logits), kernels.contiguous(order[:, :4]), -1)
    return (chosen, shares), (order[:, :4], kernels.divide(taken, kernels.sum(taken, -1, keepdims=True)))


def attention(make, normal, dtype):
    q, keys, values, gate = make(2, 4, 64), make(2, 2, 9, 64), make(2, 2, 9, 64), make(2, 256)
    position = hiprt.array(np.array([4, 8], np.int32))
    apart = kernels.attention(q, keys, values, position, scale=0.125).reshape(2, 256)
    fused = kernels.attention(q, keys, values, position, scale=0.125, gate=gate).reshape(2, 256)
    return fused, kernels.multiply(apart, kernels.sigmoid(gate))


def prefill_attention(make, normal, dtype):
    q, keys, values, gate = make(5, 4, 64), make(2, 9, 64), make(2, 9, 64), make(5, 256)
    position = hiprt.array(np.arange(5, dtype=np.int32))
    apart = kernels.prefill_attention(q, keys, values, position, scale=0.125).reshape(5, 256)
    fused = kernels.prefill_attention(q, keys, values, position, scale=0.125, gate=gate).reshape(5, 256)
    return fused, kernels.multiply(apart, kernels.sigmoid(gate))


# Beside these: norm_rope_write and norm_rope_attention in files of their names, and gdn_step in test_hybrid.py.
FUSED = {
    f.__name__: f
    for f in (
        add_rms_norm, gated_rms_norm, silu_mul, qmv_of_a_norm, qmv_on_a_residual, qmv_of_gate_and_up, moe_gate_up,
        moe_down, moe_combine, moe_route, attention, prefill_attention,
    )
}  # fmt: skip


@pytest.mark.singles
@pytest.mark.parametrize("name", FUSED)
def test_equals_the_ops_it_stands_for(branch, dtype, name, normal):
    seeds = iter(range(20))
    pairs = FUSED[name](lambda *shape: hiprt.array(normal(shape, dtype, next(seeds))), normal, dtype)
    fused, apart = (each if isinstance(each, tuple) else (each,) for each in pairs)
    for found, expected in zip(fused, apart, strict=True):
        exact = expected.numpy().astype(np.float64)
        bound = 8 * ROUNDING[dtype.name] * (np.abs(exact).max() if found.dtype == dtype else 0)
        np.testing.assert_allclose(found.numpy().astype(np.float64), exact, rtol=0, atol=bound)
