"""Grouped-query attention of many rows of one sequence over its cache."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import FLOATS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import aligned, floating
from hiprt.kernels.ops.attention.attention import name_of
from hiprt.kernels.ops.attention.grouped_heads import HEAD_WIDTHS, INPUTS, SIZES, GroupedHeads, grouped_heads
from hiprt.kernels.ops.attention.wgmma_attention import wgmma_attention
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.table import DEFAULT, Table
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["prefill_attention", "tile_rows"]

LOOP_ROWS = 8  # that a plain loop on the CPU device takes
KEYS = 16  # of a tile, as in the kernel
WAVE_ROWS = 16  # that a wave takes, as in the kernel
SHARED_BYTES = 32768  # memory of a threadgroup that every GPU has
TURNED = replace(DEFAULT, turns_attention=True)
TURNED_ROWS = 128  # that waves with rows of their own may take beside those of the rules
KERNEL = Kernel(
    "attention/prefill_attention",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"rows": "uint", **SIZES},
    template={"T": "dtype", "WIDTH": "int", "ROWS": "int"},
    headers=("matmul/tiles.h", "elementwise/power_of_two.h", "attention/turned_attention.h"),
    ahead=(),
    threads=lambda template: int(template["ROWS"]) // WAVE_ROWS * 32 or 1,
    instances=lambda takes_loops: [
        {"T": dtype, "WIDTH": width, "ROWS": rows}
        for dtype, width in product(FLOATS, HEAD_WIDTHS)
        for rows in sorted({tile_rows(dtype, width, table, takes_loops=takes_loops) for table in (DEFAULT, TURNED)})
    ],
)


def tile_rows(dtype: np.dtype[Any], width: int, table: Table = DEFAULT, *, takes_loops: bool = False) -> int:
    """Return how many rows a threadgroup takes: as many as fit its memory beside a tile of keys and their scores.

    Where attention is turned over, rows are in registers, and waves with rows of their own share the tiles.
    """
    if takes_loops:
        return LOOP_ROWS
    if table.turns_attention and dtype.itemsize == 2:
        return table.prefill_rows[0]
    line = -(-width // 16) * 16 * dtype.itemsize + 16
    fitting = (rows for rows in table.prefill_rows if (rows + KEYS) * line + rows * (KEYS + 5) * 4 <= SHARED_BYTES)
    return next(fitting, table.prefill_rows[-1])


@op
def prefill_attention(
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
    """Return ``softmax(scale * q @ keys.T) @ values``, row i over positions 0 to ``position[i]``, both included.

    Parameters
    ----------
    q : Array, [S, Hq, D]
        float16, bfloat16 or float32; D from 32 to 256.
    keys, values : Array, [Hkv, capacity, D]
        Those that all rows read; otherwise as in `attention`. What the largest position can see must be finite.
    position : Array, [S]
        As in `attention`, in any order.
    scale, gate
        As in `attention`.

    Returns
    -------
    Array, [S, Hq, D]
        The dtype of `q`; scores, softmax and sums are float32. On a GPU the shares ``exp(score - largest)`` are
        rounded to the dtype.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, `q`, `keys` or `values` does not start at a multiple of 16
        bytes, or `out` overlaps an input.

    Notes
    -----
    Tiles of keys with a running maximum: Dao et al., "FlashAttention", 2022. Shares made beside matrix instructions, on
    Hopper: Shah et al., "FlashAttention-3", 2024.
    """
    stream = stream or current_stream()
    plan = plan_of(q, keys, values, position, gate, scale, target_of(stream))
    return plan.run(stream, out, q=q, keys=keys, values=values, position=position, gate=gate)


@Planned
def plan_of(q: Form, keys: Form, values: Form, position: Form, gate: Form | None, scale: float, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "prefill_attention"
    floating(op, "q", q, 3)
    aligned(op, "q", q)
    call = grouped_heads(op, q, keys, values, position, gate, ((),))
    if call.heads > LARGEST_GRID_YZ:
        raise ValueError(f"{op}: q has shape {q.shape}; at most {LARGEST_GRID_YZ} heads fit a launch")

    def made(launch: Launch) -> Plan:
        return Plan(op, q.shape, q.dtype, launch)

    def run(rows: int) -> Run:
        plan = made(tile_attention(call, q.dtype, scale, target, rows))
        return lambda stream, given: plan.run(stream, None, **given)

    launch = wgmma_attention(call, q.dtype, scale, target)
    if launch is None:
        least = 1 << (call.rows.bit_length() - 1) if call.rows else 0
        operands = {"q": q, "keys": keys, "values": values, "position": position, "gate": gate}
        name = f"{name_of(op, call, q.dtype)}, {least} to {2 * least - 1} rows of a prompt"
        rows = choose(target, name, ways_of(call, q.dtype, target), operands, run)
        launch = tile_attention(call, q.dtype, scale, target, rows)
    return made(launch)


def ways_of(call: GroupedHeads, dtype: np.dtype[Any], target: Target) -> list[int]:
    """Return the rows that a threadgroup may take, those of the rules first."""
    rule = tile_rows(dtype, call.width, target.table, takes_loops=target.takes_loops)
    if target.takes_loops:
        return [rule]
    if target.table.turns_attention and dtype.itemsize == 2:
        return [rule, *(rows for rows in (TURNED_ROWS,) if rows <= call.rows)]
    return [rule, *(rows for rows in target.table.prefill_rows if rows < rule)]


def tile_attention(call: GroupedHeads, dtype: np.dtype[Any], scale: float, target: Target, tile: int) -> Launch:
    """Return the launch of the kernel that serves every target, whose threadgroups take so many rows."""
    grid = (-(-call.rows // tile), call.heads, 1)
    threads = (1 if target.takes_loops else tile // WAVE_ROWS * 32, 1, 1)
    template = {"T": dtype, "WIDTH": call.width, "ROWS": tile}
    return Launch(KERNEL, grid, threads, template, rows=call.rows, **call.sizes(scale))
