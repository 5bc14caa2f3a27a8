"""Tilings: how the kernel of matrix instructions for 16-bit numbers shares out the rows and the width of a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["TENSOR_ROWS", "Configuration", "Product", "Tiling", "tensor_configuration", "tiling_of"]

TENSOR_ROWS = 8  # rows that a simdgroup takes with matrix instructions
STAGED_STEPS = 64  # steps of one vector that 32 KiB of threadgroup memory hold
SIMDGROUPS_EACH = 16  # simdgroups at which a processor runs at full speed
LARGE = 12  # simdgroups of a threadgroup for a large matrix
DEPTH = 5
SIZES = (1, 2, 4, 8)  # vectors that the kernel is compiled for


class Product(NamedTuple):
    """A product of a matrix with some vectors, as far as the choice of its kernel depends on it.

    Attributes
    ----------
    rows, width : int
        The matrix's rows, and the elements of each.
    batch : int
        The vectors that are multiplied with it.
    group, bits : int
        The codes that share a scale, and the bits of a code.
    is_gated : bool
        Whether the first half of the rows is a gate of the second half.
    """

    rows: int
    width: int
    batch: int
    group: int
    bits: int
    is_gated: bool

    @property
    def steps(self) -> int:
        """The parts of a row, 128 bytes each, that a simdgroup multiplies at a time with matrix instructions."""
        return self.width * self.bits // 1024

    @property
    def tiles(self) -> int:
        """The tiles of 8 rows that the matrix has."""
        return -(-self.rows // TENSOR_ROWS)


class Tiling(NamedTuple):
    """How the kernel of matrix instructions shares out its work.

    Attributes
    ----------
    tiles : int
        The simdgroups of a threadgroup with rows of their own, 8 each.
    split : int
        The simdgroups among which the width of one row is divided.
    depth : int
        The steps of 128 bytes of a row that each simdgroup has in flight.
    rounds : int
        The number of times that a simdgroup takes 8 rows.
    """

    tiles: int
    split: int
    depth: int
    rounds: int = 1


def tiling_of(product: Product, target: Target) -> Tiling:
    """Return a tiling for a matrix by rules that were found on an H200.

    A small matrix gets one threadgroup for each processor, and simdgroups share the width of its rows. A larger one
    gets two for each processor, in several rounds where a simdgroup would have few steps. The largest get many small
    threadgroups.
    """
    processors = target.compute_units
    batch, steps = padded(product.batch), product.steps
    staged = STAGED_STEPS // batch
    is_whole = steps <= staged
    each = -(-product.tiles // (2 * processors))
    tiles, split, rounds, deepest = -(-product.tiles // processors), 1, 1, DEPTH
    if not is_whole:
        tiles, split, deepest = (min(3, tiles), 4, 1) if batch == 1 else (min(8, tiles), 2, 4)
    elif each > LARGE and product.tiles > 48 * 2 * processors and steps > DEPTH:
        tiles, deepest = LARGE, 1
    elif each > LARGE + 2:
        rounds = -(-each // 9)
        tiles = -(-each // rounds)
        deepest = 2 if tiles == 9 else 4
    elif each >= 8:
        tiles, deepest = each, 2
    else:
        if tiles > 6:
            tiles, deepest = each, 2
        while 2 * split * tiles <= SIMDGROUPS_EACH and steps >= 2 * split:
            split *= 2
    split = min(split, staged)
    while tiles * split % batch or tiles * split > SIMDGROUPS_EACH:
        tiles += 1 if tiles * split % batch and tiles * split < SIMDGROUPS_EACH else -1
    own = -(-steps // split)
    most = min(own, deepest, max(1, staged // split))
    depth = max(depth for depth in range(1, most + 1) if own % depth == 0)
    return Tiling(tiles, split, depth if depth > 2 or rounds > 1 else most, rounds)


def padded(batch: int) -> int:
    """Return the least number of vectors that the kernel is compiled for and that is not less than `batch`."""
    return next(size for size in SIZES if size >= batch)


class Configuration(NamedTuple):
    """How a kernel is launched.

    Attributes
    ----------
    grid, threads : tuple of 3 int
        The threadgroups, and the threads of each.
    template : dict
        The template parameters, by name, that the operands do not give.
    """

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: dict[str, int]


def tensor_configuration(product: Product, tiling: Tiling) -> Configuration:
    """Return the launch of the kernel of matrix instructions for 16-bit numbers.

    Raises
    ------
    ValueError
        The tiling does not fit the matrix.
    """
    batch = padded(product.batch)
    tiles, split, depth, rounds = tiling
    if tiles * split % batch or tiles * split > SIMDGROUPS_EACH:
        raise ValueError(f"qmv: {tiles} x {split} simdgroups do not fit {product.batch} vectors")
    staged = STAGED_STEPS // batch
    unit = split * depth
    phases = -(-product.steps // max(staged // unit * unit, 1))
    phase = -(-product.steps // (phases * unit)) * unit
    own = -(-product.steps // split)
    if phase > staged or (rounds > 1 and (split > 1 or own % depth or phase < product.steps)):
        raise ValueError(f"qmv: {tiling} does not fit {product.steps} steps of {product.batch} vectors")
    grid = (-(-product.tiles // (tiles * rounds)), 1, 1)
    template = {"BATCH": batch, "TILES": tiles, "SPLIT": split, "DEPTH": depth, "PHASE": phase, "REPEATED": rounds > 1}
    return Configuration(grid, (tiles * split * 32, 1, 1), template)
