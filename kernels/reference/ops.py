"""Every op in numpy and float64: what the kernels are tested against.

Arguments are host arrays of the same shapes as the ops'; results are exact to float64, before any rounding to the op's
dtype. `quantized_embedding` alone rounds as the op does, because its result is defined bit by bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.quantize import dequantize, unpack

__all__ = [
    "add",
    "advance",
    "argmax",
    "attention",
    "filter_logits",
    "gated_rms_norm",
    "gather_qmm",
    "kv_write",
    "layer_norm",
    "logsumexp",
    "matmul",
    "prefill_attention",
    "qmv",
    "quantized_embedding",
    "quantized_matmul",
    "repetition_penalty",
    "rms_norm",
    "rope",
    "sample",
    "silu_mul",
    "softmax",
]

Floats = NDArray[np.float64]


def double(x: NDArray[Any]) -> Floats:
    """Return float64 values; ml_dtypes' bfloat16 converts too."""
    return x.astype(np.float64)


def add(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Return ``a + b``."""
    return double(a) + double(b)


def silu_mul(gate: NDArray[Any], up: NDArray[Any]) -> Floats:
    """Return ``gate * sigmoid(gate) * up``."""
    with np.errstate(over="ignore"):
        return double(gate) / (1.0 + np.exp(-double(gate))) * double(up)


def rms_norm(x: NDArray[Any], weight: NDArray[Any] | None, eps: float) -> Floats:
    """Normalise the last axis by its root mean square."""
    values = double(x)
    normal = values / np.sqrt(np.mean(values**2, axis=-1, keepdims=True) + np.float64(np.float32(eps)))
    return np.asarray(normal if weight is None else normal * double(weight))


def weights(packed: NDArray[Any], scales: NDArray[Any], biases: NDArray[Any], group_size: int, bits: int) -> Floats:
    """Return ``code * scale + bias`` without rounding."""
    codes = double(unpack(packed, bits)).reshape(*scales.shape, group_size)
    return (codes * double(scales)[..., None] + double(biases)[..., None]).reshape(packed.shape[0], -1)


def quantized_matmul(
    x: NDArray[Any], packed: NDArray[Any], scales: NDArray[Any], biases: NDArray[Any], group_size: int, bits: int
) -> Floats:
    """Return ``x @ weights.T``."""
    return double(x) @ weights(packed, scales, biases, group_size, bits).T


def qmv(
    x: NDArray[Any],
    stored: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    group_size: int,
    bits: int,
    norm: NDArray[Any] | None = None,
    eps: float = 1e-6,
    residual: NDArray[Any] | None = None,
    swiglu: bool = False,
) -> Floats:
    """Return ``rms_norm(x) @ weights.T + residual``, or ``silu(gate) * up`` of its halves."""
    values = double(x) if norm is None else rms_norm(x, norm, eps)
    result = values @ weights(*stored, group_size, bits).T
    if swiglu:
        result = silu_mul(*np.split(result, 2, axis=1))
    return result if residual is None else result + double(residual)


def gather_qmm(
    x: NDArray[Any],
    w: NDArray[np.float64],
    lhs_indices: NDArray[Any] | None,
    rhs_indices: NDArray[Any] | None,
    transpose: bool = True,
) -> Floats:
    """Return the products of matrices that indices choose, of dequantised weights; no matrix gives zeros."""
    operands = []
    for value, indices in ((double(x), lhs_indices), (w, rhs_indices)):
        stack = np.concatenate([value.reshape(-1, *value.shape[-2:]), np.zeros((1, *value.shape[-2:]))])
        chosen = np.arange(len(stack) - 1).reshape(value.shape[:-2]) if indices is None else indices.astype(np.int64)
        operands.append(stack[np.where((chosen < 0) | (chosen >= len(stack)), -1, chosen)])
    return np.asarray(operands[0] @ (np.swapaxes(operands[1], -1, -2) if transpose else operands[1]))


def quantized_embedding(
    ids: NDArray[Any], packed: NDArray[Any], scales: NDArray[Any], biases: NDArray[Any], group_size: int, bits: int
) -> NDArray[Any]:
    """Return the rows `ids` names, bit for bit as the op does; zeros for ids that do not exist."""
    rows = dequantize(packed, scales, biases, group_size, bits)
    exists = (ids >= 0) & (ids < len(rows))
    return np.where(exists[:, None], rows[np.where(exists, ids, 0)], np.zeros((), rows.dtype))


def rope(
    x: NDArray[Any],
    position: int | NDArray[np.int32],
    base: float,
    dims: int | None = None,
    traditional: bool = False,
) -> Floats:
    """Rotate pairs of the first `dims` elements of each head, by a position of all or one for each row."""
    result = double(x)
    dims = x.shape[-1] if dims is None else dims
    turns = np.float64(base) ** (-np.arange(0, dims, 2) / max(dims, 1))
    angle = np.reshape(position, (-1, *(1,) * (x.ndim - 1))) * turns
    pairs = (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, dims // 2), slice(dims // 2, dims))
    left, right = double(x)[..., pairs[0]], double(x)[..., pairs[1]]
    result[..., pairs[0]] = left * np.cos(angle) - right * np.sin(angle)
    result[..., pairs[1]] = right * np.cos(angle) + left * np.sin(angle)
    return result


def kv_write(cache: NDArray[Any], x: NDArray[Any], position: int | NDArray[np.int32]) -> NDArray[Any]:
    """Return the cache, or one for each row, with row `position` of every head replaced."""
    result = cache.copy()
    for row, at in enumerate(np.ravel(position)):
        if 0 <= at < cache.shape[-2]:
            (result[row] if cache.ndim == 4 else result)[:, at] = x[row] if x.ndim == 3 else x
    return result


def attention(q: NDArray[Any], keys: NDArray[Any], values: NDArray[Any], position: int, scale: float) -> Floats:
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
    q: NDArray[Any],
    keys: NDArray[Any],
    values: NDArray[Any],
    position: NDArray[np.int32],
    scale: float,
    gate: NDArray[Any] | None = None,
) -> Floats:
    """Attend with each row up to its own position, and open the result by ``sigmoid(gate)``."""
    each = [attention(row, keys, values, int(last), scale) for row, last in zip(q, position)]
    result = np.stack(each) if each else np.zeros(q.shape)
    return result if gate is None else result / (1.0 + np.exp(-double(gate).reshape(q.shape)))


def argmax(x: NDArray[Any]) -> NDArray[np.int32]:
    """Return the first place of the largest value, or of the first NaN, of the last axis."""
    return np.asarray(np.argmax(double(x), axis=-1), np.int32)


def scramble(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix the bits of each word (``noise.h``)."""
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x735A2D97)
    return h ^ (h >> np.uint32(15))


def noise(seed: int, position: int, size: int) -> Floats:
    """Return the uniform numbers of one draw, in (0, 1)."""
    first = scramble(np.array([seed], np.uint32) ^ np.uint32(0x9E3779B9))
    second = scramble(first ^ np.array([position], np.int64).astype(np.uint32))
    words = scramble(scramble(np.arange(size, dtype=np.uint32) + second) ^ first)
    return (double(words >> np.uint32(9)) + 0.5) * 2.0**-23


def sample(logits: NDArray[Any], temperature: float, seed: int, position: int) -> int:
    """Draw an index: Gumbel noise on ``logits / temperature``; the largest logit where temperature is not positive."""
    values = double(logits).reshape(-1)
    if temperature > 0:
        values = values / temperature - np.log(-np.log(noise(seed, position, values.size)))
    return int(argmax(values))


def advance(step: NDArray[np.int32], tokens: NDArray[np.int32], sampled: int) -> None:
    """Move the step block to the next position, in place."""
    position = int(step[1]) + 1
    if 0 <= position < len(tokens):
        if position >= step[2]:
            tokens[position] = sampled
        step[:2] = tokens[position], position


def softmax(x: NDArray[Any], axis: int = -1) -> Floats:
    """Return ``exp(x) / sum(exp(x))``."""
    shares = np.exp(double(x) - double(x).max(axis=axis, keepdims=True))
    return np.asarray(shares / shares.sum(axis=axis, keepdims=True))


def logsumexp(x: NDArray[Any], axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Floats:
    """Return ``log(sum(exp(x)))``."""
    join: Any = np.logaddexp.reduce
    return np.asarray(join(double(x), axis=axis, keepdims=keepdims))


def layer_norm(x: NDArray[Any], weight: NDArray[Any] | None, bias: NDArray[Any] | None, eps: float) -> Floats:
    """Normalise the last axis by its mean and variance."""
    far = double(x) - double(x).mean(axis=-1, keepdims=True)
    normed = far / np.sqrt((far * far).mean(axis=-1, keepdims=True) + np.float32(eps))
    normed = normed if weight is None else normed * double(weight)
    return np.asarray(normed if bias is None else normed + double(bias))


def gated_rms_norm(x: NDArray[Any], gate: NDArray[Any], weight: NDArray[Any], eps: float) -> Floats:
    """Normalise the last axis and open it by ``silu(gate)``."""
    return silu_mul(gate, rms_norm(x, weight, eps))


def matmul(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    """Return ``a @ b``."""
    return np.asarray(double(a) @ double(b))


def filter_logits(
    logits: NDArray[Any], top_k: int | None = None, top_p: float | None = None, min_p: float | None = None
) -> NDArray[np.bool_]:
    """Return which logits every rule keeps."""
    values = double(logits).reshape(-1)
    shares = np.exp(values - values.max())
    falling = np.sort(values)[::-1]
    kept = np.ones(values.size, np.bool_)
    if top_k is not None and 0 < top_k < values.size:
        kept &= values >= falling[top_k - 1]
    if top_p is not None and top_p < 1:
        mass = np.cumsum(np.sort(shares)[::-1])
        reached = int(np.argmax(mass >= np.float32(top_p) * mass[-1]))
        kept &= values >= falling[reached]
    if min_p is not None and min_p > 0:
        kept &= shares >= np.float32(min_p)
    return kept.reshape(logits.shape)


def repetition_penalty(
    logits: NDArray[Any], tokens: NDArray[np.int32], position: int, penalty: float, window: int = 20
) -> Floats:
    """Return logits in which tokens of the last positions are less likely."""
    result = double(logits).copy()
    end = min(position + 1, tokens.size)
    seen = tokens[max(end - window, 0) : max(end, 0)]
    seen = np.unique(seen[(seen >= 0) & (seen < result.size)])
    factor = np.float64(np.float32(penalty))
    flat = result.reshape(-1)
    flat[seen] = np.where(flat[seen] > 0, flat[seen] / factor, flat[seen] * factor)
    return flat.reshape(logits.shape)
