"""Grouped-query attention of one step over caches in blocks."""

from __future__ import annotations

from dataclasses import replace

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ
from hiprt.kernels.lang.operands import aligned, floating, same
from hiprt.kernels.ops.attention.attention import HEADERS, AttentionPlan, plan_with, shares_of
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, INPUTS, SIZES, grouped_heads
from hiprt.kernels.ops.paged_cache.block_table import check_block_rows, check_table
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["paged_attention"]

OP = "paged_attention"
KERNEL = Kernel(
    "paged_cache/paged_attention",
    inputs={**INPUTS, "table": "int"},
    updates={"arrived": "uint", "parts": "float"},
    outputs={"out": "T"},
    scalars={**SIZES, "splits": "uint", "is_counted": "uint", "blocks": "uint", "shift": "uint"},
    template={"T": "dtype", "WIDTH": "int", "HEADS": "int"},
    headers=(*HEADERS, "paged_cache/paged_rows.h"),
    ahead=("position",),
    instances=each(WIDTH=HEAD_WIDTHS, HEADS=lambda _, loops: (1,) if loops else DEFAULT.attention_heads),
)


@op
def paged_attention(
    q: Array,
    keys: Array,
    values: Array,
    table: Array,
    position: Array,
    *,
    scale: float,
    gate: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `attention` over caches in blocks, which lie in a pool where a table says.

    Parameters
    ----------
    q : Array, [B, Hq, D]
        float16, bfloat16 or float32; D from 32 to 256.
    keys, values : Array, [Hkv, pool blocks, block rows, D]
        The pool, of the dtype of `q`, in which the sequences of all rows have their blocks. The rows of a block are a
        power of two from 16 to 4,096.
    table : Array, [B, blocks]
        int32, on the device: the block of the pool that has each run of positions of a row's sequence. Those up to its
        position are blocks of the pool; the others may be anything.
    position : Array, [B]
        int32, on the device. From ``blocks * block rows`` on, all blocks are read; below 0 the result is zeros.
    scale, gate
        As in `attention`.

    Returns
    -------
    Array, [B, Hq, D]
        What `attention` returns of caches that have the rows in their order, bit by bit where it shares them out alike
        (by the rules, without a kernel of its own for the device).

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, the pool does not start at a multiple of 16 bytes, or `out`
        overlaps an input.

    Notes
    -----
    Blocks of a cache: Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
    2023.
    """
    stream = stream or current_stream()
    plan = plan_of(q, keys, values, table, position, gate, scale, target_of(stream))
    caches = {"keys": keys, "values": values, "table": table}
    return plan.run(OP, stream, out, {"q": q, **caches, "position": position, "gate": q if gate is None else gate})


@Planned
def plan_of(
    q: Form,
    keys: Form,
    values: Form,
    table: Form,
    position: Form,
    gate: Form | None,
    scale: float,
    target: Target,
) -> AttentionPlan:
    """Check the operands and return the plan."""
    floating(OP, "q", q, 3)
    same(OP, "keys", keys, "q", q)
    same(OP, "values", values, "q", q)
    if keys.ndim != 4 or keys.shape != values.shape:
        raise ValueError(f"{OP}: keys {keys.shape} and values {values.shape} are not [Hkv, pool blocks, block rows, D]")
    aligned(OP, "keys", keys)
    aligned(OP, "values", values)
    rows, (kv_heads, pooled, block_rows, width) = q.shape[0], keys.shape
    shift, blocks = check_block_rows(OP, block_rows), check_table(OP, table, rows)
    if table.ndim != 2 or not pooled:
        raise ValueError(f"{OP}: table has shape {table.shape}, keys have {keys.shape}; a table of each row is needed")
    if rows > LARGEST_GRID_YZ:
        raise ValueError(f"{OP}: q has shape {q.shape}; at most {LARGEST_GRID_YZ} rows fit a launch")
    # The work is shared out as over caches of each row with as many positions as its blocks have.
    alike = replace(keys, shape=(rows, kv_heads, blocks * block_rows, width), strides=None)
    call = grouped_heads(OP, q, alike, alike, position, gate, ((rows,),))
    shares = shares_of(call, target)[0]
    sizes = {**call.sizes(scale), "capacity": pooled * block_rows, "blocks": blocks, "shift": shift}
    return plan_with(KERNEL, call, shares, q, target, None, sizes)
