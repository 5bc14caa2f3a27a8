"""Rings: how the kernel of integer matrix instructions shares out the rows and the width of a matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hiprt.kernels.tuning.tiling import PROCESSORS, TENSOR_ROWS, Shape, Tiles

__all__ = ["TEMPLATE", "Ring", "ring_of", "ring_plan", "shared_bytes"]

# What a kernel of rings has in its template, in the order of `ring_plan`.
TEMPLATE = ("TEAMS", "SPLIT", "DEPTH", "PER", "EARLY", "RESIDENT")
REGISTERS = 65536  # of a processor
MOST_SIMDGROUPS = 20  # of a threadgroup
DEEPEST = 6
MOST_TILES = 64  # whose sums are put together at once
SHARED_BYTES = 200 << 10  # of a processor
ALONE = 116 << 10  # bytes of which no processor has two


class Ring(NamedTuple):
    """How the kernel of integer matrix instructions shares out its work.

    Attributes
    ----------
    teams : int
        Of simdgroups, which take tiles of 8 rows in turn.
    split : int
        Simdgroups of a team, among which the steps of a row are divided.
    depth : int
        Steps that each simdgroup has on their way.
    per : int
        Tiles of a team before sums are put together.
    early : int
        Steps that are asked for before x is there.
    groups : int
        Threadgroups, among which the tiles are divided evenly.
    """

    teams: int
    split: int
    depth: int
    per: int
    early: int
    groups: int


# Matrices of 4 bits whose whole decode step on an H200 was 0.5 to 8 % faster with another ring than `cost` chooses, by
# rows and width; the last two, which no preset has, by themselves.
MEASURED = {
    (4096, 1024): Ring(2, 1, 4, 1, 4, 264),
    (6144, 1024): Ring(3, 2, 2, 1, 2, 264),
    (4096, 2048): Ring(2, 2, 4, 1, 4, 264),
    (5120, 2048): Ring(5, 2, 2, 1, 2, 132),
    (12288, 2048): Ring(4, 1, 4, 1, 2, 396),
    (6144, 2560): Ring(3, 5, 2, 2, 2, 132),
    (19456, 2560): Ring(5, 2, 5, 2, 2, 264),
    (1024, 3072): Ring(1, 12, 1, 1, 1, 128),
    (2560, 4096): Ring(1, 16, 3, 3, 1, 132),
    (24576, 4096): Ring(5, 4, 4, 3, 2, 132),
    (2560, 9728): Ring(2, 10, 4, 2, 2, 132),
    (4096, 12288): Ring(1, 16, 3, 4, 3, 132),
    (5120, 25600): Ring(1, 20, 5, 3, 5, 132),
    (25600, 5120): Ring(2, 7, 3, 4, 1, 264),
    (8192, 8192): Ring(1, 16, 2, 4, 1, 264),
}


def ring_of(shape: Shape) -> Ring | None:
    """Choose for an H200; None where integer matrix instructions do not serve."""
    if not takes_integers(shape):
        return None
    measured = MEASURED.get((shape.rows, shape.width)) if shape.bits == 4 and shape.group == 64 else None
    return measured or min(rings(shape), key=lambda ring: cost(shape, ring), default=None)


def rings(shape: Shape) -> Iterator[Ring]:
    """Go through rings of one threadgroup a processor that fit."""
    groups = min(PROCESSORS, shape.tiles)
    each = -(-shape.tiles // groups)
    for split in range(1, min(MOST_SIMDGROUPS, shape.steps) + 1):
        own = -(-shape.steps // split)
        for teams in range(1, min(each, MOST_SIMDGROUPS // split) + 1):
            turns = -(-each // teams)
            for depth in range(1, min(DEEPEST, own) + 1):
                if own % depth == 0 and teams * split * 32 * (48 + 8 * depth) <= REGISTERS:
                    per = min(turns, MOST_TILES // (teams * split))
                    form = shape.group, shape.bits, shape.width
                    while per and needed_bytes(*form, teams, split, per) > SHARED_BYTES:
                        per -= 1
                    for early in {max(1, depth // 2), depth} if per else ():
                        yield Ring(teams, split, depth, per, early, groups)


def cost(shape: Shape, ring: Ring) -> float:
    """Return what a ring loses, relative to others: fitted to 2,000 measurements of 29 matrices, of which it loses 3 %.

    What counts: steps that are not there, simdgroups without a tile, sums put together often, and how far simdgroups,
    steps on their way, and those before x, are from 16, 75 and 24 a processor.
    """
    groups = min(ring.groups, shape.tiles)
    own, turns = -(-shape.steps // ring.split), -(-shape.tiles // (groups * ring.teams))
    all_steps = math.log2(shape.tiles * shape.steps / groups)
    simdgroups = ring.teams * ring.split
    on_their_way = math.log2(simdgroups * min(ring.depth, turns * own))
    early = math.log2(simdgroups * min(ring.early, turns * own))
    return (
        8.9 * (own * ring.split / shape.steps - 1)
        + 0.28 * (turns * ring.teams * groups / shape.tiles - 1)
        + 0.24 / own
        + 0.036 * abs(on_their_way - min(all_steps, 6.24))
        + 0.039 * abs(early - min(all_steps, 4.58))
        + 0.075 * abs(math.log2(simdgroups) - 3.98)
    )


def takes_integers(shape: Shape) -> bool:
    """Whether tiles are whole, scales few enough for the columns, and those of a tile multiples of 16 bytes."""
    slots = max(2, 1024 // (shape.bits * shape.group))
    scales = shape.width // shape.group
    is_whole = scales * 2 * (4 if shape.is_gated else 8) % 16 == 0
    return shape.batch == 1 and shape.rows % TENSOR_ROWS == 0 and slots <= 4 and is_whole


def needed_bytes(group: int, bits: int, width: int, teams: int, split: int, per: int) -> int:
    """Return the bytes of scales of two rounds, and of x."""
    steps = width * bits // 1024
    return 4 * teams * per * 8 * (width // group) * 2 + -(-steps // split) * split * (512 if bits == 4 else 256)


def shared_bytes(template: Mapping[str, Any], is_spread: bool) -> int:
    """Return the bytes of dynamic shared memory of a kernel of rings.

    Spread: where a kernel has one threadgroup a processor, none gets two. Those of the kernel before end at different
    times, and the next one's would gather where it ended first.
    """
    needed = needed_bytes(*(template[name] for name in ("GROUP", "BITS", "WIDTH", "TEAMS", "SPLIT", "PER")))
    return max(needed, ALONE if is_spread and template["RESIDENT"] == 1 else 0)


def ring_plan(shape: Shape, ring: Ring) -> Tiles:
    """Return the launch of the kernel of integer matrix instructions."""
    own = -(-shape.steps // ring.split)
    fits = own % ring.depth == 0 or ring.depth % own == 0
    if (
        not takes_integers(shape)
        or not fits
        or ring.per % max(1, ring.depth // own)
        or not 0 <= ring.early <= ring.depth
    ):
        raise ValueError(f"qmv: {ring} does not fit {shape}")
    return Tiles(
        (min(ring.groups, shape.tiles), 1, 1),
        (ring.teams * ring.split * 32, 1, 1),
        (*ring[:-1], -(-ring.groups // PROCESSORS)),
    )
