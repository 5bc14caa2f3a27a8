"""Vector rings: how the kernel for several vectors, each with the bits that it has alone, shares out a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt.kernels.tuning.rings import ALONE, Ring, ring_of, takes_integers
from hiprt.kernels.tuning.tiling import Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["TEMPLATE", "VectorRing", "shared_bytes", "vector_ring_configuration", "vector_ring_of", "vector_rings"]

# The template parameters that a vector ring gives to the kernel.
TEMPLATE = {
    "TEAMS": "int",
    "SPLIT": "int",
    "DEPTH": "int",
    "PER": "int",
    "EARLY": "int",
    "HELPERS": "int",
    "SHARERS": "int",
    "PARTNERS": "int",
    "COPIES": "int",
    "VECTORS": "int",
    "ONE_ROUND": "bool",
}
MOST_VECTORS = 8
SIMDGROUPS = 16  # simdgroups with tiles at which a processor runs at full speed
FILLED = 20  # simdgroups of a threadgroup where more than half of them have tiles
MOST_SIMDGROUPS = 24
MOST_PAIRS = 10  # pairs of tiles of a round
SHARED_BYTES = (227 << 10) - 128  # bytes of threadgroup memory of a processor, but for a line of barriers and factors
SHARERS = (1, 2, 4)  # processors that may divide the steps of a row
PARTNERS = (1, 2, 4)  # that may divide the vectors
MOST_IN_CLUSTER = 8  # processors of a cluster on every GPU that has clusters
STAGE = 16 * 128  # bytes of a step of two tiles
DEEPEST = 3  # steps of a simdgroup on their way
LONG = 60000  # numbers of x from which on two of them are faster


class VectorRing(NamedTuple):
    """How the kernel for several vectors with the bits of one shares out its work.

    Attributes
    ----------
    alone : Ring
        The ring of one vector, whose order of sums is kept: so many simdgroups share a row here too.
    teams : int
        The teams of simdgroups in a threadgroup, which take two tiles of 8 rows in turn.
    depth : int
        The steps of two tiles that each simdgroup has on their way from memory.
    per : int
        The pairs of tiles of a team before sums are put together.
    early : int
        The steps that are asked for before x is there.
    helpers : int
        Further simdgroups, which bring x only.
    groups : int
        The threadgroups, among which the tiles are divided evenly.
    sharers : int
        The neighbouring threadgroups that have their tiles in common and divide the steps of a row.
    partners : int
        The threadgroups, or groups of sharers, that have tiles of their own and divide the vectors that they bring to
        16 bits; each has some.
    copies : int
        1 if x comes to threadgroup memory by bulk copies, all at once, and is brought to 16 bits there; 0 if each
        simdgroup brings a few steps of it at a time in registers.
    """

    alone: Ring
    teams: int
    depth: int
    per: int
    early: int
    helpers: int
    groups: int
    sharers: int = 1
    partners: int = 1
    copies: int = 0


def vector_ring_of(product: Product, target: Target, is_normed: bool = True) -> VectorRing | None:
    """Return a vector ring for a matrix.

    None where one vector has no ring, where so many vectors have no room, or where they are faster by other kernels.
    """
    if not 2 <= product.batch <= target.table.ring_vectors:
        return None
    alone = ring_of(product._replace(batch=1), target, is_normed)
    if alone is None:
        return None
    is_usual = product.bits == 4 and product.group == 64
    measured = target.table.vector_rings.get((product.rows, product.width, product.batch)) if is_usual else None
    found = vector_rings(product, alone, target.compute_units)
    return measured or min(found, key=lambda ring: cost_of(product, ring), default=None)


def vector_rings(product: Product, alone: Ring, compute_units: int) -> Iterator[VectorRing]:
    """Yield the vector rings that fit a matrix with one threadgroup on each processor, for a ring of one vector."""
    own = -(-product.steps // alone.split)
    for sharers in (
        count for count in SHARERS if alone.split % count == 0 and divides_scales(product, alone.split, count)
    ):
        # Clusters of four leave some processors of their part of a GPU over; 30 fit one of 132.
        whole = compute_units if sharers < 4 else compute_units * 10 // 11
        groups = min(whole, product.tiles) // sharers * sharers
        if not groups:
            continue
        pairs, split = pairs_of(product, groups // sharers), alone.split // sharers
        # x waits for codes that are asked for before it, which pays where they are over four times its bytes.
        early = int(product.rows * product.bits // 8 >= 4 * product.batch * 2 * groups)
        for teams in range(1, min(pairs, MOST_SIMDGROUPS // split) + 1):
            with_tiles = teams * split
            all_simdgroups = FILLED if FILLED // 2 <= with_tiles < SIMDGROUPS else SIMDGROUPS
            helpers = max(0, all_simdgroups - with_tiles)
            for depth in range(1, min(DEEPEST, own * -(-pairs // teams)) + 1):
                per = min(-(-pairs // teams), max(1, MOST_PAIRS // teams))
                while per and needed_bytes(product, alone.split, teams, depth, per, sharers) > SHARED_BYTES:
                    per -= 1
                if per:
                    yield VectorRing(alone, teams, depth, per, early, helpers, groups, sharers)


def pairs_of(product: Product, stretches: int) -> int:
    """Return the pairs of tiles of the stretch that has the most."""
    tiles = -(-product.tiles // stretches)
    return -(-tiles // 2)


def cost_of(product: Product, ring: VectorRing) -> float:
    """Return the cost of a vector ring, to be compared with that of others.

    The weights follow 350 timings of 13 matrices with 5 and 8 vectors on an H200 and on an H100 (2026-11-26), those of
    the depth and of sharers 750 timings of 17 matrices with 4 and 8 vectors on H100s (2026-11-27).
    """
    pairs = pairs_of(product, ring.groups // ring.sharers)
    simdgroups = ring.teams * ring.alone.split // ring.sharers
    idle = -(-pairs // ring.teams) * ring.teams / pairs - 1
    shared = (ring.sharers - 1) * (1 - product.batch * product.width / LONG) if ring.sharers < 4 else 2.0
    return 0.4 * idle + abs(SIMDGROUPS - simdgroups) / 20 + 0.15 / ring.depth + shared


def needed_bytes(product: Product, split: int, teams: int, depth: int, per: int, sharers: int = 1) -> int:
    """Return the bytes of threadgroup memory for x, codes, their scales, the sums of x and of rows, and squares.

    Scales and sums of rows are those of two rounds, also where the kernel has one: with that of one, 4 texts of 4B
    take 4 % longer on an H200 (docs/tried.md, Rings).
    """
    step = 512 if product.bits == 4 else 256  # bytes of x
    slots = max(2, 1024 // (product.bits * product.group))
    here = product.steps if sharers == 1 else -(-product.steps // split) * split // sharers  # steps of a threadgroup
    return (
        -(-product.batch * (here * step + 64) // 128) * 128
        + teams * split // sharers * depth * STAGE
        + scale_bytes(product, split, teams, per, sharers)
        + here * slots * (8 if product.batch > 4 else product.batch) * 8
        + 2 * 2 * teams * per * (split * -(-product.batch // sharers) * 8 + 4) * 4
        + product.batch * product.steps * 4
    )


def scale_bytes(product: Product, split: int, teams: int, per: int, sharers: int = 1) -> int:
    """Return the bytes of threadgroup memory for the scales and biases of two rounds.

    Sharers have those of their own steps.
    """
    row = product.width // product.group * 2
    if sharers > 1:
        run = run_bytes(product, split, sharers)
        row = -(-product.steps // split) * (run + run % 16)
    if row % 64 == 0:  # rows lie apart in the banks
        row += 16
    return 2 * 2 * (2 * teams * per * 8) * row


def run_bytes(product: Product, split: int, sharers: int) -> int:
    """Return the bytes of scales of a row that a sharer has in one piece."""
    return split // sharers * (1024 // (product.bits * product.group)) * 2


def divides_scales(product: Product, split: int, sharers: int) -> bool:
    """Whether a sharer's scales of a row can be copied by pieces of 16 bytes, of which they may begin in the middle."""
    row, run = product.width // product.group * 2, run_bytes(product, split, sharers)
    return sharers == 1 or (row % 16 == 0 and run % 8 == 0 and run * sharers % 16 == 0)


def shared_bytes(template: Mapping[str, Any], target: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of the kernel.

    On GPUs these are over half of a processor's, for the reason that `hiprt.kernels.tuning.rings.shared_bytes` has.
    Other targets read scales from where they are.
    """
    product = Product(0, template["WIDTH"], template["VECTORS"], template["GROUP"], template["BITS"], template["GATED"])
    needed = needed_bytes(product, *(template[name] for name in ("SPLIT", "TEAMS", "DEPTH", "PER", "SHARERS")))
    if "matrix" in target.features:
        return max(needed, ALONE)
    return needed - scale_bytes(product, *(template[name] for name in ("SPLIT", "TEAMS", "PER", "SHARERS")))


def vector_ring_configuration(product: Product, ring: VectorRing) -> Configuration:
    """Return the launch of the kernel, ONE_ROUND of which is as in `hiprt.kernels.tuning.rings.ring_configuration`.

    Raises
    ------
    ValueError
        The vector ring does not fit the matrix.
    """
    alone, simdgroups = ring.alone, ring.teams * ring.alone.split // ring.sharers + ring.helpers
    in_cluster = ring.sharers * ring.partners
    if (
        not takes_integers(product._replace(batch=1))
        or not 2 <= product.batch <= MOST_VECTORS
        or not 0 <= ring.early <= ring.depth
        or min(ring.teams, ring.depth, ring.per) < 1
        or simdgroups > MOST_SIMDGROUPS
        or ring.sharers not in SHARERS
        or alone.split % ring.sharers
        or not divides_scales(product, alone.split, ring.sharers)
        or ring.partners not in PARTNERS
        or ring.copies not in (0, 1)
        or (ring.partners - 1) * -(-product.batch // ring.partners) >= product.batch
        or in_cluster > MOST_IN_CLUSTER
        or min(ring.groups, product.tiles) < in_cluster
        or needed_bytes(product, alone.split, ring.teams, ring.depth, ring.per, ring.sharers) > SHARED_BYTES
    ):
        raise ValueError(f"qmv: {ring} does not fit {product}")
    shared = ring.teams, alone.split, ring.depth, ring.per, ring.early, ring.helpers, ring.sharers, ring.partners
    groups = min(ring.groups, product.tiles) // in_cluster * in_cluster
    is_one_round = pairs_of(product, groups // ring.sharers) <= ring.teams * ring.per
    template = dict(zip(TEMPLATE, (*shared, ring.copies, product.batch, is_one_round)))
    return Configuration((groups, 1, 1), (simdgroups * 32, 1, 1), template)
