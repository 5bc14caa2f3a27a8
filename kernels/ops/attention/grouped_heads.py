"""Grouped heads: queries, fewer heads of keys and values, positions and a gate, as the ops of attention take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hiprt.array import Form
from hiprt.kernels.lang.operands import INT32, aligned, buffer, row_stride, same

__all__ = ["HEAD_WIDTHS", "INPUTS", "SIZES", "GroupedHeads", "grouped_heads"]

NARROWEST, WIDEST = 32, 256  # elements of a head
HEAD_WIDTHS = (64, 80, 128, 256)  # those of published models, and one that lanes share unevenly: built offline
# What the kernels of attention declare alike.
INPUTS = {"q": "T", "keys": "T", "values": "T", "position": "int", "gate": "T"}
SIZES = {
    "capacity": "uint",
    "heads": "uint",
    "repeat": "uint",
    "gate_stride": "uint",
    "is_gated": "uint",
    "scale": "float",
}


class GroupedHeads(NamedTuple):
    """The sizes of one call of attention.

    Attributes
    ----------
    rows : int
        How many rows of query heads there are; each has a position.
    own_caches : bool
        Whether each row has its own caches; else all have the same.
    heads : int
        Query heads of a row.
    kv_heads : int
        Heads of the keys and of the values.
    capacity : int
        Positions of a cache.
    width : int
        Elements of a head.
    gate_stride : int
        Elements from one row of the gate to the next; 0 without a gate.
    is_gated : bool
    """

    rows: int
    own_caches: bool
    heads: int
    kv_heads: int
    capacity: int
    width: int
    gate_stride: int
    is_gated: bool

    @property
    def repeat(self) -> int:
        """How many query heads read the same keys."""
        return self.heads // self.kv_heads

    @property
    def alone(self) -> int:
        """For how many rows the work is shared out: rows that read one cache have the bits that each has alone."""
        return self.rows if self.own_caches else 1

    def sizes(self, scale: float) -> dict[str, float]:
        """Return the scalars that the kernels of attention have in common, by name."""
        return {
            "capacity": self.capacity,
            "heads": self.heads,
            "repeat": self.repeat,
            "gate_stride": self.gate_stride,
            "is_gated": self.is_gated,
            "scale": scale,
        }


def grouped_heads(
    op: str, q: Form, keys: Form, values: Form, position: Form, gate: Form | None, caches: Sequence[tuple[int, ...]]
) -> GroupedHeads:
    """Check the operands of attention and return their sizes.

    Parameters
    ----------
    op : str
        The op's name, used in messages.
    q : Form, [heads, width] or [rows, heads, width]
        The query heads, whose dtype and number of axes the op has checked.
    keys, values : Form, [*caches, kv_heads, capacity, width]
    position : Form, [rows]
    gate : Form, [rows, heads * width], or None
    caches : sequence of (tuple of int)
        How many caches there may be: ``()`` is one that all rows read, ``(rows,)`` one of each row.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or a cache does not start at a multiple of 16 bytes.
    """
    same(op, "keys", keys, "q", q)
    same(op, "values", values, "q", q)
    rows, heads, width = (1, *q.shape)[-3:]
    if keys.shape != values.shape or keys.shape[-1] != width or keys.shape[:-3] not in caches or keys.ndim < 3:
        raise ValueError(f"{op}: q {q.shape}, keys {keys.shape}, values {values.shape} do not fit [Hkv, capacity, D]")
    kv_heads, capacity, _ = keys.shape[-3:]
    if not kv_heads or heads % kv_heads:
        raise ValueError(f"{op}: {heads} query heads are not a multiple of {kv_heads} heads of keys")
    if not NARROWEST <= width <= WIDEST:
        raise ValueError(f"{op}: heads of {width} elements; {NARROWEST} to {WIDEST} are supported")
    aligned(op, "keys", keys)
    aligned(op, "values", values)
    buffer(op, "position", position, INT32, (rows,))
    gate_stride = 0 if gate is None else row_stride(op, "gate", gate, (rows, heads * width), "q", q)
    own_caches = keys.ndim == 4
    return GroupedHeads(rows, own_caches, heads, kv_heads, capacity, width, gate_stride, gate is not None)
