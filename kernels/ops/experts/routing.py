"""Mixtures of experts: which experts a token takes, and the sum of what they answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, floating, made, same
from hiprt.objects import Planned
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
    instances=each(),
)
COMBINE = Kernel(
    "experts/moe_combine",
    inputs={"y": "T", "weights": "T", "shared": "T", "gate": "T"},
    outputs={"out": "T"},
    scalars={"size": "uint", "width": "uint", "chosen": "uint", "is_shared": "uint"},
    template={"T": "dtype"},
    instances=each(),
)


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
        float16, bfloat16 or float32; up to 2048 experts.
    k : int
        From 1 to E; with `shared` to E - 1.
    normalize : bool
        Whether the shares of the chosen experts add up to 1 (``norm_topk_prob``).
    shared : bool
        Whether the last column is not a logit but the gate of the shared expert, which is expert E - 1.
    stream : Stream, optional
        This thread's by default.
    out : tuple of 2 Array, optional
        Receive the results.

    Returns
    -------
    indices : Array, [..., k], with `shared` [..., k + 1]
        int32, the largest logit first; of equal ones the lower expert. Last the shared one.
    weights : Array, of the shape of `indices`
        Of the dtype of `logits`; computed in float32 over all experts and rounded once. The shared one's is
        ``sigmoid(gate)``.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        `k` does not fit, an array is not contiguous, or a result overlaps another array.
    """
    stream = stream or current_stream()
    plan = route_of(logits, k, normalize, shared, uses_loops(stream))
    first, second = out or (None, None)
    indices = made("moe_route", first, plan.shape, INT32, stream, (logits,))
    weights = made("moe_route", second, plan.shape, logits.dtype, stream, (logits, indices))
    ROUTE(stream, plan.grid, plan.threads, plan.template, logits, indices, weights, *plan.scalars)
    return indices, weights


class Plan(NamedTuple):
    """A launch."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    scalars: tuple[int, ...]
    shape: tuple[int, ...]


@Planned
def route_of(logits: Form, k: int, normalize: bool, shared: bool, loops: bool) -> Plan:
    """Check the operand and return the launch."""
    floating("moe_route", "logits", logits)
    experts = logits.shape[-1] - shared if logits.ndim else 0
    if not 1 <= k <= experts <= MOST_EXPERTS:
        raise ValueError(
            f"moe_route: k={k} for logits of shape {logits.shape}; 1 to the last axis's experts, at most "
            f"{MOST_EXPERTS}, are needed"
        )
    threads = 1 if loops else min(1024, -(-experts // 32) * 32)
    grid = (logits.size // logits.shape[-1], 1, 1)
    scalars = experts, k, bool(normalize), bool(shared)
    return Plan(grid, (threads, 1, 1), (logits.dtype,), scalars, (*logits.shape[:-1], k + shared))


def moe_combine(
    y: Array,
    weights: Array,
    shared: Array | None = None,
    gate: Array | None = None,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the weighted sum of experts' answers, plus ``sigmoid(gate) * shared`` of a shared expert.

    Parameters
    ----------
    y : Array, [..., k, H]
        float16, bfloat16 or float32.
    weights : Array, [..., k]
        Of the dtype of `y`.
    shared : Array, [..., H], optional
        Of the dtype of `y`.
    gate : Array, [..., 1], optional
        Of the dtype of `y`; goes with `shared`.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [..., H]
        Of the dtype of `y`; summed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, one of `shared` and `gate` is missing, or `out` overlaps an input.
    """
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
    stream = stream or current_stream()
    inputs = y, weights, y if shared is None else shared, y if gate is None else gate
    out = made(op, out, (*tokens, width), y.dtype, stream, inputs)
    grid = (int(np.ceil(out.size / THREADS)), 1, 1)
    scalars = out.size, width, chosen, shared is not None
    COMBINE(stream, grid, (THREADS, 1, 1), (y.dtype,), *inputs, out, *scalars)
    return out
