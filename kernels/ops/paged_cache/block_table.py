"""Block tables: which block of a pool has each run of a sequence's positions, as the ops take them."""

from __future__ import annotations

from hiprt.array import Form
from hiprt.kernels.lang.operands import INT32, buffer

__all__ = ["LEAST", "MOST", "check_block_rows", "check_table"]

LEAST, MOST = 16, 4096  # positions of a block


def check_block_rows(op: str, block_rows: int) -> int:
    """Return the binary logarithm of the positions of a block.

    Raises
    ------
    ValueError
        They are no power of two from 16 to 4,096.
    """
    if not LEAST <= block_rows <= MOST or block_rows & (block_rows - 1):
        raise ValueError(f"{op}: blocks of {block_rows} positions; a power of two from {LEAST} to {MOST} is needed")
    return block_rows.bit_length() - 1


def check_table(op: str, table: Form, rows: int) -> int:
    """Check a table of one sequence, or of as many as there are rows; return the blocks that a sequence may have.

    Raises
    ------
    TypeError
        It is not int32.
    ValueError
        Its shape does not fit, or it is not contiguous.
    """
    buffer(op, "table", table, INT32)
    if table.ndim not in (1, 2) or not table.shape[-1] or table.shape[:-1] not in ((), (rows,)):
        raise ValueError(f"{op}: table has shape {table.shape}; [blocks] or [{rows}, blocks] is needed")
    return table.shape[-1]
