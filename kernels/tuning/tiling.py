"""Tilings: how the kernels of a vector's product share out the rows and the width of a matrix."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Shape",
    "Tiles",
    "Tiling",
    "plain_plan",
    "tensor_plan",
    "tiling_of",
]

SIMDGROUPS = 4
ROWS = 4  # of a simdgroup
MOST_ROWS = 64  # of a plain loop on the CPU device
STRETCH_BYTES = 16384  # weights of one plain loop: a few microseconds
TENSOR_ROWS = 8  # of a simdgroup with matrix instructions
STAGED_STEPS = 64  # of one vector in 32 KiB of shared memory
PROCESSORS = 132
SIMDGROUPS_EACH = 16
LARGE = 12  # simdgroups of a threadgroup for a large matrix
DEPTH = 5
SIZES = (1, 2, 4, 8)


class Shape(NamedTuple):
    """What the choice of a kernel depends on.

    Attributes
    ----------
    rows, width : int
        Of the matrix.
    batch : int
    group, bits : int
    is_gated : bool
    """

    rows: int
    width: int
    batch: int
    group: int
    bits: int
    is_gated: bool

    @property
    def steps(self) -> int:
        """Stretches of a row that a simdgroup multiplies at a time with matrix instructions: 128 bytes each."""
        return self.width * self.bits // 1024

    @property
    def tiles(self) -> int:
        """How many simdgroups the rows take with matrix instructions."""
        return -(-self.rows // TENSOR_ROWS)


class Tiling(NamedTuple):
    """How the kernel of matrix instructions shares out its work.

    Attributes
    ----------
    tiles : int
        Simdgroups of a threadgroup with rows of their own, 8 each.
    split : int
        Simdgroups among which the width of one row is divided.
    depth : int
        Stretches of 128 bytes of a row that each simdgroup has in flight.
    rounds : int
        How often a simdgroup takes other 8 rows.
    """

    tiles: int
    split: int
    depth: int
    rounds: int = 1


def tiling_of(shape: Shape) -> Tiling:
    """Choose for an H200, by what was measured there.

    Small matrices: a threadgroup a processor, its rows' widths split among simdgroups. Larger ones: two a processor, in
    rounds where that leaves a simdgroup few steps; the largest: many small ones beside each other.
    """
    batch, steps = padded(shape.batch), shape.steps
    staged = STAGED_STEPS // batch
    is_whole = steps <= staged
    each = -(-shape.tiles // (2 * PROCESSORS))
    tiles, split, rounds, deepest = -(-shape.tiles // PROCESSORS), 1, 1, DEPTH
    if not is_whole:
        tiles, split, deepest = (min(3, tiles), 4, 1) if batch == 1 else (min(8, tiles), 2, 4)
    elif each > LARGE and shape.tiles > 48 * 2 * PROCESSORS and steps > DEPTH:
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
    """Return the number of vectors that a kernel is made for."""
    return next(size for size in SIZES if size >= batch)


class Tiles(NamedTuple):
    """A launch's grid and threads, and what the template does not get from the operands."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[int, ...]
    stretch: int = 0


def tensor_plan(shape: Shape, tiling: Tiling) -> Tiles:
    """Return the launch of the kernel of matrix instructions."""
    batch = padded(shape.batch)
    tiles, split, depth, rounds = tiling
    if tiles * split % batch or tiles * split > SIMDGROUPS_EACH:
        raise ValueError(f"qmv: {tiles} x {split} simdgroups do not fit {shape.batch} vectors")
    staged = STAGED_STEPS // batch
    unit = split * depth
    phases = -(-shape.steps // max(staged // unit * unit, 1))
    phase = -(-shape.steps // (phases * unit)) * unit
    own = -(-shape.steps // split)
    if phase > staged or (rounds > 1 and (split > 1 or own % depth or phase < shape.steps)):
        raise ValueError(f"qmv: {tiling} does not fit {shape.steps} steps of {shape.batch} vectors")
    grid = (-(-shape.tiles // (tiles * rounds)), 1, 1)
    return Tiles(grid, (tiles * split * 32, 1, 1), (batch, tiles, split, depth, phase, rounds > 1))


def plain_plan(shape: Shape, columns: int, loops: bool) -> Tiles:
    """Return the launch of the kernel that every target has."""
    if loops:
        rows = min(MOST_ROWS, max(2, STRETCH_BYTES * 8 // (shape.width * shape.bits)))
        stretch = rows // 2 if shape.is_gated else rows
        return Tiles((-(-columns // stretch), shape.batch, 1), (1, 1, 1), (1,), stretch)
    batch = min(shape.batch, 2)
    groups = -(-columns // (SIMDGROUPS * (ROWS // 2 if shape.is_gated else ROWS)))
    return Tiles((groups, -(-shape.batch // batch), 1), (SIMDGROUPS * 32, 1, 1), (batch,))
