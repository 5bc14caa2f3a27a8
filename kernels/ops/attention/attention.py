"""Grouped-query attention of one step over its cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch
from hiprt.kernels.lang.operands import FLOAT32, floating, result
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, INPUTS, SIZES, GroupedHeads, grouped_heads
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.streams import TEMPLATE, Streams, resident_of, shared_bytes, streams_of, threads_of
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = [
    "HEADERS",
    "STREAMED_HEADERS",
    "AttentionPlan",
    "Shares",
    "attention",
    "combine_launch",
    "name_of",
    "plan_with",
    "shared_out",
    "shares_of",
    "without_gaps",
]

OP = "attention"
SIMDGROUPS = 8
SHORTEST_PART = 64  # positions that a threadgroup reads at once: a cache is not shared out any finer
HEADERS = ("attention/lane_part.h", "elementwise/power_of_two.h", "attention/one_pass.h")
KERNEL = Kernel(
    "attention/attention",
    inputs=INPUTS,
    updates={"arrived": "uint", "parts": "float"},
    outputs={"out": "T"},
    scalars={**SIZES, "own_caches": "uint", "splits": "uint", "is_counted": "uint"},
    template={"T": "dtype", "WIDTH": "int", "HEADS": "int"},
    headers=HEADERS,
    ahead=("position",),
    instances=each(WIDTH=HEAD_WIDTHS, HEADS=lambda _, loops: (1,) if loops else DEFAULT.attention_heads),
)
STREAMED_HEADERS = (*HEADERS, "attention/fragments.h", "attention/streamed_rows.h")
# This body asks for rows by instructions of NVIDIA's, so it is not in the dialect.
STREAMED = Kernel(
    "streamed_attention",
    inputs=INPUTS,
    updates={"arrived": "uint", "parts": "float"},
    outputs={"out": "T"},
    scalars={**SIZES, "own_caches": "uint", "splits": "uint", "is_counted": "uint"},
    template={"T": "dtype", "WIDTH": "int", **TEMPLATE},
    headers=STREAMED_HEADERS,
    threads=threads_of,
    resident=resident_of,
    ahead=("position",),
    shared=shared_bytes,
    source=(OPS / "attention/streamed_attention.hip").read_text(),
)
COMBINE = Kernel(
    "attention/attention_combine",
    inputs={"parts": "float", "gate": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint", "heads": "uint", "splits": "uint", "gate_stride": "uint", "is_gated": "uint"},
    template={"T": "dtype"},
    headers=HEADERS,
    ahead=(),
    is_varied=True,
    instances=each(),
    part_of="attention",
)


@op
def attention(
    q: Array,
    keys: Array,
    values: Array,
    position: Array,
    *,
    scale: float,
    gate: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``softmax(scale * q @ keys.T) @ values`` over positions 0 to ``position``, both included.

    Parameters
    ----------
    q : Array, [B, Hq, D] or [Hq, D]
        float16, bfloat16 or float32; D from 32 to 256.
    keys, values : Array, [B, Hkv, capacity, D] or [Hkv, capacity, D]
        Caches of each row, or those that all rows read, of which each then has the bits that it has alone. Of the dtype
        of `q`; Hq is a multiple of Hkv, and query head h reads head ``h // (Hq / Hkv)``.
    position : Array, [B] or [1]
        int32, on the device. From capacity on, the whole cache is read; below 0 the result is zeros.
    scale : float
        Usually ``D**-0.5``.
    gate : Array, [B, Hq * D], optional
        The result is multiplied by ``sigmoid(gate)``. Of the dtype of `q`; the elements of a row lie side by side, the
        rows at any distance.

    Returns
    -------
    Array, of the shape of `q`
        The dtype of `q`; scores, softmax and sums are float32, rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, a cache does not start at a multiple of 16 bytes, or `out`
        overlaps an input.

    Notes
    -----
    The softmax is computed in one pass with a running maximum: Milakov and Gimelshein, "Online normalizer calculation
    for softmax", 2018. Caches longer than a few hundred positions are shared out among threadgroups, the last of which
    puts their parts together, in an order that does not depend on which it is. How many there are depends on the
    capacity, and how many of them have work on the position.
    """
    stream = stream or current_stream()
    plan = plan_of(q, keys, values, position, gate, scale, target_of(stream))
    given = {"q": q, "keys": keys, "values": values, "position": position, "gate": q if gate is None else gate}
    return plan.run(OP, stream, out, given)


class Shares(NamedTuple):
    """How heads and positions are shared out among threadgroups.

    Attributes
    ----------
    heads : int
        The query heads that a threadgroup takes.
    splits : int
        The threadgroups that share the positions of a cache.
    parts : tuple of int
        The shape of what they leave: rows, heads, threadgroups that share a cache, and for each of these the sums of a
        head, its largest score and its norm.
    is_counted : bool
        Whether the last of them puts the parts together, instead of another launch.
    """

    heads: int
    splits: int
    parts: tuple[int, int, int, int]
    is_counted: bool

    @property
    def is_whole(self) -> bool:
        """Whether the launch itself writes the result."""
        return self.splits == 1 or self.is_counted

    def scratch(self, stream: Stream, out: Array) -> dict[str, Array]:
        """Return the parts and the counters, by the names of the kernels' arguments; `out` where there are none."""
        parts = out if self.splits == 1 else make(self.parts, FLOAT32, stream)
        return {"parts": parts, "arrived": arrivals(stream) if self.is_counted else out}


class AttentionPlan(NamedTuple):
    """One launch; two where the positions are shared out and their parts put together by another launch.

    Attributes
    ----------
    attend : Launch
        It writes the result, or the parts of it.
    shape : tuple of int
    dtype : numpy.dtype
        Those of the result.
    shares : Shares
    combine : Launch or None
        It puts the parts together.
    """

    attend: Launch
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    shares: Shares
    combine: Launch | None

    def run(self, op: str, stream: Stream, out: Array | None, given: dict[str, Array]) -> Array:
        """Launch on a stream, and return the result; any array stands for a `gate` that is not there."""
        out = result(op, out, self.shape, self.dtype, stream, given)
        scratch = self.shares.scratch(stream, out)
        self.attend(stream, out=out, **scratch, **given)
        if self.combine is not None:
            self.combine(stream, parts=scratch["parts"], gate=given["gate"], out=out)
        return out


@Planned
def plan_of(
    q: Form, keys: Form, values: Form, position: Form, gate: Form | None, scale: float, target: Target
) -> AttentionPlan:
    """Check the operands and return the plan."""
    floating(OP, "q", q)
    if q.ndim not in (2, 3):
        raise ValueError(f"{OP}: q has shape {q.shape}; 2 or 3 axes are needed")
    call = grouped_heads(OP, q, keys, values, position, gate, ((), q.shape[:-2]))
    if call.rows > LARGEST_GRID_YZ:
        raise ValueError(f"{OP}: q has shape {q.shape}; at most {LARGEST_GRID_YZ} rows fit a launch")

    streams = streams_of(call, q.dtype, target)
    sizes = {"own_caches": call.own_caches, **call.sizes(scale)}

    def made(shares: Shares) -> AttentionPlan:
        kernel = KERNEL if streams is None else STREAMED
        return plan_with(kernel, call, shares, q, target, streams, sizes)

    if streams is not None:
        return made(shared_out(call, streams.heads, streams.splits, target))

    def run(shares: Shares) -> Run:
        plan = made(shares)
        return lambda stream, given: plan.run(OP, stream, None, without_gaps(given, "q"))

    operands = {"q": q, "keys": keys, "values": values, "position": position, "gate": gate}
    return made(choose(target, name_of(OP, call, q.dtype), shares_of(call, target), operands, run))


def plan_with(
    kernel: Kernel,
    call: GroupedHeads,
    shares: Shares,
    q: Form,
    target: Target,
    streams: Streams | None,
    sizes: Mapping[str, float],
    heads: int | None = None,
    **template: int,
) -> AttentionPlan:
    """Return the plan for some shares.

    Parameters
    ----------
    kernel : Kernel
    call : GroupedHeads
    shares : Shares
    q : Form
        The query heads, which have the shape and the dtype of the result.
    target : Target
    streams : Streams or None
        Those of a kernel whose rows come through threadgroup memory.
    sizes : mapping of str to float
        The scalars of the kernel beside those that the shares give.
    heads : int, optional
        The query heads that a threadgroup takes; those of `shares` by default.
    **template : int
        The template parameters of the kernel beside those that say how heads are shared out.
    """
    attend = Launch(
        kernel,
        (call.heads // (heads or shares.heads), shares.splits, call.rows),
        (threads_in(streams, target), 1, 1),
        {"T": q.dtype, "WIDTH": call.width, **template_of(call, shares, streams), **template},
        splits=shares.splits,
        is_counted=shares.is_counted,
        **sizes,
    )
    combine = None if shares.is_whole else combine_launch(call, shares.splits, q.dtype)
    return AttentionPlan(attend, q.shape, q.dtype, shares, combine)


def threads_in(streams: Streams | None, target: Target) -> int:
    """Return the threads of a threadgroup, with streams or without."""
    if streams is None:
        return 1 if target.takes_loops else SIMDGROUPS * 32
    return streams.simdgroups * 32


def template_of(call: GroupedHeads, shares: Shares, streams: Streams | None) -> dict[str, int]:
    """Return the template parameters that say how heads are shared out, with streams or without."""
    if streams is None:
        return {"HEADS": shares.heads}
    shared = {"HEADS": shares.heads, "SAME_KEYS": call.repeat // shares.heads}
    return {**shared, "SIMDGROUPS": streams.simdgroups, "STAGES": streams.stages}


def without_gaps(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return operands where a named one stands in for those that were not given: any array does."""
    return {each: given[name] if value is None else value for each, value in given.items()}


def name_of(op: str, call: GroupedHeads, dtype: np.dtype[Any]) -> str:
    """Return what a choice calls a call of attention."""
    heads = f"{call.heads} heads of {call.width}, {call.kv_heads} of keys"
    rows = f", {call.alone} rows" if call.alone > 1 else ""
    return f"{op} {heads}, {call.capacity} positions, {dtype}{', gated' if call.is_gated else ''}{rows}"


def shares_of(call: GroupedHeads, target: Target) -> list[Shares]:
    """Return the ways to share out the heads of a call and the positions of its caches, that of the rules first.

    The others have half or twice as many threadgroups, where the positions suffice.
    """
    sizes = (1,) if target.takes_loops else target.table.attention_heads
    heads = next(size for size in sizes if call.repeat % size == 0)
    rule = splits_of(target, call.capacity, call.heads // heads * call.alone)
    most = -(-call.capacity // SHORTEST_PART)
    others = [splits for splits in (rule // 2, 2 * rule) if 1 < splits <= most] if rule > 1 else []
    return [shared_out(call, heads, splits, target) for splits in (rule, *others)]


def shared_out(call: GroupedHeads, heads: int, splits: int, target: Target) -> Shares:
    """Return the shares of threadgroups that take so many heads each, with so many that share the positions."""
    can_count = "arrivals" in target.features and call.heads // heads * call.rows <= COUNTERS
    return Shares(heads, splits, (call.rows, call.heads, splits, call.width + 2), splits > 1 and can_count)


def splits_of(target: Target, capacity: int, groups: int) -> int:
    """Return among how many threadgroups the positions of a cache are shared out, for so many groups of heads."""
    table = target.table
    if target.takes_loops or capacity <= table.attention_unsplit_capacity or not groups:
        return 1
    return max(1, min(table.attention_groups // groups, -(-capacity // SHORTEST_PART)))


def combine_launch(call: GroupedHeads, splits: int, dtype: np.dtype[Any]) -> Launch:
    """Return the launch that puts the parts of each head together, which so many threadgroups have left."""
    grid, threads = (call.rows * call.heads, 1, 1), (-(-call.width // 32) * 32, 1, 1)
    sizes = {"width": call.width, "heads": call.heads, "splits": splits}
    sizes |= {"gate_stride": call.gate_stride, "is_gated": call.is_gated}
    return Launch(COMBINE, grid, threads, {"T": dtype}, **sizes)
