"""Calls of what hybrid models have: experts chosen and combined, and gated-delta layers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, empty
from hiprt.bench.isa.case import Case, normal
from hiprt.kernels.ops.recurrent.gated_delta import plan_of as gated_delta_plan
from hiprt.kernels.ops.recurrent.gated_delta_chunks import CHUNK, GatedDeltaChunks
from hiprt.kernels.ops.recurrent.reference import gated_delta_factors
from hiprt.kernels.reference import ops as reference
from hiprt.kernels.tuning.target import target_of
from hiprt.stream import current_stream

__all__ = ["hybrids", "layers"]


def hybrids(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield experts chosen and combined, and a step of a gated-delta layer."""
    logits = normal(dtype, 2, 40, seed=18)
    chosen = lambda logits: kernels.moe_route(logits, 3)[0]  # noqa: E731
    yield Case("3 of 40 experts", chosen, (logits,), reference.moe_route(logits, 3)[0])
    unknown = logits.copy()
    unknown[0, [35, 7]], unknown[1, [38, 3, 34, 5]] = (np.nan, -np.nan), (np.nan, np.inf, -np.nan, np.nan)
    with np.errstate(invalid="ignore"):
        places, _ = reference.moe_route(unknown, 3)
    yield Case("3 of 40 experts, with NaN", chosen, (unknown,), places)
    _, shares = reference.moe_route(logits, 3, True, True)
    route = lambda logits: kernels.moe_route(logits, 3, shared=True)[1]  # noqa: E731
    yield Case("3 of 39 experts and a shared one", route, (logits,), shares)
    y, weights = normal(dtype, 2, 3, 70, seed=19), normal(dtype, 2, 3, seed=20)
    yield Case("3 experts", kernels.moe_combine, (y, weights), reference.moe_combine(y, weights))
    given = normal(dtype, 2, 2, 40, seed=21), normal(dtype, 2, 3, 40, seed=22), normal(dtype, 40, 4, seed=23)
    yield Case("2 steps of 40 channels", kernels.conv_step, given, reference.conv_step(*given)[0])
    q, k = normal(dtype, 2, 1, 2, 2, 128, seed=24) * dtype.type(0.1)
    v, state = normal(dtype, 1, 2, 4, 6, seed=25), normal(np.dtype(np.float32), 1, 4, 6, 128, seed=26)
    g, beta = np.abs(np.sin(normal(np.dtype(np.float32), 2, 1, 2, 4, seed=27)))
    rule = q, k, v, g, beta, state
    yield Case("2 steps of 4 heads", kernels.gated_delta, rule, reference.gated_delta(*rule)[0])
    q, k = normal(dtype, 2, 1, 33, 1, 128, seed=60) * dtype.type(0.08)
    v, state = normal(dtype, 1, 33, 1, 16, seed=61), normal(np.dtype(np.float32), 1, 1, 16, 128, seed=62)
    g, beta = np.abs(np.sin(normal(np.dtype(np.float32), 2, 1, 33, 1, seed=63)))
    rule = q, k, v, g, beta, state
    factors = gated_delta_factors(q, k, g, beta, CHUNK)
    yield Case("33 steps of a head", chunk_factors, rule, factors)
    exact = reference.gated_delta(*rule)[0]
    yield Case("33 steps of a head", chunks, (*rule, factors.astype(np.float32)), exact)
    a, dt_bias, a_log = normal(dtype, 3, 8), normal(dtype, 8), normal(np.dtype(np.float32), 8)
    gates = a, a, a_log, dt_bias
    exact = reference.gated_delta_gates(*gates)[0]
    yield Case("3 steps of 8 heads", lambda *given: kernels.gated_delta_gates(*given)[0], gates, exact)


def planned_chunks(*given: Array) -> GatedDeltaChunks:
    """Return the launches of the gated delta rule by chunks."""
    plan = gated_delta_plan(*(each.form for each in given), target_of(current_stream()))
    assert isinstance(plan, GatedDeltaChunks)
    return plan


def chunk_factors(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> Array:
    """Launch what the chunks need beside the state."""
    plan = planned_chunks(q, k, v, g, beta, state)
    factors = empty(plan.shape, np.dtype(np.float32))
    plan.factors(current_stream(), q=q, k=k, g=g, beta=beta, factors=factors)
    return factors


def chunks(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array, factors: Array) -> Array:
    """Launch the chunks of each head."""
    out = empty(v.shape, v.dtype)
    plan = planned_chunks(q, k, v, g, beta, state)
    plan.chunks(current_stream(), q=q, k=k, v=v, factors=factors, state=state, out=out)
    return out


def layers(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Yield the step of a gated-delta layer of 2 heads of values, with and without the norm of the answers."""
    single, width = np.dtype(np.float32), 128
    proj, weight = normal(dtype, 1, 6 * width + 4, seed=41), normal(dtype, 4 * width, 4, seed=42)
    conv, a_log, dt_bias = (
        normal(dtype, 1, 3, 4 * width, seed=43),
        normal(single, 2, seed=44),
        normal(dtype, 2, seed=45),
    )
    state, norm = normal(single, 1, 2, width, width, seed=46), normal(dtype, width, seed=47)
    given = proj, weight, conv, a_log, dt_bias, state
    sizes: dict[str, Any] = {"key_heads": 1, "value_heads": 2, "key_width": width, "value_width": width}
    made, _ = reference.gdn_inputs(*given[:5], (1, 2, width, width))
    yield Case("keys of 2 heads", lambda *given: kernels.gdn_inputs(*given, **sizes)[1], given[:5], made[1])
    steps = normal(dtype, 1, 10, given[0].shape[-1], seed=64), *given[1:5]
    made, _ = reference.gdn_inputs(*steps, (1, 2, width, width))
    yield Case("10 steps, keys of 2 heads", lambda *given: kernels.gdn_inputs(*given, **sizes)[1], steps, made[1])
    for each in (None, norm):
        exact = reference.gdn_step(*given, 1, each)[0]
        op = lambda *given: kernels.gdn_step(*given[:6], norm=given[6] if len(given) > 6 else None, **sizes)  # noqa: E731
        name = "2 heads" + ("" if each is None else ", normed")
        yield Case(name, op, given if each is None else (*given, each), exact)
