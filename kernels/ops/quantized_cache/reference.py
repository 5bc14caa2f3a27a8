"""Caches of 8 bits in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.ops.attention.reference import attention, norm_rope_write
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["codes_of", "dequantize_cache", "norm_rope_quantize", "quantized_attention"]

GROUP_SIZE = 64
Codes = NDArray[np.int8]
Scales = NDArray[np.float32]


def codes_of(x: Host) -> tuple[Codes, Scales]:
    """Return the codes of the last axis and the scales of its groups, computed in float32 as the kernel does."""
    groups = x.astype(np.float32).reshape(*x.shape[:-1], -1, GROUP_SIZE)
    largest = np.abs(groups).max(-1)
    scales = np.where(largest < np.float32(1e-30), np.float32(0), largest / np.float32(127)).astype(np.float32)
    inverse = np.where(scales == 0, np.float32(0), np.float32(1) / np.where(scales == 0, np.float32(1), scales))
    codes = np.rint(np.clip(groups * inverse[..., None].astype(np.float32), -127, 127)).astype(np.int8)
    return codes.reshape(x.shape), scales


def dequantize_cache(codes: Codes, scales: Scales) -> Floats:
    """Return the products of codes and the scales of their groups."""
    return double(codes) * np.repeat(double(scales), GROUP_SIZE, axis=-1)


def norm_rope_quantize(
    qkv: Host,
    q_norm: Host | None,
    k_norm: Host | None,
    position: NDArray[np.int32],
    keys: Codes,
    values: Codes,
    key_scales: Scales,
    value_scales: Scales,
    heads: int,
    base: float,
    eps: float = 1e-6,
    dims: int | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return the queries, and the keys and values that caches hold before they are rounded to codes."""
    held = dequantize_cache(keys, key_scales), dequantize_cache(values, value_scales)
    return norm_rope_write(qkv, q_norm, k_norm, position, *held, heads, base, eps, dims)


def quantized_attention(
    q: Host, keys: Codes, values: Codes, key_scales: Scales, value_scales: Scales, position: int, scale: float
) -> Floats:
    """Attend to positions 0 to `position` of what the codes stand for."""
    held = dequantize_cache(keys, key_scales), dequantize_cache(values, value_scales)
    return attention(q, *held, position, scale)
