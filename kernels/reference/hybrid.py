"""Mixtures of experts and gated-delta layers in numpy and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.ops import gated_rms_norm, rms_norm, silu_mul

__all__ = [
    "conv_step",
    "gated_delta",
    "gated_delta_gates",
    "gdn_step",
    "moe_combine",
    "moe_down",
    "moe_gate_up",
    "moe_route",
]

Host = NDArray[Any]
Floats = NDArray[np.float64]


def moe_route(logits: Host, k: int, normalize: bool = True, shared: bool = False) -> tuple[NDArray[np.int32], Floats]:
    """Return the experts of the largest logits, of equal ones the lower, and their shares; then the shared one."""
    values = logits[..., : logits.shape[-1] - shared].astype(np.float64)
    indices = np.argsort(-values, axis=-1, kind="stable")[..., :k].astype(np.int32)
    shares = np.exp(values - values.max(axis=-1, keepdims=True))
    shares = np.take_along_axis(shares / shares.sum(axis=-1, keepdims=True), indices, axis=-1)
    shares = shares / shares.sum(axis=-1, keepdims=True) if normalize else shares
    if shared:
        last = np.full((*indices.shape[:-1], 1), values.shape[-1], np.int32)
        opening = 1 / (1 + np.exp(-logits[..., -1:].astype(np.float64)))
        indices, shares = np.concatenate([indices, last], axis=-1), np.concatenate([shares, opening], axis=-1)
    return indices, shares


def moe_combine(y: Host, weights: Host, shared: Host | None = None, gate: Host | None = None) -> Floats:
    """Return the weighted sum over experts, and the shared expert's part."""
    total = (y.astype(np.float64) * weights.astype(np.float64)[..., None]).sum(axis=-2)
    if shared is not None and gate is not None:
        total = total + shared.astype(np.float64) / (1 + np.exp(-gate.astype(np.float64)))
    return np.asarray(total)


def moe_gate_up(x: Host, indices: Host, w: Floats, norm: Host | None = None, eps: float = 1e-6) -> Floats:
    """Return ``silu(gate) * up`` of the chosen experts; `w` holds values, zeros where there is no such expert."""
    vectors = x.astype(np.float64) if norm is None else rms_norm(x, norm, eps)
    columns = w.shape[1] // 2
    out = np.zeros((*indices.shape, columns))
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < len(w)))):
        sums = w[indices[token, slot]] @ vectors[token]
        out[token, slot] = silu_mul(sums[:columns], sums[columns:])
    return out


def moe_down(y: Host, indices: Host, weights: Host, w: Floats, residual: Host | None = None) -> Floats:
    """Return the weighted sum of the chosen experts' answers; `w` holds values."""
    out = np.zeros((len(y), w.shape[1])) if residual is None else residual.astype(np.float64)
    for token, slot in zip(*np.nonzero((indices >= 0) & (indices < len(w)))):
        out[token] += float(weights[token, slot]) * (w[indices[token, slot]] @ y[token, slot].astype(np.float64))
    return out


def conv_step(x: Host, state: Host, weight: Host, bias: Host | None = None, silu: bool = True) -> tuple[Floats, Host]:
    """Return the convolution and the new state."""
    taps = weight.shape[1]
    seen = np.concatenate([state, x], axis=1)
    wide, factors = seen.astype(np.float64), weight.reshape(weight.shape[0], taps).astype(np.float64)
    total = np.asarray(sum(wide[:, j : j + x.shape[1]] * factors[:, j] for j in range(taps)))
    total = total if bias is None else total + bias.astype(np.float64)
    return np.asarray(total / (1 + np.exp(-total)) if silu else total), seen[:, seen.shape[1] - taps + 1 :]


def gated_delta(q: Host, k: Host, v: Host, g: Host, beta: Host, state: Host) -> tuple[Floats, Floats]:
    """Return the answers and the new state."""
    repeat = v.shape[2] // q.shape[2]
    queries, keys = (np.repeat(part.astype(np.float64), repeat, axis=2) for part in (q, k))
    kept = state.astype(np.float64)
    answers = np.zeros(v.shape)
    for t in range(v.shape[1]):
        kept = kept * g.astype(np.float64)[:, t, :, None, None]
        error = v.astype(np.float64)[:, t] - np.einsum("bhvk,bhk->bhv", kept, keys[:, t])
        kept = kept + (beta.astype(np.float64)[:, t, :, None] * error)[..., None] * keys[:, t, :, None]
        answers[:, t] = np.einsum("bhvk,bhk->bhv", kept, queries[:, t])
    return answers, kept


def gated_delta_gates(a: Host, b: Host, a_log: Host, dt_bias: Host) -> tuple[Floats, Floats]:
    """Return what is left of a state, and how much of the error is corrected."""
    soft = np.logaddexp(a.astype(np.float64) + dt_bias.astype(np.float64), 0)
    return np.exp(-np.exp(a_log.astype(np.float64)) * soft), 1 / (1 + np.exp(-b.astype(np.float64)))


def gdn_step(
    proj: Host, weight: Host, conv: Host, a_log: Host, dt_bias: Host, state: Host, heads: int, norm: Host | None = None
) -> tuple[Floats, Host, Floats]:
    """Return the answers and the new states; `heads` of keys."""
    batch, value_heads, value_width, key_width = state.shape
    keys, values = heads * key_width, value_heads * value_width
    x, z, b, a = np.split(proj, np.cumsum([2 * keys + values, values, value_heads]), axis=1)
    mixed, after = conv_step(x[:, None], conv, weight)
    q, k, v = np.split(mixed, [keys, 2 * keys], axis=-1)
    one = np.ones(key_width)
    q, k = (rms_norm(part.reshape(batch, 1, heads, key_width), one, 1e-6) for part in (q, k))
    g, beta = gated_delta_gates(a[:, None], b[:, None], a_log, dt_bias)
    v = v.reshape(batch, 1, value_heads, value_width)
    answers, kept = gated_delta(q / key_width, k / np.sqrt(key_width), v, g, beta, state)
    if norm is not None:
        answers = gated_rms_norm(answers, z.reshape(answers.shape), norm, 1e-6)
    return answers.reshape(batch, values), after, kept
