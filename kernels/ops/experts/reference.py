"""Mixtures of experts in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.ops.elementwise.reference import silu_mul
from hiprt.kernels.ops.norm.reference import rms_norm
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["moe_combine", "moe_down", "moe_gate_up", "moe_route"]


def moe_route(logits: Host, k: int, normalize: bool = True, shared: bool = False) -> tuple[NDArray[np.int32], Floats]:
    """Return the experts of the k largest logits, the lower of equals first, then a shared one, and their shares.

    A logit that is NaN is larger than all numbers.
    """
    values = double(logits[..., : logits.shape[-1] - shared])
    indices = np.lexsort((-values, ~np.isnan(values)), axis=-1)[..., :k].astype(np.int32)
    shares = np.exp(values - values.max(axis=-1, keepdims=True))
    shares = np.take_along_axis(shares / shares.sum(axis=-1, keepdims=True), indices, axis=-1)
    shares = shares / shares.sum(axis=-1, keepdims=True) if normalize else shares
    if shared:
        last = np.full((*indices.shape[:-1], 1), values.shape[-1], np.int32)
        opening = 1 / (1 + np.exp(-double(logits[..., -1:])))
        indices, shares = np.concatenate([indices, last], axis=-1), np.concatenate([shares, opening], axis=-1)
    return indices, shares


def moe_combine(y: Host, weights: Host, shared: Host | None = None, gate: Host | None = None) -> Floats:
    """Return the weighted sum over experts, plus ``sigmoid(gate) * shared``."""
    total = (double(y) * double(weights)[..., None]).sum(axis=-2)
    if shared is not None and gate is not None:
        total = total + double(shared) / (1 + np.exp(-double(gate)))
    return np.asarray(total)


def moe_gate_up(x: Host, indices: Host, w: Floats, norm: Host | None = None, eps: float = 1e-6) -> Floats:
    """Return ``silu(gate) * up`` of the chosen experts, zeros if one does not exist; `w` holds dequantised values."""
    vectors = double(x) if norm is None else rms_norm(x, norm, eps)
    columns = w.shape[1] // 2
    out = np.zeros((*indices.shape, columns))
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < len(w)))):
        sums = w[indices[token, slot]] @ vectors[token]
        out[token, slot] = silu_mul(sums[:columns], sums[columns:])
    return out


def moe_down(y: Host, indices: Host, weights: Host, w: Floats, residual: Host | None = None) -> Floats:
    """Return the weighted sum of the chosen experts' results; `w` holds dequantised values."""
    out = np.zeros((len(y), w.shape[1])) if residual is None else double(residual)
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < len(w)))):
        out[token] += float(weights[token, slot]) * (w[indices[token, slot]] @ double(y[token, slot]))
    return out
