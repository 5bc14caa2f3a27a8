"""Experts of a mixture in decoding: the stack of their matrices, how the work is shared out, and what is timed.

A token's experts are two launches: `moe_gate_up` is gate, up and their product, `moe_down` down and the weighted sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiprt.array import Array, Form, array, bfloat16
from hiprt.kernels.lang.launch import Plan, Three
from hiprt.kernels.lang.operands import aligned, buffer, same
from hiprt.kernels.ops.quantized.formats import BITS, check_matrix, format_of
from hiprt.kernels.tuning.choices import MOST_WAYS, Run
from hiprt.kernels.tuning.dots import LARGEST, MOST_ROWS, TEMPLATE, Dots, dots_configuration, ranked_dots
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.stream import Stream

__all__ = [
    "CHOSEN",
    "EXPERT_WIDTHS",
    "HEADERS",
    "MOST_ITEMS",
    "STACK",
    "STAGED_BYTES",
    "Columns",
    "ahead_bits",
    "check_stack",
    "dot_configuration_of",
    "dot_instances",
    "expert_ring_of",
    "launched_in_turn",
    "name_of",
    "plain_share",
    "ring_configuration_of",
]

# The widths of the experts' matrices of Qwen3-30B-A3B, and the number of experts that a token takes.
EXPERT_WIDTHS, CHOSEN = (2048, 768), 8
STAGED_BYTES = 28672  # bytes of a token's vectors that a threadgroup's memory holds
MOST_ITEMS = 65535  # the largest y of a grid
HEADERS = tuple(f"quantized/{name}.h" for name in ("codes", "tile_codes", "lane_codes", "ordered_loads", "packed_rows"))
STACK = {"weight": "uint", "scales": "T", "biases": "T"}


def ahead_bits(dtype: np.dtype[Any], takes_loops: bool) -> tuple[int, ...]:
    """Return the bits of the codes of instances that are compiled ahead; others are when they are first used."""
    return (*BITS, 3) if dtype == bfloat16 and not takes_loops else BITS


class Columns(NamedTuple):
    """How the kernels that every target has share out the columns of experts.

    Attributes
    ----------
    each : int
        The columns that a simdgroup takes.
    simdgroups : int
        The simdgroups of a threadgroup, which read a token's vectors once.
    """

    each: int
    simdgroups: int


def dot_instances(takes_loops: bool, width: int, **others: Any) -> list[dict[str, Any]]:
    """List the instances of a kernel of integer dot instructions that are compiled ahead."""
    sharing = dict(zip(TEMPLATE, (4, 1, 8, 2, 4)))
    return [
        {"T": dtype, "GROUP": 64, "BITS": bits, "WIDTH": width, **sharing, **others, "CHOSEN": CHOSEN}
        for dtype in (np.dtype(np.float16), bfloat16)
        for bits in ahead_bits(dtype, takes_loops)
        if not takes_loops
    ]


def check_stack(
    op: str, w: Form, scales: Form, biases: Form, x: Form, group_size: int, bits: int
) -> tuple[int, int, int]:
    """Return the numbers of experts, rows and columns of a stack of matrices.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        The format has no kernel, a shape does not fit, an array is not contiguous or not aligned.
    """
    form = format_of(op, group_size, bits, "affine")
    buffer(op, "w", w, np.dtype(np.uint32))
    same(op, "scales", scales, "the vectors", x)
    same(op, "biases", biases, "the vectors", x)
    shape = check_matrix(op, w, scales, biases, form)
    if len(shape) != 3:
        raise ValueError(f"{op}: w has shape {w.shape}; 3 axes are needed")
    for name, value in (("w", w), ("the vectors", x)):
        aligned(op, name, value)
    experts, rows, width = shape
    return experts, rows, width


def plain_share(
    target: Target, columns: int, rows: int, width: int, bits: int, share: Columns, items: int
) -> tuple[Three, Three, int]:
    """Return the threadgroups and the threads of the kernels that every target has, and the columns of a plain loop.

    Parameters
    ----------
    target : Target
    columns : int
        The columns of the result.
    rows, width, bits : int
        The rows of the weights that one column takes, their elements, and the bits of a code.
    share : Columns
    items : int
        The y of the grid.
    """
    stretch = max(1, target.table.loop_bytes * 8 // max(rows * width * bits, 1))
    groups = -(-columns // (stretch if target.takes_loops else share.simdgroups * share.each))
    return (groups, items, 1), (1 if target.takes_loops else share.simdgroups * 32, 1, 1), stretch


def ring_configuration_of(target: Target, dtype: np.dtype[Any], product: Product, tokens: int) -> Configuration | None:
    """Return the launch of the ring that is chosen for a product of 16-bit numbers."""
    is_whole = product.bits in BITS and product.width * product.bits % 1024 == 0
    takes = dtype.itemsize == 2 and is_whole and 1 <= tokens <= target.table.expert_tokens
    ring = expert_ring_of(product, target, tokens) if takes else None
    return ring and ring_configuration(product, ring, target, tokens)


def expert_ring_of(product: Product, target: Target, tokens: int = 1) -> Ring | None:
    """Return the ring of the product with the experts of some tokens; None where no ring serves it."""
    ring, table, size = ring_of(product, target), target.table, (product.rows, product.width)
    if ring is None or (product.bits, product.group) != (4, 64):
        return ring
    if tokens == 1:
        return table.expert_rings.get(size, ring)
    measured = [least for rows, width, least in table.many_expert_rings if (rows, width) == size and least <= tokens]
    return table.many_expert_rings[(*size, max(measured))] if measured else ring


def dot_configuration_of(
    target: Target,
    dtype: np.dtype[Any],
    product: Product,
    columns: int,
    matrices: int,
    tiling: Dots | None,
    choice: Callable[[list[Dots]], Dots] = itemgetter(0),
) -> Configuration | None:
    """Return how one token's experts are shared out by integer dot instructions; None where another kernel takes them.

    Parameters
    ----------
    target : Target
    dtype : numpy.dtype
    product : Product
        The product with the chosen matrices, as if they were one.
    columns : int
        The columns of the result of one matrix; a tile lies within them.
    matrices : int
        The matrices of the stack.
    tiling : Dots or None
        The sharing that the caller wants.
    choice : callable
        Takes the sharings of which timing may choose, that of the rules first; returns one of them, which is the first
        by default.

    Raises
    ------
    ValueError
        That does not fit.
    """
    nbytes = matrices * product.rows * product.width * product.bits // 8
    is_possible = dtype.itemsize == 2 and nbytes < LARGEST
    ways = [] if tiling or not is_possible or columns < MOST_ROWS else ranked_dots(product, target)
    ways = [way for way in ways if not way.held]
    sharing = choice(ways[:MOST_WAYS]) if ways else tiling
    if tiling and (not is_possible or tiling.held or columns < tiling.rows // (2 if product.is_gated else 1)):
        raise ValueError(f"{tiling} does not fit experts of {columns} columns")
    return sharing and dots_configuration(product, sharing)


def some_experts(tokens: int, chosen: int, matrices: int) -> list[NDArray[np.int32]]:
    """Return indices of experts for launches that take turns: other ones in each, as far as there are any."""
    size = tokens * chosen
    turns = range(max(1, matrices // size))
    return [(np.arange(size, dtype=np.int32) + i * size).reshape(tokens, chosen) % matrices for i in turns]


def launched_in_turn(plan: Plan, tokens: int, chosen: int, matrices: int) -> Run:
    """Return what launches a plan so that the experts of each launch have to be read from memory."""
    numbers, turns = count(), list[Array]()

    def launch(stream: Stream, given: dict[str, Any]) -> Array:
        if not turns:
            turns.extend(array(each, stream=stream) for each in some_experts(tokens, chosen, matrices))
        return plan.run(stream, None, **{**given, "indices": turns[next(numbers) % len(turns)]})

    return launch


def name_of(
    op: str, tokens: int, chosen: int, matrices: int, rows: int, kinds: Mapping[str, Any], words: tuple[str, ...]
) -> str:
    """Return what a choice calls a product with some of a stack of matrices."""
    form = f"{kinds['BITS']} bits in groups of {kinds['GROUP']}"
    sizes = f"{chosen} of {matrices}, {rows}x{kinds['WIDTH']}"
    several = [f"{tokens} tokens"] if tokens > 1 else []
    return f"{op} {sizes} of {form}, {', '.join([str(kinds['T']), *words, *several])}"
