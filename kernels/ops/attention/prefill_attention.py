"""Grouped-query attention of many rows of one sequence over its cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, aligned, buffer, floating, made, same
from hiprt.kernels.ops.attention.attention import HEAD_WIDTHS
from hiprt.stream import Stream, current_stream

__all__ = ["prefill_attention", "tile_rows"]

WIDTHS = (32, 256)
LARGEST_GRID_Y = 65535
ROWS = (64, 32, 16)  # of a threadgroup
LOOP_ROWS = 8  # of a plain loop on the CPU device
KEYS = 16  # of a tile, as in the kernel
OWN_ROWS = 16  # of a wave
SHARED_BYTES = 32768  # of a threadgroup, on the least of the targets
KERNEL = Kernel(
    "attention/prefill_attention",
    inputs={"q": "T", "keys": "T", "values": "T", "position": "int", "gate": "T"},
    outputs={"out": "T"},
    scalars={
        "rows": "uint",
        "heads": "uint",
        "capacity": "uint",
        "repeat": "uint",
        "scale": "float",
        "gated": "uint",
        "gate_line": "uint",
    },
    template={"T": "dtype", "WIDTH": "int", "ROWS": "int"},
    headers=("matmul/tiles.h",),
    threads=128,
    instances=each(WIDTH=HEAD_WIDTHS, ROWS=lambda dtype, loops: ROWS),
)


def tile_rows(dtype: np.dtype[Any], width: int, *, loops: bool = False) -> int:
    """Return how many rows a threadgroup has: as many as fit its memory."""
    line = -(-width // 16) * 16 * dtype.itemsize + 16
    fitting = (rows for rows in ROWS if (rows + KEYS) * line + rows * (KEYS + 5) * 4 <= SHARED_BYTES)
    return LOOP_ROWS if loops else next(fitting, ROWS[-1])


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
        Of the dtype of `q`; Hq is a multiple of Hkv, and query head h reads head ``h // (Hq / Hkv)``. What the last
        of the positions can see must be finite.
    position : Array, [S]
        int32, on the device, in any order. From capacity on, the whole cache is read; below 0 the row is zeros.
    scale : float
        Usually ``D**-0.5``.
    gate : Array, [S, Hq * D], optional
        Of the dtype of `q`; rows may lie apart. The result is multiplied with ``sigmoid(gate)``.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

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
    Tiles of keys with a running maximum: Dao et al., "FlashAttention", 2022.
    """
    op = "prefill_attention"
    floating(op, "q", q, 3)
    rows, heads, width = q.shape
    for name, value in (("keys", keys), ("values", values)):
        same(op, name, value, "q", q)
    if keys.ndim != 3 or keys.shape != values.shape or keys.shape[2] != width:
        raise ValueError(f"{op}: q {q.shape}, keys {keys.shape}, values {values.shape} do not fit [Hkv, capacity, D]")
    kv_heads, capacity, _ = keys.shape
    if not kv_heads or heads % kv_heads or heads > LARGEST_GRID_Y:
        raise ValueError(f"{op}: {heads} query heads are not a multiple of {kv_heads} heads of keys")
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise ValueError(f"{op}: heads of {width} elements; {WIDTHS[0]} to {WIDTHS[1]} are supported")
    for name, value in (("q", q), ("keys", keys), ("values", values)):
        aligned(op, name, value)
    buffer(op, "position", position, INT32, (rows,))
    stream = stream or current_stream()
    gate_line = 0 if gate is None else line_of(gate, q)
    opening = q if gate is None else gate
    out = made(op, out, q.shape, q.dtype, stream, (q, keys, values, position, opening))
    loops = uses_loops(stream)
    tile = tile_rows(q.dtype, width, loops=loops)
    grid = (-(-rows // tile), heads, 1)
    threads = (1 if loops else tile // OWN_ROWS * 32, 1, 1)
    sizes = rows, heads, capacity, heads // kv_heads, scale, gate is not None, gate_line
    KERNEL(stream, grid, threads, (q.dtype, width, tile), q, keys, values, position, opening, out, *sizes)
    return out


def line_of(gate: Array, q: Array) -> int:
    """Return the elements from one row of a gate to the next."""
    rows, heads, width = q.shape
    if not isinstance(gate, Array) or gate.dtype != q.dtype:
        raise TypeError(f"prefill_attention: gate is not an array of {q.dtype}")
    if gate.shape != (rows, heads * width) or (gate.size > 1 and gate.strides[-1] != 1):
        raise ValueError(f"prefill_attention: gate has shape {gate.shape} and strides {gate.strides}")
    return gate.strides[0]
