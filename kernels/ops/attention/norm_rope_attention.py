"""Heads normed and rotated, their cache written, and attention over it: what follows a decode step's projection."""

from __future__ import annotations

from typing import Any

from hiprt.array import Array, Form
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.attention.attention import (
    HEADERS,
    STREAMED_HEADERS,
    AttentionPlan,
    Shares,
    attention,
    name_of,
    plan_with,
    shared_out,
    shares_of,
    without_gaps,
)
from hiprt.kernels.ops.attention.frequencies import UINT64, device_frequencies
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, SIZES, grouped_heads
from hiprt.kernels.ops.attention.norm_rope_write import heads_of, norm_rope_write
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.streams import TEMPLATE, resident_of, shared_bytes, streams_of, threads_of
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["TURNED_DIMS", "norm_rope_attention"]

OP = "norm_rope_attention"
TURNED_HEADERS = ("attention/cos_sin.h", "attention/turned_head.h")
INPUTS = {"x": "T", "q_norm": "T", "k_norm": "T", "position": "int", "frequencies": "ulong", "gate": "T"}
UPDATES = {"keys": "T", "values": "T", "arrived": "uint", "parts": "float"}
SCALARS = {
    **SIZES,
    "splits": "uint",
    "is_counted": "uint",
    "own_caches": "uint",
    "columns": "uint",
    "is_normed": "uint",
    "eps": "float",
}
TURNED_DIMS = {64: (64,), 80: (80,), 128: (128,), 256: (64, 256)}  # elements of a head of each of HEAD_WIDTHS
AHEAD = ("q_norm", "k_norm", "position", "frequencies")


def instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances that are compiled offline, with the turned elements of published models."""
    heads = (1,) if takes_loops else DEFAULT.attention_heads
    by_width = [each(WIDTH=(width,), DIMS=TURNED_DIMS[width], HEADS=heads) for width in HEAD_WIDTHS]
    return [found for listed in by_width for found in listed(takes_loops)]


KERNEL = Kernel(
    "attention/norm_rope_attention",
    inputs=INPUTS,
    updates=UPDATES,
    outputs={"out": "T"},
    scalars=SCALARS,
    template={"T": "dtype", "WIDTH": "int", "DIMS": "int", "HEADS": "int"},
    headers=(*TURNED_HEADERS, *HEADERS),
    ahead=AHEAD,
    instances=instances,
)
# This body asks for rows by instructions of NVIDIA's, and for those of a cache before its inputs are there.
STREAMED = Kernel(
    "norm_rope_streamed_attention",
    inputs=INPUTS,
    updates=UPDATES,
    outputs={"out": "T"},
    scalars=SCALARS,
    template={"T": "dtype", "WIDTH": "int", "DIMS": "int", **TEMPLATE},
    headers=(*TURNED_HEADERS, *STREAMED_HEADERS),
    threads=threads_of,
    resident=resident_of,
    ahead=(*AHEAD, "keys", "values"),
    shared=shared_bytes,
    source=(OPS / "attention/norm_rope_streamed_attention.hip").read_text(),
)


@op
def norm_rope_attention(
    qkv: Array,
    q_norm: Array | None,
    k_norm: Array | None,
    position: Array,
    keys: Array,
    values: Array,
    *,
    heads: int,
    base: float,
    scale: float,
    eps: float = 1e-6,
    dims: int | None = None,
    gate: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `attention` of the queries that `norm_rope_write` makes, over the caches that it writes.

    Parameters
    ----------
    qkv, q_norm, k_norm, position, keys, values, heads, base, eps, dims
        As in `norm_rope_write`; D from 32 to 256, and the caches start at multiples of 16 bytes.
    scale, gate
        As in `attention`.

    Returns
    -------
    Array, [B, heads, D]
        Of the dtype of `qkv`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, a cache does not start at a multiple of 16 bytes, or `out`
        overlaps another array.

    Notes
    -----
    One kernel does all of it where the target prefers that; elsewhere it is the two ops. Where all rows have the same
    caches, `norm_rope_write` puts their keys and values there before it, so that a row sees those in front of it; each
    row has the bits that it has alone.
    """
    stream = stream or current_stream()
    target = target_of(stream)
    is_joined = target.table.joins_attention
    if not is_joined or keys.ndim == 3:
        query = norm_rope_write(
            qkv, q_norm, k_norm, position, keys, values, heads=heads, base=base, eps=eps, dims=dims, stream=stream
        )
    if not is_joined:
        return attention(query, keys, values, position, scale=scale, gate=gate, stream=stream, out=out)
    plan = plan_of(qkv, q_norm, k_norm, position, keys, values, gate, heads, base, scale, eps, dims, target)
    frequencies = device_frequencies(stream, base, keys.shape[-1] if dims is None else dims)
    given = {"x": qkv, "q_norm": q_norm, "k_norm": k_norm, "position": position, "keys": keys, "values": values}
    given |= {"gate": gate, "frequencies": frequencies}
    return plan.run(OP, stream, out, without_gaps(given, "x"))


@Planned
def plan_of(
    qkv: Form,
    q_norm: Form | None,
    k_norm: Form | None,
    position: Form,
    keys: Form,
    values: Form,
    gate: Form | None,
    heads: int,
    base: float,
    scale: float,
    eps: float,
    dims: int | None,
    target: Target,
) -> AttentionPlan:
    """Check the operands and return the plan."""
    made = heads_of(OP, qkv, q_norm, k_norm, position, keys, values, heads, base, dims)
    query = Form((made.rows, heads, made.width), None, qkv.dtype, True, made.rows * heads * made.width)
    call = grouped_heads(OP, query, keys, values, position, gate, ((), (made.rows,)))
    streams = streams_of(call, qkv.dtype, target)
    sizes = {"own_caches": call.own_caches, **call.sizes(scale), "columns": made.columns}
    sizes |= {"is_normed": made.is_normed, "eps": eps}
    kernel = KERNEL if streams is None else STREAMED
    # A loop takes all query heads of a head of keys, which it writes once.
    taken = call.repeat if target.takes_loops else None

    def joined(shares: Shares) -> AttentionPlan:
        return plan_with(kernel, call, shares, query, target, streams, sizes, taken, DIMS=made.dims)

    if streams is not None:
        return joined(shared_out(call, streams.heads, streams.splits, target))

    def run(shares: Shares) -> Run:
        plan = joined(shares)
        return lambda stream, given: plan.run(OP, stream, None, without_gaps(given, "x"))

    frequencies = Form((made.dims // 2,), None, UINT64, True, made.dims // 2)
    operands = {"x": qkv, "q_norm": q_norm, "k_norm": k_norm, "position": position, "keys": keys, "values": values}
    operands |= {"gate": gate, "frequencies": frequencies}
    return joined(choose(target, name_of(OP, call, qkv.dtype), shares_of(call, target), operands, run))
