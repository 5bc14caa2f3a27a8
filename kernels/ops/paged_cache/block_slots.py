"""Where in a pool of blocks the positions of sequences lie."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, buffer
from hiprt.kernels.ops.paged_cache.block_table import check_block_rows, check_table
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["block_slots"]

OP = "block_slots"
THREADS = 64
KERNEL = Kernel(
    "paged_cache/block_slots",
    inputs={"table": "int", "position": "int"},
    outputs={"out": "int"},
    scalars={"rows": "uint", "blocks": "uint", "stride": "uint", "shift": "uint"},
    threads=THREADS,
    instances=each(()),
)


@op
def block_slots(
    table: Array, position: Array, block_rows: int, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return ``table[row, position // block_rows] * block_rows + position % block_rows`` of each row.

    Parameters
    ----------
    table : Array, [B, blocks] or [blocks]
        int32, on the device: the block of a pool that has each run of positions of a row's sequence, or of that of all
        rows; below 0 where it has none.
    position : Array, [B]
        int32, on the device.
    block_rows : int
        The positions of a block: a power of two from 16 to 4,096.

    Returns
    -------
    Array, [B]
        int32: ``slots`` of `norm_rope_write`. It is -1 where the sequence has no block for the position.

    Raises
    ------
    TypeError
        A dtype is not int32.
    ValueError
        A shape or the positions of a block do not fit, or an array is not contiguous.
    """
    stream = stream or current_stream()
    return plan_of(table, position, int(block_rows)).run(stream, out, table=table, position=position)


@Planned
def plan_of(table: Form, position: Form, block_rows: int) -> Plan:
    """Check the operands and return the plan."""
    shift = check_block_rows(OP, block_rows)
    buffer(OP, "position", position, INT32)
    if position.ndim != 1:
        raise ValueError(f"{OP}: position has shape {position.shape}; one axis is needed")
    rows = position.shape[0]
    blocks = check_table(OP, table, rows)
    stride = blocks if table.ndim == 2 else 0
    grid = (-(-rows // THREADS), 1, 1)
    launch = Launch(KERNEL, grid, (THREADS, 1, 1), rows=rows, blocks=blocks, stride=stride, shift=shift)
    return Plan(OP, (rows,), INT32, launch)
