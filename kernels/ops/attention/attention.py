"""Grouped-query attention of one step over its cache."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOAT32, INT32, aligned, buffer, floating, made, same
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["HEAD_WIDTHS", "TOGETHER", "attention", "combine"]

SIMDGROUPS = 8
LARGEST_GRID_Z = 65535
WIDTHS = (32, 256)
HEAD_WIDTHS = (64, 80, 128, 256)  # those of published models, and one that lanes share unevenly
TOGETHER = (4, 2, 1)  # query heads of a threadgroup
GROUPS = 128  # threadgroups that keep a large GPU busy
WHOLE = 256  # positions of the capacity up to which a second kernel costs more than a split saves
SHORTEST = 64  # positions of the capacity for each split: what a threadgroup reads at once
KERNEL = Kernel(
    "attention/attention",
    inputs={"q": "T", "keys": "T", "values": "T", "position": "int", "gate": "T"},
    outputs={"out": "T", "parts": "float"},
    scalars={
        "capacity": "uint",
        "heads": "uint",
        "repeat": "uint",
        "splits": "uint",
        "stride": "uint",
        "is_gated": "uint",
        "scale": "float",
    },
    template={"T": "dtype", "WIDTH": "int", "HEADS": "int"},
    headers=("attention/lane_part.h",),
    ahead=("position",),
    instances=each(WIDTH=HEAD_WIDTHS, HEADS=lambda _, loops: (1,) if loops else TOGETHER),
)
COMBINE = Kernel(
    "attention/attention_combine",
    inputs={"parts": "float", "gate": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint", "heads": "uint", "splits": "uint", "stride": "uint", "is_gated": "uint"},
    template={"T": "dtype"},
    ahead=(),
    instances=each(),
    part_of="attention",
)


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
        Of the dtype of `q`; Hq is a multiple of Hkv, and query head h reads head ``h // (Hq / Hkv)``.
    position : Array, [B] or [1]
        int32, on the device. From capacity on, the whole cache is read; below 0 the result is zeros.
    scale : float
        Usually ``D**-0.5``.
    gate : Array, [B, Hq * D], optional
        Its sigmoid multiplies the result; of the dtype of `q`, rows contiguous, at any distance.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

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
    One pass with a running maximum: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. Caches
    longer than a few hundred positions are shared out among threadgroups, whose parts a second kernel puts together:
    how many depends on the capacity, never on the position.
    """
    stream = stream or current_stream()
    plan = plan_of(q, keys, values, position, gate, uses_loops(stream))
    inputs = q, keys, values, position, q if gate is None else gate
    out = made("attention", out, q.shape, q.dtype, stream, inputs)
    if not plan.grid[2]:
        return out
    if plan.parts is None:
        KERNEL(stream, plan.grid, plan.threads, plan.template, *inputs, out, out, *plan.scalars, scale)
        return out
    parts = make(plan.parts, FLOAT32, stream)
    KERNEL(stream, plan.grid, plan.threads, plan.template, *inputs, parts, parts, *plan.scalars, scale)
    *_, stride, is_gated = plan.scalars
    return combine(parts, inputs[-1], out, q.shape[-2], stride, bool(is_gated), stream=stream)


class Plan(NamedTuple):
    """A launch."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    scalars: tuple[int, ...]
    parts: tuple[int, ...] | None  # the shape of what is left to be put together


@Planned
def plan_of(q: Form, keys: Form, values: Form, position: Form, gate: Form | None, loops: bool) -> Plan:
    """Check the operands and return the launch."""
    batch, heads, pairs, width = check("attention", q, keys, values, position, gate)
    capacity, repeat = keys.shape[-2], heads // pairs
    together = 1 if loops else next(size for size in TOGETHER if repeat % size == 0)
    groups = heads // together
    most = 1 if loops or capacity <= WHOLE or not batch else GROUPS // (groups * batch)
    splits = max(1, min(most, -(-capacity // SHORTEST)))
    stride = 0 if gate is None else (gate.strides or gate.shape[1:])[0]
    return Plan(
        (groups, splits, batch),
        (1 if loops else SIMDGROUPS * 32, 1, 1),
        (q.dtype, width, together),
        (capacity, heads, repeat, splits, stride, gate is not None),
        None if splits == 1 else (batch, heads, splits, width + 2),
    )


def combine(
    parts: Array, gate: Array, out: Array, heads: int, stride: int, is_gated: bool, *, stream: Stream | None = None
) -> Array:
    """Put together what several threadgroups left of each head: of each split the sums, then largest score and norm."""
    rows, splits, width = parts.shape[0] * heads, parts.shape[2], parts.shape[3] - 2
    threads = -(-width // 32) * 32, 1, 1
    scalars = width, heads, splits, stride, is_gated
    COMBINE(stream or current_stream(), (rows, 1, 1), threads, (out.dtype,), parts, gate, out, *scalars)
    return out


def check(op: str, q: Form, keys: Form, values: Form, position: Form, gate: Form | None) -> tuple[int, int, int, int]:
    """Return the rows, query heads, key heads and their width."""
    floating(op, "q", q)
    same(op, "keys", keys, "q", q)
    same(op, "values", values, "q", q)
    if q.ndim not in (2, 3):
        raise ValueError(f"{op}: q has shape {q.shape}; 2 or 3 axes are needed")
    *rows, heads, width = q.shape
    batch = rows[0] if rows else 1
    fits = keys.ndim == q.ndim + 1 and keys.shape[:-3] == tuple(rows) and keys.shape[-1] == width
    if not fits or keys.shape != values.shape:
        raise ValueError(f"{op}: q {q.shape}, keys {keys.shape}, values {values.shape} do not fit [Hkv, capacity, D]")
    pairs = keys.shape[-3]
    if not pairs or heads % pairs:
        raise ValueError(f"{op}: {heads} query heads are not a multiple of {pairs} heads of keys")
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise ValueError(f"{op}: heads of {width} elements; {WIDTHS[0]} to {WIDTHS[1]} are supported")
    if batch > LARGEST_GRID_Z:
        raise ValueError(f"{op}: q has shape {q.shape}; at most {LARGEST_GRID_Z} rows fit a launch")
    aligned(op, "keys", keys)
    aligned(op, "values", values)
    buffer(op, "position", position, INT32, (batch,))
    if gate is not None:
        if gate.dtype != q.dtype:
            raise TypeError(f"{op}: gate is {gate.dtype} and q {q.dtype}; they must be the same")
        if gate.shape != (batch, heads * width) or (gate.size and gate.strides and gate.strides[1] != 1):
            has = f"shape {gate.shape} and strides {gate.strides}"
            raise ValueError(f"{op}: gate has {has}; rows of {heads * width} elements are needed")
    return batch, heads, pairs, width
