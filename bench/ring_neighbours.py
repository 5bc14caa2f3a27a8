"""Which rings are near one: those of one vector with the same bits, and vector rings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product as product_of
from typing import TypeAlias

from hiprt.kernels.tuning.rings import (
    DEEPEST as DEEPEST_OF_ONE,
    REGISTERS,
    SHARED_BYTES,
    Ring,
    needed_bytes,
    registers_of,
    ring_configuration,
)
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.kernels.tuning.vector_rings import (
    MOST_SIMDGROUPS,
    PARTNERS,
    SHARERS,
    VectorRing,
    vector_ring_configuration,
)

__all__ = ["AnyRing", "configuration_of", "launch_of", "neighbours"]

AnyRing: TypeAlias = Ring | VectorRing

MOST_SIMDGROUPS_OF_ONE = 24  # of one vector; the rules go up to 20, and the fastest may have more
DEEPEST = 4  # steps of a simdgroup on their way, of several vectors
FILLED = (12, 16, 20, MOST_SIMDGROUPS)  # simdgroups of a threadgroup that helpers make up for
CLUSTERED = {4: (10, 11), 8: (28, 33)}  # the part of a GPU's processors that clusters of so many find room on
LEFT = (0, 2, 4, 8, 12, 16, 20)  # processors that are left to the kernels before and behind
RESIDENT = (1, 2, 3)  # threadgroups of one vector for each processor


def neighbours(
    ring: AnyRing, product: Product, target: Target, may_be_early: bool = True, tokens: int = 1
) -> list[AnyRing]:
    """Return the rings near one that fit a product and give it the same bits, each with a launch of its own.

    Parameters
    ----------
    ring : Ring or VectorRing
    product : Product
    target : Target
    may_be_early : bool
        Whether codes can be asked for before the inputs are there.
    tokens : int
        How many tokens a ring of one vector serves, each with matrices of its own.
    """
    near = of_one(ring, product, target) if isinstance(ring, Ring) else of_several(ring, target.compute_units)
    every: list[AnyRing] = [each for each in near if may_be_early or not each.early]
    found = {launch_of(each, product, target, tokens): each for each in reversed(every)}
    known = None, launch_of(ring, product, target, tokens)
    return [each for launch, each in reversed(found.items()) if launch not in known]


def configuration_of(ring: AnyRing, product: Product, target: Target, tokens: int = 1) -> Configuration:
    """Return the launch of a product with a ring, for `tokens` as `neighbours` has them.

    Raises
    ------
    ValueError
        The ring does not fit the product.
    """
    if isinstance(ring, Ring):
        return ring_configuration(product, ring, target, tokens)
    return vector_ring_configuration(product, ring)


def launch_of(ring: AnyRing, product: Product, target: Target, tokens: int = 1) -> tuple[int, ...] | None:
    """Return what tells a ring's launch from those of others; None where the ring does not fit the product."""
    try:
        configuration = configuration_of(ring, product, target, tokens)
    except ValueError:
        return None
    return configuration.grid[0], *configuration.template.values()


def of_one(ring: Ring, product: Product, target: Target) -> Iterator[Ring]:
    """Yield rings of one vector near one, whose split stays: sums are of the simdgroups that share a row."""
    for each in (*other_turns(ring, product), *other_moments(ring, product), *other_groups(ring, product, target)):
        resident = -(-each.groups // target.compute_units)
        registers = registers_of(each.teams, each.split, each.depth)
        shared = needed_bytes(product.group, product.bits, product.width, each.teams, each.split, each.per)
        has_room = registers * resident <= REGISTERS and shared * resident <= SHARED_BYTES
        if has_room and each.teams * each.split <= MOST_SIMDGROUPS_OF_ONE:
            yield each


def depths_of(ring: Ring, product: Product) -> list[int]:
    """Return how many steps a simdgroup may have on their way: parts of its steps of a tile, or whole tiles."""
    own = -(-product.steps // ring.split)
    return [depth for depth in range(1, DEEPEST_OF_ONE + 1) if own % depth == 0 or depth % own == 0]


def other_turns(ring: Ring, product: Product) -> Iterator[Ring]:
    """Yield rings with up to three teams more or less and other depths, which put sums together sooner or later."""
    own = -(-product.steps // ring.split)
    for teams, depth in product_of(range(max(1, ring.teams - 3), ring.teams + 4), depths_of(ring, product)):
        at_once = max(1, depth // own)
        turns = -(-product.tiles // (min(ring.groups, product.tiles) * teams))
        for per in sorted({at_once, 2 * at_once, -(-turns // at_once) * at_once}):
            yield ring._replace(teams=teams, depth=depth, per=per, early=min(ring.early, depth))


def other_moments(ring: Ring, product: Product) -> Iterator[Ring]:
    """Yield rings that ask for codes at other moments."""
    own = -(-product.steps // ring.split)
    for depth in depths_of(ring, product):
        at_once = max(1, depth // own)
        for early in range(depth + 1):
            yield ring._replace(depth=depth, early=early, per=-(-ring.per // at_once) * at_once)


def other_groups(ring: Ring, product: Product, target: Target) -> Iterator[Ring]:
    """Yield rings of other threadgroups: some processors are left free, or each has several."""
    for left in LEFT:
        yield ring._replace(groups=max(1, target.compute_units - left))
    for resident, teams in product_of(RESIDENT, range(1, ring.teams + 2)):
        for each in other_moments(ring._replace(groups=resident * target.compute_units, teams=teams), product):
            if each.early in (0, min(ring.early, each.depth)):
                yield each


def of_several(ring: VectorRing, processors: int) -> Iterator[VectorRing]:
    """Yield vector rings near one."""
    yield from other_teams(ring)
    yield from other_depths(ring)
    for left in LEFT:
        yield ring._replace(groups=processors - left)
    yield from other_clusters(ring, processors)
    yield ring._replace(copies=1 - ring.copies)


def helpers_of(ring: VectorRing) -> list[int]:
    """Return how many helpers a ring may have: none, and those that make up a number of simdgroups."""
    with_tiles = ring.teams * ring.alone.split // ring.sharers
    return sorted({0, *(max(0, count - with_tiles) for count in FILLED)})


def other_teams(ring: VectorRing) -> Iterator[VectorRing]:
    """Yield rings with up to three teams more or less, and up to two other numbers besides, or three without."""
    for teams in range(max(1, ring.teams - 3), ring.teams + 4):
        depths = {ring.depth, max(1, ring.depth - 1)}
        if teams <= ring.teams + 1:  # more of them have no room for further steps
            depths.add(min(DEEPEST, ring.depth + 1))
        pers = sorted({1, 2, ring.per})
        for helpers, per, depth in product_of(helpers_of(ring._replace(teams=teams)), pers, sorted(depths)):
            stay = teams == ring.teams, helpers == ring.helpers, per == ring.per, depth == ring.depth
            if any(stay):
                early = min(ring.early, depth)
                yield ring._replace(teams=teams, helpers=helpers, per=per, depth=depth, early=early)


def other_depths(ring: VectorRing) -> Iterator[VectorRing]:
    """Yield rings that ask for codes at other moments."""
    for depth in range(1, DEEPEST + 1):
        for early in range(depth + 1):
            yield ring._replace(depth=depth, early=early)


def other_clusters(ring: VectorRing, processors: int) -> Iterator[VectorRing]:
    """Yield rings whose threadgroups share rows, or divide the vectors, in other ways."""
    for sharers, partners in product_of(SHARERS, PARTNERS):
        if ring.alone.split % sharers:
            continue
        split = ring.alone.split // sharers
        part, whole = CLUSTERED.get(sharers * partners, (1, 1))
        most = processors * part // whole
        counts = dict.fromkeys((most, min(most, processors - 8)))
        teams_of = sorted({ring.teams, *(max(1, count // split) for count in (8, 12, 16, 20))})
        for groups, teams, depth in product_of(counts, teams_of, range(1, DEEPEST)):
            filled = 20 if teams * split < 16 else 16
            each = ring._replace(
                sharers=sharers, partners=partners, groups=groups, teams=teams, depth=depth, per=1 if teams > 2 else 2
            )
            for early, helpers in product_of((0, depth), sorted({0, max(0, filled - teams * split)})):
                yield each._replace(early=early, helpers=helpers)
