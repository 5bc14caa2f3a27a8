"""Attention, rotary positions and the key-value cache in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.ops.norm.reference import rms_norm
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["attention", "kv_write", "norm_rope_attention", "norm_rope_write", "prefill_attention", "rope"]


def attention(q: Host, keys: Host, values: Host, position: int, scale: float) -> Floats:
    """Attend to positions 0 to `position`, with query heads grouped over the heads of the cache."""
    if position < 0:
        return np.zeros(q.shape)
    repeat = q.shape[0] // keys.shape[0]
    seen = slice(0, min(position + 1, keys.shape[1]))
    scores = np.float64(np.float32(scale)) * np.einsum(
        "hd,hpd->hp", double(q), double(np.repeat(keys, repeat, 0)[:, seen])
    )
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("hp,hpd->hd", shares, double(np.repeat(values, repeat, 0)[:, seen])))


def prefill_attention(
    q: Host,
    keys: Host,
    values: Host,
    position: NDArray[np.int32],
    scale: float,
    gate: Host | None = None,
) -> Floats:
    """Attend with each row up to its own position, and multiply the result by ``sigmoid(gate)``."""
    each = [attention(row, keys, values, int(last), scale) for row, last in zip(q, position)]
    result = np.stack(each) if each else np.zeros(q.shape)
    return result if gate is None else result / (1.0 + np.exp(-double(gate).reshape(q.shape)))


def rope(
    x: Host,
    position: int | NDArray[np.int32],
    base: float,
    dims: int | None = None,
    traditional: bool = False,
) -> Floats:
    """Rotate pairs of the first `dims` elements of each head, by one position for all rows or one for each."""
    result = double(x)
    dims = x.shape[-1] if dims is None else dims
    turns = np.float64(base) ** (-np.arange(0, dims, 2) / max(dims, 1))
    angle = np.reshape(position, (-1, *(1,) * (x.ndim - 1))) * turns
    pairs = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, dims // 2), slice(dims // 2, dims))
    left, right = double(x)[..., pairs[0]], double(x)[..., pairs[1]]
    result[..., pairs[0]] = left * np.cos(angle) - right * np.sin(angle)
    result[..., pairs[1]] = right * np.cos(angle) + left * np.sin(angle)
    return result


def kv_write(cache: Host, x: Host, position: int | NDArray[np.int32]) -> Host:
    """Return the cache, or the caches of all rows, with place `position` of every head replaced."""
    result = cache.copy()
    for row, at in enumerate(np.ravel(position)):
        if 0 <= at < cache.shape[-2]:
            (result[row] if cache.ndim == 4 else result)[:, at] = x[row] if x.ndim == 3 else x
    return result


def norm_rope_write(
    qkv: Host,
    q_norm: Host | None,
    k_norm: Host | None,
    position: NDArray[np.int32],
    keys: Host,
    values: Host,
    heads: int,
    base: float,
    eps: float = 1e-6,
    dims: int | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return the queries, and the caches of keys and of values; what was normed is rounded before it is rotated."""
    rows, kv_heads, _, width = keys.shape
    parts = qkv[:, : (heads + 2 * kv_heads) * width].reshape(rows, -1, width)
    q, k, v = np.split(parts, [heads, heads + kv_heads], axis=1)

    def rotated(x: Host, norm: Host | None) -> Floats:
        normed = x if norm is None else rms_norm(x, norm, eps).astype(x.dtype)
        return rope(normed, position, base, dims)

    keys, values = kv_write(double(keys), rotated(k, k_norm), position), kv_write(double(values), v, position)
    return rotated(q, q_norm), keys, values


def norm_rope_attention(
    qkv: Host,
    q_norm: Host | None,
    k_norm: Host | None,
    position: NDArray[np.int32],
    keys: Host,
    values: Host,
    heads: int,
    base: float,
    scale: float,
    eps: float = 1e-6,
    dims: int | None = None,
    gate: Host | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return what each row attends to, and the caches of keys and of values."""
    queries, keys, values = norm_rope_write(qkv, q_norm, k_norm, position, keys, values, heads, base, eps, dims)
    rows = zip(queries, keys, values, np.ravel(position), strict=True)
    each = [attention(*row[:3], int(row[3]), scale) for row in rows]
    mixed = np.stack(each) if each else queries
    return mixed if gate is None else mixed / (1.0 + np.exp(-double(gate).reshape(mixed.shape))), keys, values
