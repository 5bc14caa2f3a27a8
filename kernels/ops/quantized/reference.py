"""Products with quantised matrices in numpy. `quantize` and `dequantize` define the formats."""

from __future__ import annotations

import numpy as np

from hiprt.kernels.ops.elementwise.reference import silu_mul
from hiprt.kernels.ops.norm.reference import rms_norm
from hiprt.kernels.reference.float64 import Floats, Host, double
from hiprt.kernels.reference.quantize import dequantize, quantize, unpack

__all__ = ["dequantize", "gather_qmm", "qmv", "quantize", "quantized_embedding", "quantized_matmul", "weights"]


def quantized_matmul(x: Host, packed: Host, scales: Host, biases: Host, group_size: int, bits: int) -> Floats:
    """Return ``x @ weights.T``."""
    return double(x) @ weights(packed, scales, biases, group_size, bits).T


def qmv(
    x: Host,
    stored: tuple[Host, Host, Host],
    group_size: int,
    bits: int,
    norm: Host | None = None,
    eps: float = 1e-6,
    residual: Host | None = None,
    swiglu: bool = False,
) -> Floats:
    """Return ``rms_norm(x) @ weights.T + residual``, or ``silu(gate) * up`` of its halves."""
    values = double(x) if norm is None else rms_norm(x, norm, eps)
    result = values @ weights(*stored, group_size, bits).T
    if swiglu:
        result = silu_mul(*np.split(result, 2, axis=1))
    return result if residual is None else result + double(residual)


def gather_qmm(
    x: Host,
    w: Floats,
    lhs_indices: Host | None,
    rhs_indices: Host | None,
    transpose: bool = True,
) -> Floats:
    """Return the products of matrices that indices choose, with dequantised weights; no matrix gives zeros."""
    operands = []
    for value, indices in ((double(x), lhs_indices), (w, rhs_indices)):
        stack = np.concatenate([value.reshape(-1, *value.shape[-2:]), np.zeros((1, *value.shape[-2:]))])
        chosen = np.arange(len(stack) - 1).reshape(value.shape[:-2]) if indices is None else indices.astype(np.int64)
        operands.append(stack[np.where((chosen < 0) | (chosen >= len(stack)), -1, chosen)])
    return np.asarray(operands[0] @ (np.swapaxes(operands[1], -1, -2) if transpose else operands[1]))


def quantized_embedding(ids: Host, packed: Host, scales: Host, biases: Host, group_size: int, bits: int) -> Host:
    """Return the rows that `ids` name, bit for bit as the op does. Ids that do not exist give zeros."""
    rows = dequantize(packed, scales, biases, group_size, bits)
    exists = (ids >= 0) & (ids < len(rows))
    return np.where(exists[:, None], rows[np.where(exists, ids, 0)], np.zeros((), rows.dtype))


def weights(packed: Host, scales: Host, biases: Host, group_size: int, bits: int) -> Floats:
    """Return ``code * scale + bias`` without rounding."""
    codes = double(unpack(packed, bits)).reshape(*scales.shape, group_size)
    return (codes * double(scales)[..., None] + double(biases)[..., None]).reshape(packed.shape[0], -1)
