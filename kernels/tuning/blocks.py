"""Blocks: how the kernel of AMD's matrix instructions shares out a matrix for up to 16 vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

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
]

# The template parameters that a sharing gives to the kernel.
TEMPLATE = {"BLOCKS": "int", "SIMDGROUPS": "int", "DEPTH": "int"}
LANES = 32
ROWS = 16  # of a block
STEP = 64  # of the width, unless fewer codes share a scale
MOST_STEPS = 2  # that a wave has on their way
# Bits of codes for each value of x with which four waves fit a SIMD, half as many of a gate in waves of 64; and those
# with which they do with all steps.
MOST_BITS, FEW_BITS = 16, 8
FEWEST_VECTORS, MOST_VECTORS = 5, 16
MOST_BLOCKS = 4
MOST_SUMS = 32  # blocks of all waves, whose sums are 1 KiB each of threadgroup memory
# Vector instructions of a block and of x, with its norm and without, for a step; and of a wave at its end.
BLOCK, NORMED, PLAIN, END = 24, 78, 12, 60


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
    """

    blocks: int
    simdgroups: int
    depth: int = 1


def steps_of(product: Product) -> int:
    """Return the steps of a row, each of which has one scale."""
    return product.width // min(product.group, STEP)


def blocks(product: Product, target: Target) -> Iterator[Blocks]:
    """Yield the sharings that fit a product."""
    each, steps = target.wave // LANES, steps_of(product)
    most = MOST_BITS // 2 if product.is_gated and each > 1 else MOST_BITS
    for count in (count for count in (4, 2, 1) if count * product.bits <= most or count == 1 + product.is_gated):
        # Lanes of a wave of 32 have twice as much of a step.
        depth = MOST_STEPS if each > 1 and count * product.bits <= FEW_BITS else 1
        waves = 1
        while waves * each <= target.table.dot_simdgroups and (waves == 1 or waves < steps):
            sharing = Blocks(count, waves * each, min(depth, steps))
            if fits(product, sharing):
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
        and product.rows > 0
        and product.width % min(product.group, STEP) == 0
        and product.rows * product.width * product.bits < 8 * LARGEST
    )


def threadgroups_of(product: Product, sharing: Blocks) -> int:
    """Return the threadgroups of a launch."""
    return -(-product.rows // (ROWS * sharing.blocks))


def cost(product: Product, sharing: Blocks, is_normed: bool, target: Target) -> int:
    """Return about how many vector instructions a wave executes on a compute unit that holds as many as shall be."""
    waves = sharing.simdgroups * LANES // target.wave
    resident = target.compute_units * max(1, target.table.dot_simdgroups // sharing.simdgroups)
    rounds = -(-threadgroups_of(product, sharing) // resident)
    step = (NORMED if is_normed else PLAIN) + BLOCK * sharing.blocks
    return rounds * (-(-steps_of(product) // waves) * step + END)


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
    template = dict(zip(TEMPLATE, sharing))
    return Configuration((threadgroups_of(product, sharing), 1, 1), (sharing.simdgroups * LANES, 1, 1), template)
