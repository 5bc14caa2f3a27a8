"""The kernel of Hopper's matrix instructions for grouped-query attention of many rows of one sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.attention.grouped_heads import INPUTS, SIZES, GroupedHeads
from hiprt.kernels.tuning.target import Target

__all__ = ["shared_bytes", "wgmma_attention"]

ROWS = 128  # that a threadgroup takes
KEYS = 128  # of a tile
TILES = 7  # of keys, or of values, in threadgroup memory: three and four, as in the kernel
THREADS = 384
WIDTHS = (64, 128)


def shared_bytes(template: Mapping[str, Any], _: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of the kernel: tiles of keys and values, and room to align."""
    tile: int = template["KEYS"] * template["WIDTH"] * template["T"].itemsize
    return TILES * tile + 1024


# This body uses Hopper's matrix instructions, so it is not in the dialect.
KERNEL = Kernel(
    "wgmma_attention",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"rows": "uint", **SIZES},
    template={"T": "dtype", "WIDTH": "int", "KEYS": "int"},
    headers=("elementwise/power_of_two.h", "quantized/wgmma.h"),
    threads=THREADS,
    ahead=(),
    shared=shared_bytes,
    source=(OPS / "attention/wgmma_attention.hip").read_text(),
)


def wgmma_attention(call: GroupedHeads, dtype: np.dtype[Any], scale: float, target: Target) -> Launch | None:
    """Return the launch for a call of `prefill_attention`; None where another kernel is to be taken."""
    if "wgmma" not in target.features or dtype.itemsize != 2 or call.width not in WIDTHS:
        return None
    rows, capacity = target.table.short_attention
    if call.rows <= rows and call.capacity <= capacity:
        return None
    grid = (-(-call.rows // ROWS), call.heads, 1)
    template = {"T": dtype, "WIDTH": call.width, "KEYS": KEYS}
    return Launch(KERNEL, grid, (THREADS, 1, 1), template, rows=call.rows, **call.sizes(scale))
