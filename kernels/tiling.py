"""Tilings: how the kernels of a vector's product share out the rows and the width of a matrix."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "Shape",
    "Staging",
    "Tiling",
    "plain_plan",
    "shared_bytes",
    "staging_of",
    "staging_plan",
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
MOST_STAGED = 9  # tiles of a threadgroup
LEAST_STREAMED = 64
STAGE_BYTES = 46 << 10  # of one tile
RING_BYTES = 148 << 10  # of a threadgroup's stages
# Of a kernel that asks for more than LITTLE, no processor gets two threadgroups: those of the kernel before end at
# different times, and the next one's would gather where it ended first. Of small ones there are few, soon done.
LITTLE, ALONE = 40 << 10, 116 << 10
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


class Staging(NamedTuple):
    """How the kernel of integer matrix instructions shares out its work.

    Attributes
    ----------
    teams : int
        Of simdgroups, which take stages in turn.
    split : int
        Simdgroups of a team, among which the steps of a row are divided.
    depth : int
        Stages of a team that are on their way, or there.
    per : int
        How many stages a team goes through before sums are put together.
    abreast : int
        Tiles of 8 rows of a stage: 1 or 2.
    groups : int
        Threadgroups, among which the rows are divided evenly.
    """

    teams: int
    split: int
    depth: int
    per: int
    abreast: int
    groups: int = PROCESSORS


def staging_of(shape: Shape) -> Staging | None:
    """Choose for an H200, by what was measured there; None where the other kernel was faster.

    This one wins where a good part of a threadgroup's few tiles is there before x is, and for very large matrices of
    long rows; between them, where all threadgroups stream, the other.
    """
    groups = min(PROCESSORS, shape.tiles)
    each = -(-shape.tiles // groups)
    if shape.batch != 1 or not is_staged(shape) or stage_bytes(shape, 1) > STAGE_BYTES:
        return None
    split = split_of(shape.steps)
    for abreast in (2, 1) if each > 1 else (1,):
        teams = max(1, min(12 // split, -(-each // abreast)))
        turns = -(-each // (teams * abreast))
        depth = min(turns, RING_BYTES // (teams * stage_bytes(shape, abreast)))
        is_there = each <= MOST_STAGED and 3 * teams * depth * abreast > 2 * each
        if depth >= min(2, turns) and (is_there or (each >= LEAST_STREAMED and shape.width >= 4096)):
            per = max(1, min(turns, 64 // (split * teams * abreast)))
            return Staging(teams, split, depth, per, abreast, groups)
    return None


def split_of(steps: int) -> int:
    """Return among how many simdgroups a row's steps are divided: evenly, if that leaves enough of them."""
    if steps <= SIMDGROUPS_EACH:
        return steps
    even = [split for split in range(8, 14) if steps % split == 0]
    return max(even) if even else -(-steps // -(-steps // 13))


def is_staged(shape: Shape) -> bool:
    """Whether tiles are whole, scales few enough for the columns, and rows what bulk copies take: 16 bytes each."""
    slots = max(2, 1024 // (shape.bits * shape.group))
    scales = shape.width // shape.group
    return shape.rows % TENSOR_ROWS == 0 and slots <= 4 and scales * 2 * (4 if shape.is_gated else 8) % 16 == 0


def stage_bytes(shape: Shape, abreast: int) -> int:
    """Return the bytes of a stage: codes, 64 bytes between rows, scales and biases."""
    return abreast * 8 * (shape.width * shape.bits // 8 + 64 + 4 * (shape.width // shape.group))


def shared_bytes(template: tuple[int, ...]) -> int:
    """Return the dynamic shared memory of the kernel of integer matrix instructions: stages, and parts of x."""
    group, bits, width, teams, split, depth, _, abreast = template
    shape = Shape(0, width, 1, group, bits, False)
    held = -(-shape.steps // split) * (512 if bits == 4 else 256)
    needed = teams * (depth * stage_bytes(shape, abreast) + split * held)
    return max(needed, ALONE) if needed > LITTLE else needed


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


def staging_plan(shape: Shape, staging: Staging) -> Tiles:
    """Return the launch of the kernel of integer matrix instructions."""
    teams, split, depth, per, abreast, groups = staging
    if shape.batch != 1 or not is_staged(shape) or teams * split > SIMDGROUPS_EACH or not 0 < abreast < 3 or depth < 1:
        raise ValueError(f"qmv: {staging} does not fit {shape}")
    return Tiles((groups, 1, 1), (teams * split * 32, 1, 1), (teams, split, depth, per, abreast))


def plain_plan(shape: Shape, columns: int, loops: bool) -> Tiles:
    """Return the launch of the kernel that every target has."""
    if loops:
        rows = min(MOST_ROWS, max(2, STRETCH_BYTES * 8 // (shape.width * shape.bits)))
        stretch = rows // 2 if shape.is_gated else rows
        return Tiles((-(-columns // stretch), shape.batch, 1), (1, 1, 1), (1,), stretch)
    batch = min(shape.batch, 2)
    groups = -(-columns // (SIMDGROUPS * (ROWS // 2 if shape.is_gated else ROWS)))
    return Tiles((groups, -(-shape.batch // batch), 1), (SIMDGROUPS * 32, 1, 1), (batch,))
