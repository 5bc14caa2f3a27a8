"""Gated-delta layers in numpy."""

from __future__ import annotations

import numpy as np

from hiprt.kernels.ops.norm.reference import gated_rms_norm, rms_norm
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["conv_step", "gated_delta", "gated_delta_gates", "gdn_inputs", "gdn_step"]


def conv_step(x: Host, state: Host, weight: Host, bias: Host | None = None, silu: bool = True) -> tuple[Floats, Host]:
    """Return the convolution and the new state."""
    taps = weight.shape[1]
    seen = np.concatenate([state, x], axis=1)
    wide, factors = double(seen), double(weight.reshape(weight.shape[0], taps))
    total = np.asarray(sum(wide[:, j : j + x.shape[1]] * factors[:, j] for j in range(taps)))
    total = total if bias is None else total + double(bias)
    return np.asarray(total / (1 + np.exp(-total)) if silu else total), seen[:, seen.shape[1] - taps + 1 :]


def gated_delta(q: Host, k: Host, v: Host, g: Host, beta: Host, state: Host) -> tuple[Floats, Floats]:
    """Return the answers and the new state."""
    repeat = v.shape[2] // q.shape[2]
    queries, keys = (np.repeat(double(part), repeat, axis=2) for part in (q, k))
    kept = double(state)
    answers = np.zeros(v.shape)
    for t in range(v.shape[1]):
        kept = kept * double(g)[:, t, :, None, None]
        error = double(v)[:, t] - np.einsum("bhvk,bhk->bhv", kept, keys[:, t])
        kept = kept + (double(beta)[:, t, :, None] * error)[..., None] * keys[:, t, :, None]
        answers[:, t] = np.einsum("bhvk,bhk->bhv", kept, queries[:, t])
    return answers, kept


def gated_delta_factors(q: Host, k: Host, g: Host, beta: Host, chunk: int) -> Floats:
    """Return what the rule by chunks keeps of each chunk of each head of values, as its kernel lays it out."""
    batch, steps, heads = g.shape
    keys_of = heads // q.shape[2]
    factors = np.zeros((batch * heads, -(-steps // chunk), 2 * chunk + 2, chunk))
    for item, place in np.ndindex(factors.shape[:2]):
        at, head = item // heads, item % heads
        rows = slice(place * chunk, min(steps, (place + 1) * chunk))
        queries, keys = np.zeros((2, chunk, q.shape[3]))
        decay, corrected = np.ones(chunk), np.zeros(chunk)
        there = rows.stop - rows.start
        queries[:there], keys[:there] = (double(part)[at, rows, head // keys_of] for part in (q, k))
        decay[:there], corrected[:there] = (double(part)[at, rows, head] for part in (g, beta))
        since = np.tril([[np.prod(decay[j + 1 : i + 1]) for j in range(chunk)] for i in range(chunk)])
        known = np.tril(corrected[:, None] * since * (keys @ keys.T), -1)
        found = factors[item, place]
        found[:chunk] = np.linalg.inv(np.eye(chunk) + known) * corrected
        found[chunk : 2 * chunk] = since * (queries @ keys.T)
        found[2 * chunk], found[2 * chunk + 1] = np.cumprod(decay), since[-1]
    return factors


def gated_delta_gates(a: Host, b: Host, a_log: Host, dt_bias: Host) -> tuple[Floats, Floats]:
    """Return what is left of a state, and how much of its error is corrected."""
    soft = np.logaddexp(double(a) + double(dt_bias), 0)
    return np.exp(-np.exp(double(a_log)) * soft), 1 / (1 + np.exp(-double(b)))


def gdn_inputs(
    proj: Host,
    weight: Host,
    conv: Host,
    a_log: Host,
    dt_bias: Host,
    sizes: tuple[int, int, int, int],
    gates: int | None = None,
) -> tuple[tuple[Floats, ...], Host]:
    """Return q, k, v, g and beta, and the new state; `sizes` are heads of keys and values, and widths."""
    heads, value_heads, key_width, value_width = sizes
    given = proj if proj.ndim == 3 else proj[:, None]
    batch, steps, _ = given.shape
    keys, values = heads * key_width, value_heads * value_width
    gates = 2 * keys + values if gates is None else gates
    mixed, after = conv_step(given[..., : 2 * keys + values], conv, weight)
    q, k, v = np.split(mixed, [keys, 2 * keys], axis=-1)
    one = np.ones(key_width)
    q, k = (rms_norm(part.reshape(batch, steps, heads, key_width), one, 1e-6) for part in (q, k))
    b, a, _ = np.split(given[..., gates:], [value_heads, 2 * value_heads], axis=-1)
    g, beta = gated_delta_gates(a, b, a_log, dt_bias)
    v = v.reshape(batch, steps, value_heads, value_width)
    return (q / key_width, k / np.sqrt(key_width), v, g, beta), after


def gdn_step(
    proj: Host, weight: Host, conv: Host, a_log: Host, dt_bias: Host, state: Host, heads: int, norm: Host | None = None
) -> tuple[Floats, Host, Floats]:
    """Return the answers, and the new states of the convolution and of the delta rule; `heads` counts those of keys."""
    batch, value_heads, value_width, key_width = state.shape
    values = value_heads * value_width
    x, z, gates = np.split(proj, np.cumsum([2 * heads * key_width + values, values]), axis=1)
    sizes = heads, value_heads, key_width, value_width
    given, after = gdn_inputs(np.concatenate([x, gates], axis=1), weight, conv, a_log, dt_bias, sizes)
    q, k, v, g, beta = given
    answers, kept = gated_delta(q, k, v, g, beta, state)
    if norm is not None:
        answers = gated_rms_norm(answers, z.reshape(answers.shape), norm, 1e-6)
    return answers.reshape(batch, values), after, kept
