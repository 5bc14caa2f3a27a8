"""Rings: how the kernels of integer matrix instructions share out the rows and the width of a matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt.kernels.tuning.tiling import TENSOR_ROWS, Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["TEMPLATE", "Ring", "RingCost", "ring_configuration", "ring_of", "rings", "routed_ring_of", "shared_bytes"]

# The template parameters that a ring gives to the kernels.
TEMPLATE = {
    "TEAMS": "int",
    "SPLIT": "int",
    "DEPTH": "int",
    "PER": "int",
    "EARLY": "int",
    "RESIDENT": "int",
    "ONE_ROUND": "bool",
}
REGISTERS = 65536  # registers of a processor
MOST_SIMDGROUPS = 20  # simdgroups of a threadgroup, as of the rings whose timings the cost was fitted to
DEEPEST = 6
ROUTED_SHARE = 8  # one of so many threadgroups is a router
MOST_TILES = 64  # tiles whose sums are put together at once
SHARED_BYTES = 200 << 10  # bytes of threadgroup memory of a processor
ALONE = 116 << 10  # bytes that a processor does not have twice, so that it takes one threadgroup


class Ring(NamedTuple):
    """How a kernel of integer matrix instructions shares out its work.

    Attributes
    ----------
    teams : int
        The teams of simdgroups in a threadgroup, which take tiles of 8 rows in turn.
    split : int
        The simdgroups of a team, among which the steps of a row are divided.
    depth : int
        The steps that each simdgroup has on their way from memory.
    per : int
        The tiles of a team before sums are put together.
    early : int
        The steps that are loaded before x is there.
    groups : int
        The threadgroups, among which the tiles are divided evenly.
    """

    teams: int
    split: int
    depth: int
    per: int
    early: int
    groups: int


@dataclass(frozen=True)
class RingCost:
    """What a ring loses, as a sum of weighted terms; the defaults are the fit for an H200.

    They were fitted to 2,000 timings of 29 matrices on an H200 (2026-11-22), where the ring of the least cost loses 3 %
    to the best one.

    Attributes
    ----------
    missing_steps : float
        The weight of the share of steps that the split adds beyond the matrix.
    idle_teams : float
        The weight of the share of turns in which a team has no tile.
    sums : float
        The weight of how often sums are put together.
    in_flight, early, simdgroups : float
        The weights of the distances, in powers of two, from the best number of steps in flight, of steps before x, and
        of simdgroups of a processor.
    best_in_flight, best_early, best_simdgroups : float
        The logarithms to base 2 of these numbers: 75, 24 and 16.
    """

    missing_steps: float = 8.9
    idle_teams: float = 0.28
    sums: float = 0.24
    in_flight: float = 0.036
    early: float = 0.039
    simdgroups: float = 0.075
    best_in_flight: float = 6.24
    best_early: float = 4.58
    best_simdgroups: float = 3.98

    def of(self, product: Product, ring: Ring) -> float:
        """Return the cost of a ring for a matrix, to be compared with that of others."""
        groups = min(ring.groups, product.tiles)
        own, turns = -(-product.steps // ring.split), -(-product.tiles // (groups * ring.teams))
        all_steps = math.log2(product.tiles * product.steps / groups)
        simdgroups = ring.teams * ring.split
        in_flight = math.log2(simdgroups * min(ring.depth, turns * own))
        early = math.log2(simdgroups * min(ring.early, turns * own))
        return (
            self.missing_steps * (own * ring.split / product.steps - 1)
            + self.idle_teams * (turns * ring.teams * groups / product.tiles - 1)
            + self.sums / own
            + self.in_flight * abs(in_flight - min(all_steps, self.best_in_flight))
            + self.early * abs(early - min(all_steps, self.best_early))
            + self.simdgroups * abs(math.log2(simdgroups) - self.best_simdgroups)
        )


def ring_of(product: Product, target: Target, is_normed: bool = True) -> Ring | None:
    """Return a ring for a matrix; None where integer matrix instructions do not serve the matrix or the target.

    Parameters
    ----------
    product : Product
    target : Target
    is_normed : bool
        Whether the vector is normed first.
    """
    if "bulk_copies" not in target.features or not takes_integers(product):
        return None
    measured = None
    if product.bits == 4 and product.group == 64:
        table, size = target.table, (product.rows, product.width)
        measured = (None if is_normed else table.plain_rings.get(size)) or table.rings.get(size)
    return measured or min(
        rings(product, target.compute_units), key=lambda ring: target.table.ring_cost.of(product, ring), default=None
    )


def routed_ring_of(product: Product, target: Target, has_logits: bool = False) -> tuple[Ring, int] | None:
    """Return a ring for the experts that a kernel chooses by its own router, and how many of its threadgroups are that.

    None where the kernel does not serve the matrices or the target. A team takes two tiles, and asks for all steps of
    the first at once: nothing could be asked for before the choice. With `has_logits` the kernel before has left the
    logits, and no threadgroup is a router.
    """
    if "bulk_copies" not in target.features or not takes_integers(product):
        return None
    size, is_usual = (product.rows, product.width), product.bits == 4 and product.group == 64
    if has_logits and is_usual and size in target.table.routed_rings:
        return target.table.routed_rings[size], 0
    routers = 0 if has_logits else max(1, target.compute_units // ROUTED_SHARE)
    each = -(-product.tiles // max(1, target.compute_units - routers))
    split = min(2, product.steps)
    teams = min(-(-each // 2), MOST_SIMDGROUPS // split)
    own = -(-product.steps // split)
    depth = max(size for size in range(1, DEEPEST + 1) if own % size == 0)
    return Ring(teams, split, depth, 2, 0, target.compute_units), routers


def rings(product: Product, compute_units: int) -> Iterator[Ring]:
    """Yield the rings that fit a matrix with one threadgroup on each processor."""
    groups = min(compute_units, product.tiles)
    each = -(-product.tiles // groups)
    for split in range(1, min(MOST_SIMDGROUPS, product.steps) + 1):
        own = -(-product.steps // split)
        for teams in range(1, min(each, MOST_SIMDGROUPS // split) + 1):
            turns = -(-each // teams)
            for depth in range(1, min(DEEPEST, own) + 1):
                if own % depth == 0 and registers_of(teams, split, depth) <= REGISTERS:
                    per = min(turns, MOST_TILES // (teams * split))
                    form = product.group, product.bits, product.width
                    while per and needed_bytes(*form, teams, split, per) > SHARED_BYTES:
                        per -= 1
                    for early in {max(1, depth // 2), depth} if per else ():
                        yield Ring(teams, split, depth, per, early, groups)


def takes_integers(product: Product) -> bool:
    """Whether tiles are whole, the columns have room for the scales, and a tile's scales are multiples of 16 bytes."""
    slots = max(2, 1024 // (product.bits * product.group))
    scales = product.width // product.group
    is_whole = scales * 2 * (4 if product.is_gated else 8) % 16 == 0
    return product.batch == 1 and product.tiles > 0 and product.rows % TENSOR_ROWS == 0 and slots <= 4 and is_whole


def registers_of(teams: int, split: int, depth: int) -> int:
    """Return the registers that a threadgroup may need."""
    return teams * split * 32 * (48 + 8 * depth)


def needed_bytes(group: int, bits: int, width: int, teams: int, split: int, per: int) -> int:
    """Return the bytes of threadgroup memory for x and the scales of two rounds, also where the kernel has but one."""
    steps = width * bits // 1024
    row = width // group * 2
    row += 16 if row % 64 == 0 else 0  # so that lanes find several rows in different banks
    return 4 * teams * per * 8 * row + -(-steps // split) * split * (544 if bits == 4 else 272)


def shared_bytes(template: Mapping[str, Any], target: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of a kernel of rings.

    A kernel that is meant to have one threadgroup on each processor asks for over half of the memory. Otherwise, since
    the threadgroups of the kernel before end at different times, several would gather on the processors that are free
    first.
    """
    needed = needed_bytes(*(template[name] for name in ("GROUP", "BITS", "WIDTH", "TEAMS", "SPLIT", "PER")))
    is_alone = "matrix" in target.features and template["RESIDENT"] == 1
    return max(needed, ALONE if is_alone else 0)


def ring_configuration(
    product: Product, ring: Ring, target: Target, tokens: int = 1, routers: int = 0
) -> Configuration:
    """Return the launch of a kernel of rings, of whose threadgroups the first `routers` have no tiles.

    Several tokens with experts of their own have as many threadgroups together as one has. Each then has more tiles, of
    which more go before sums are put together. A kernel whose sums are all put together at once (ONE_ROUND) is compiled
    without what further rounds need, a sixth of its instructions or more.

    Raises
    ------
    ValueError
        The ring does not fit the matrix.
    """
    own = -(-product.steps // ring.split)
    fits, at_once = own % ring.depth == 0 or ring.depth % own == 0, max(1, ring.depth // own)
    if not takes_integers(product) or not fits or ring.per % at_once or not 0 <= ring.early <= ring.depth:
        raise ValueError(f"qmv: {ring} does not fit {product}")
    resident = -(-ring.groups // target.compute_units) if "matrix" in target.features else 1
    groups = max(1, min((ring.groups - routers) // tokens, product.tiles))
    turns = -(-product.tiles // (groups * ring.teams))
    form = product.group, product.bits, product.width, ring.teams, ring.split
    while (
        tokens > 1
        and 2 * ring.per <= min(turns, MOST_TILES // (ring.teams * ring.split))
        and needed_bytes(*form, 2 * ring.per) * resident <= SHARED_BYTES
    ):
        ring = ring._replace(per=2 * ring.per)
    ring = ring._replace(per=min(ring.per, -(-turns // at_once) * at_once))
    return Configuration(
        (routers + groups, tokens, 1),
        (ring.teams * ring.split * 32, 1, 1),
        dict(zip(TEMPLATE, (*ring[:-1], resident, turns <= ring.per))),
    )
