"""Routing in mixtures of experts: the choice of each token's experts, and the weighted sum of their results."""

from __future__ import annotations

import math
from typing import NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, floating, result, same
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["moe_combine", "moe_route"]

THREADS = 256
MOST_EXPERTS = 2048
ROUTE = Kernel(
    "experts/moe_route",
    inputs={"logits": "T"},
    outputs={"indices": "int", "weights": "T"},
    scalars={"experts": "uint", "chosen": "uint", "is_normalised": "uint", "is_shared": "uint"},
    template={"T": "dtype"},
    headers=("reduction/largest.h", "norm/row_sums.h"),
    threads=1024,
    ahead=(),
    is_varied=True,
    instances=each(),
)
COMBINE = Kernel(
    "experts/moe_combine",
    inputs={"y": "T", "weights": "T", "shared": "T", "gate": "T"},
    outputs={"out": "T"},
    scalars={"size": "uint", "width": "uint", "chosen": "uint", "is_shared": "uint"},
    template={"T": "dtype"},
    ahead=(),
    instances=each(),
)


@op
def moe_route(
    logits: Array,
    k: int,
    *,
    normalize: bool = True,
    shared: bool = False,
    stream: Stream | None = None,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return the `k` experts of the largest logits of each token, and their shares of the softmax.

    With `shared`, an expert that every token takes, the last of the stack, comes after them.

    Parameters
    ----------
    logits : Array, [..., E]
        float16, bfloat16 or float32. One column for each expert, at most 2048 of them.
    k : int
        The number of experts that a token takes, from 1 to E, with `shared` to E - 1.
    normalize : bool
        Whether the shares of the chosen experts add up to 1 (``norm_topk_prob``).
    shared : bool
        Whether the last column is not a logit but the gate of the shared expert, which is expert E - 1.

    Returns
    -------
    indices : Array, [..., k], with `shared` [..., k + 1]
        int32. The expert of the largest logit comes first, and NaN is larger than all numbers; of equal ones the lower
        expert. The shared one comes last.
    weights : Array, of the shape of `indices`
        The shares, of the dtype of `logits`; they are computed in float32 over all experts and rounded once. The weight
        of the shared expert is ``sigmoid(gate)``.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        `k` does not fit, an array is not contiguous, or a result overlaps another array.
    """
    stream = stream or current_stream()
    route = route_of(logits, k, normalize, shared, target_of(stream))
    first, second = out or (None, None)
    given = {"logits": logits}
    indices = result("moe_route", first, route.shape, INT32, stream, given)
    weights = result("moe_route", second, route.shape, logits.dtype, stream, {**given, "indices": indices})
    route.launch(stream, logits=logits, indices=indices, weights=weights)
    return indices, weights


class Route(NamedTuple):
    """The launch of `moe_route`, and the shape of both results."""

    shape: tuple[int, ...]
    launch: Launch


@Planned
def route_of(logits: Form, k: int, normalize: bool, shared: bool, target: Target) -> Route:
    """Check the operand and return the launch."""
    floating("moe_route", "logits", logits)
    experts = logits.shape[-1] - shared if logits.ndim else 0
    if not 1 <= k <= experts <= MOST_EXPERTS:
        raise ValueError(
            f"moe_route: k={k} for logits of shape {logits.shape}; 1 to the last axis's experts, at most "
            f"{MOST_EXPERTS}, are needed"
        )
    threads = 1 if target.takes_loops else min(1024, -(-experts // 32) * 32)
    grid = (logits.size // logits.shape[-1], 1, 1)
    scalars = {"experts": experts, "chosen": k, "is_normalised": bool(normalize), "is_shared": bool(shared)}
    launch = Launch(ROUTE, grid, (threads, 1, 1), {"T": logits.dtype}, **scalars)
    return Route((*logits.shape[:-1], k + shared), launch)


@op
def moe_combine(
    y: Array,
    weights: Array,
    shared: Array | None = None,
    gate: Array | None = None,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the weighted sum of experts' results, plus ``sigmoid(gate) * shared`` of a shared expert.

    Parameters
    ----------
    y : Array, [..., k, H]
        float16, bfloat16 or float32. The results of each token's experts.
    weights : Array, [..., k]
        The weight of each expert, of the dtype of `y`.
    shared : Array, [..., H], optional
        The result of the shared expert, of the dtype of `y`.
    gate : Array, [..., 1], optional
        The gate of the shared expert, of the dtype of `y`. It is given exactly if `shared` is.

    Returns
    -------
    Array, [..., H]
        The sum, of the dtype of `y`; it is computed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, one of `shared` and `gate` is missing, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    return combine_of(y, weights, shared, gate).run(stream, out, y=y, weights=weights, shared=shared, gate=gate)


@Planned
def combine_of(y: Form, weights: Form, shared: Form | None, gate: Form | None) -> Plan:
    """Check the operands and return the plan."""
    op = "moe_combine"
    floating(op, "y", y)
    same(op, "weights", weights, "y", y)
    if y.ndim < 2 or weights.shape != y.shape[:-1]:
        raise ValueError(
            f"{op}: y has shape {y.shape} and weights {weights.shape}; [..., k, H] and [..., k] are needed"
        )
    *tokens, chosen, width = y.shape
    if (shared is None) != (gate is None):
        raise ValueError(f"{op}: shared and gate go together")
    for name, value, last in (("shared", shared, width), ("gate", gate, 1)):
        if value is not None:
            same(op, name, value, "y", y)
            if value.shape != (*tokens, last):
                raise ValueError(f"{op}: {name} has shape {value.shape}; {(*tokens, last)} is needed")
    size = width * math.prod(tokens)
    scalars = {"size": size, "width": width, "chosen": chosen, "is_shared": shared is not None}
    launch = Launch(COMBINE, (-(-size // THREADS), 1, 1), (THREADS, 1, 1), {"T": y.dtype}, **scalars)
    return Plan(op, (*tokens, width), y.dtype, launch)
