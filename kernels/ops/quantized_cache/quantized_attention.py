"""Grouped-query attention of one step over caches of 8 bits."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ
from hiprt.kernels.lang.operands import floating
from hiprt.kernels.ops.attention.attention import HEADERS, AttentionPlan, plan_with, shares_of
from hiprt.kernels.ops.attention.grouped_heads import SIZES, grouped_heads
from hiprt.kernels.ops.quantized_cache.coded_heads import WIDTHS, values_of
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["quantized_attention"]

OP = "quantized_attention"
KERNEL = Kernel(
    "quantized_cache/quantized_attention",
    inputs={
        "q": "T",
        "keys": "int8_t",
        "values": "int8_t",
        "key_scales": "float",
        "value_scales": "float",
        "position": "int",
        "gate": "T",
    },
    updates={"arrived": "uint", "parts": "float"},
    outputs={"out": "T"},
    scalars={**SIZES, "own_caches": "uint", "splits": "uint", "is_counted": "uint"},
    template={"T": "dtype", "WIDTH": "int", "HEADS": "int"},
    headers=(*HEADERS, "quantized_cache/coded_rows.h"),
    ahead=("position",),
    instances=each(WIDTH=WIDTHS, HEADS=lambda _, loops: (1,) if loops else DEFAULT.attention_heads),
)


@op
def quantized_attention(
    q: Array,
    keys: Array,
    values: Array,
    key_scales: Array,
    value_scales: Array,
    position: Array,
    *,
    scale: float,
    gate: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `attention` over the keys and values that codes of 8 bits and their scales stand for.

    Parameters
    ----------
    q : Array, [B, Hq, D] or [Hq, D]
        float16, bfloat16 or float32; D is 64, 128 or 256.
    keys, values : Array, [B, Hkv, capacity, D] or [Hkv, capacity, D]
        int8, as `norm_rope_quantize` writes them: caches of each row, or those that all rows read, as in `attention`.
    key_scales, value_scales : Array, [B, Hkv, capacity, D / 64] or [Hkv, capacity, D / 64]
        float32: an element is the product of its code and the scale of its group.
    position, scale, gate
        As in `attention`.

    Returns
    -------
    Array, of the shape of `q`
        The dtype of `q`; elements of the caches, scores, softmax and sums are float32, and the result is rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, a cache does not start at a multiple of 16 bytes, or `out`
        overlaps an input.
    """
    stream = stream or current_stream()
    caches = {"keys": keys, "values": values, "key_scales": key_scales, "value_scales": value_scales}
    plan = plan_of(q, *caches.values(), position, gate, scale, target_of(stream))
    return plan.run(OP, stream, out, {"q": q, **caches, "position": position, "gate": q if gate is None else gate})


@Planned
def plan_of(
    q: Form,
    keys: Form,
    values: Form,
    key_scales: Form,
    value_scales: Form,
    position: Form,
    gate: Form | None,
    scale: float,
    target: Target,
) -> AttentionPlan:
    """Check the operands and return the plan."""
    floating(OP, "q", q)
    if q.ndim not in (2, 3):
        raise ValueError(f"{OP}: q has shape {q.shape}; 2 or 3 axes are needed")
    keys = values_of(OP, "keys", keys, key_scales, q.dtype)
    values = values_of(OP, "values", values, value_scales, q.dtype)
    call = grouped_heads(OP, q, keys, values, position, gate, ((), q.shape[:-2]))
    if call.rows > LARGEST_GRID_YZ:
        raise ValueError(f"{OP}: q has shape {q.shape}; at most {LARGEST_GRID_YZ} rows fit a launch")
    shares = shares_of(call, target)[0]  # by the rules: nothing times these kernels
    sizes = {"own_caches": call.own_caches, **call.sizes(scale)}
    return plan_with(KERNEL, call, shares, q, target, None, sizes)
