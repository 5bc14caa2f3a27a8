"""Blocks: how the kernel of AMD's matrix instructions shares out a matrix for up to 16 vectors."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from hiprt.kernels.ops.arrivals import COUNTERS
from hiprt.kernels.tuning.dots import LARGEST
from hiprt.kernels.tuning.tiling import Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = [
    "FEWEST_VECTORS",
    "MOST_VECTORS",
    "TEMPLATE",
    "Blocks",
    "blocks",
    "blocks_configuration",
    "blocks_of",
    "cost",
    "parts_shape",
]

# The template parameters that a sharing gives to the kernel.
TEMPLATE = {"BLOCKS": "int", "SIMDGROUPS": "int", "DEPTH": "int", "SPLIT": "int"}
LANES = 32
ROWS = 16  # of a block
STEP = 64  # of the width, unless fewer codes share a scale
MOST_STEPS = 2  # that a wave has on their way
# Bits of codes for each value of x with which four waves fit a SIMD, half as many of a gate in waves of 64; and those
# with which they do with all steps. A wave has as many as these on their way at least, 1 KiB with all rows.
MOST_BITS, FEW_BITS = 16, 8
FEWEST_VECTORS, MOST_VECTORS = 5, 16
MOST_BLOCKS = 4
MOST_SUMS = 32  # blocks of all waves, whose sums are 1 KiB each of threadgroup memory
BLOCK_SUMS = ROWS * MOST_VECTORS
MOST_SPLIT = 4
# Vector instructions of a block and of x, with its norm and without, for a step; and of a wave at its end.
BLOCK, NORMED, PLAIN, END = 24, 78, 12, 60
# As many as a wave of so many lanes executes beside three others while threadgroups write sums, count themselves and
# read what all have written: three trips to memory of 0.7 to 0.85 us.
ARRIVAL = {32: 1200, 64: 300}


class Blocks(NamedTuple):
    """How the kernel of AMD's matrix instructions shares out its work.

    Attributes
    ----------
    blocks : int
        The blocks of 16 rows of a threadgroup, all of which each of its waves multiplies. A gate needs an even number.
    simdgroups : int
        The simdgroups of a threadgroup, in whole waves, among which the width is divided.
    depth : int
        The steps of the width that a wave has on their way.
    split : int
        The threadgroups among which the width is divided. The last to finish adds up what they leave, in their order.
    """

    blocks: int
    simdgroups: int
    depth: int = 1
    split: int = 1


def steps_of(product: Product) -> int:
    """Return the steps of a row, each of which has one scale."""
    return product.width // min(product.group, STEP)


def blocks(product: Product, target: Target) -> Iterator[Blocks]:
    """Yield the sharings that fit a product."""
    each, steps = target.wave // LANES, steps_of(product)
    splits = range(1, (MOST_SPLIT if "arrivals" in target.features else 1) + 1)
    most = MOST_BITS // 2 if product.is_gated and each > 1 else MOST_BITS
    for count in (count for count in (4, 2, 1) if count * product.bits <= most or count == 1 + product.is_gated):
        # Lanes of a wave of 32 have twice as much of a step.
        depth = MOST_STEPS if each > 1 and count * product.bits <= FEW_BITS else 1
        if depth * count * product.bits < FEW_BITS:
            continue
        waves = 1
        while waves * each <= target.table.dot_simdgroups and (waves == 1 or waves < steps):
            for split in splits:
                sharing = Blocks(count, waves * each, min(depth, steps), split)
                if fits(product, sharing) and (split == 1 or waves * split <= steps):
                    yield sharing
            waves *= 2


def fits(product: Product, sharing: Blocks) -> bool:
    """Whether the kernel takes a matrix with a sharing."""
    return (
        1 <= product.batch <= MOST_VECTORS
        and 1 <= sharing.blocks <= MOST_BLOCKS
        and not (product.is_gated and sharing.blocks % 2)
        and 1 <= sharing.simdgroups <= LANES
        and 1 <= sharing.depth <= MOST_STEPS
        and sharing.blocks * sharing.simdgroups <= MOST_SUMS
        and 1 <= sharing.split <= MOST_SPLIT
        and (sharing.split == 1 or grid_of(product, sharing)[0] <= COUNTERS)
        and product.rows > 0
        and product.width % min(product.group, STEP) == 0
        and product.rows * product.width * product.bits < 8 * LARGEST
    )


def grid_of(product: Product, sharing: Blocks) -> tuple[int, int, int]:
    """Return the threadgroups of a launch: along x those with blocks of their own, along y those that share them."""
    return -(-product.rows // (ROWS * sharing.blocks)), sharing.split, 1


def parts_shape(product: Product, sharing: Blocks, is_normed: bool) -> tuple[int, ...]:
    """Return the shape of what threadgroups leave that share the width: sums, and each vector's squares for a norm."""
    return *grid_of(product, sharing)[:2], BLOCK_SUMS * sharing.blocks + (MOST_VECTORS if is_normed else 0)


def cost(product: Product, sharing: Blocks, is_normed: bool, target: Target) -> tuple[bool, int]:
    """Return whether compute units lack waves, and about how many vector instructions the busiest one executes.

    A unit with fewer waves than it shall have is no faster than with as many. Waves hide the wait for memory from each
    other, which does not show in instructions, so that a sharing by which units lack waves comes last.
    """
    threadgroups, units = prod(grid_of(product, sharing)), target.compute_units
    waves, wanted = (each * LANES // target.wave for each in (sharing.simdgroups, target.table.dot_simdgroups))
    step = (NORMED if is_normed else PLAIN) + BLOCK * sharing.blocks
    turns = -(-steps_of(product) // (waves * sharing.split * sharing.depth))
    end = END + (ARRIVAL[target.wave] if sharing.split > 1 else 0)
    busiest = max(wanted, -(-threadgroups // units) * waves)
    return round(threadgroups * waves / units) < wanted, busiest * (turns * sharing.depth * step + end)


def blocks_of(product: Product, is_normed: bool, target: Target) -> Blocks | None:
    """Return a sharing for a matrix; None where matrix instructions do not serve the matrix or the target."""
    if "blocks" not in target.features or product.batch < FEWEST_VECTORS:
        return None
    return min(blocks(product, target), key=lambda sharing: cost(product, sharing, is_normed, target), default=None)


def blocks_configuration(product: Product, sharing: Blocks) -> Configuration:
    """Return the launch of the kernel.

    Raises
    ------
    ValueError
        The sharing does not fit the matrix.
    """
    if not fits(product, sharing):
        raise ValueError(f"qmv: {sharing} does not fit {product}")
    template = {name: value for name, value in zip(TEMPLATE, sharing) if name != "SPLIT" or value > 1}
    return Configuration(grid_of(product, sharing), (sharing.simdgroups * LANES, 1, 1), template)
