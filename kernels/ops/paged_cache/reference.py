"""Caches in blocks in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.ops.attention.reference import attention
from hiprt.kernels.reference.float64 import Floats, Host

__all__ = ["block_slots", "paged_attention"]

Table = NDArray[np.int32]


def block_slots(table: Table, position: Table, block_rows: int) -> Table:
    """Return where in a pool of blocks each position lies; -1 where its sequence has no block for it."""
    tables = np.broadcast_to(table, (len(position), table.shape[-1]))
    runs = position // block_rows
    has_run = (runs >= 0) & (runs < table.shape[-1])
    block = np.where(has_run, tables[np.arange(len(position)), np.where(has_run, runs, 0)], -1)
    return np.where(block < 0, -1, block * block_rows + position % block_rows).astype(np.int32)


def paged_attention(q: Host, keys: Host, values: Host, table: Table, position: int, scale: float) -> Floats:
    """Attend to positions 0 to `position` of one sequence, whose blocks `table` names in their order."""
    heads, _, block_rows, width = keys.shape
    runs = np.clip(table[: position // block_rows + 1], 0, None) if position >= 0 else table[:0]
    held = [pool[:, runs].reshape(heads, len(runs) * block_rows, width) for pool in (keys, values)]
    return attention(q, held[0], held[1], position, scale)
