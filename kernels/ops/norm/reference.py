"""Norms and softmax in numpy."""

from __future__ import annotations

import numpy as np

from hiprt.kernels.ops.elementwise.reference import silu_mul
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["add_rms_norm", "gated_rms_norm", "layer_norm", "rms_norm", "softmax"]


def rms_norm(x: Host, weight: Host | None, eps: float) -> Floats:
    """Normalise the last axis by its root mean square."""
    values = double(x)
    normal = values / np.sqrt(np.mean(values**2, axis=-1, keepdims=True) + np.float64(np.float32(eps)))
    return np.asarray(normal if weight is None else normal * double(weight))


def add_rms_norm(x: Host, residual: Host, weight: Host, eps: float) -> tuple[Floats, Floats]:
    """Return the sum, and its normalisation after it was rounded to the dtype of `x`."""
    total = double(x) + double(residual)
    return total, rms_norm(total.astype(x.dtype), weight, eps)


def gated_rms_norm(x: Host, gate: Host, weight: Host, eps: float) -> Floats:
    """Normalise the last axis by its root mean square and multiply it by ``silu(gate)``."""
    return silu_mul(gate, rms_norm(x, weight, eps))


def layer_norm(x: Host, weight: Host | None, bias: Host | None, eps: float) -> Floats:
    """Normalise the last axis by its mean and variance."""
    far = double(x) - double(x).mean(axis=-1, keepdims=True)
    normed = far / np.sqrt((far * far).mean(axis=-1, keepdims=True) + np.float32(eps))
    normed = normed if weight is None else normed * double(weight)
    return np.asarray(normed if bias is None else normed + double(bias))


def softmax(x: Host, axis: int = -1) -> Floats:
    """Return ``exp(x) / sum(exp(x))``."""
    shares = np.exp(double(x) - double(x).max(axis=axis, keepdims=True))
    return np.asarray(shares / shares.sum(axis=axis, keepdims=True))
