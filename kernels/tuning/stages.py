"""Stages: how the kernel for several vectors shares out a matrix, whose codes come through threadgroup memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt.kernels.tuning.tiling import Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["TEMPLATE", "Stages", "shared_bytes", "stages", "stages_configuration", "stages_of"]

# The template parameters that the stages give to the kernel.
TEMPLATE = {"TEAMS": "int", "SPLIT": "int", "DEPTH": "int", "TURNS": "int"}
STEP = 256  # codes of a row that a simdgroup multiplies at a time
ROWS = 16  # of a tile
MOST_SIMDGROUPS = 24  # simdgroups of a threadgroup
DEEPEST = 6
SHARED_BYTES = 224 << 10  # bytes of threadgroup memory of a processor that a threadgroup may ask for


class Stages(NamedTuple):
    """How the kernel for several vectors shares out its work.

    Attributes
    ----------
    teams : int
        The teams of simdgroups in a threadgroup, each with a tile of 16 rows.
    split : int
        The simdgroups of a team, among which the steps of a row are divided.
    depth : int
        The steps that each simdgroup has on their way from memory.
    turns : int
        The tiles that a team takes one after another; more than one only where a team is one simdgroup.
    """

    teams: int
    split: int
    depth: int
    turns: int = 1


def stages_of(product: Product, is_normed: bool, target: Target) -> Stages | None:
    """Return the stages for a matrix; None where the kernel does not serve the matrix or the target."""
    if "bulk_copies" not in target.features or not takes_stages(product):
        return None
    measured = (
        target.table.stages.get((product.rows, product.width)) if product.bits == 4 and product.group == 64 else None
    )
    return measured or min(
        stages(product, is_normed),
        key=lambda found: cost_of(product, found, is_normed, target.compute_units),
        default=None,
    )


def takes_stages(product: Product) -> bool:
    """Whether the kernel serves a matrix: several vectors, codes of 4 bits, whole steps, an even share of gates."""
    return product.batch > 1 and product.bits == 4 and product.width % STEP == 0 and product.rows > 0


def tiles_of(product: Product) -> int:
    """Return the tiles of a matrix; a tile of a gated one has as many rows of each half."""
    return -(-product.rows // ROWS)


def stages(product: Product, is_normed: bool) -> Iterator[Stages]:
    """Yield the stages that fit a matrix."""
    steps = product.width // STEP
    for split in range(1, min(MOST_SIMDGROUPS, steps) + 1):
        for teams in range(1, MOST_SIMDGROUPS // split + 1):
            own = -(-steps // split)
            for turns in range(1, 13 if split == 1 else 2):
                for depth in range(1, min(DEEPEST, own * turns) + 1):
                    if needed_bytes(product.group, product.width, teams * split, depth, is_normed) <= SHARED_BYTES:
                        yield Stages(teams, split, depth, turns)


def cost_of(product: Product, found: Stages, is_normed: bool, processors: int) -> float:
    """Return the cost of stages for a matrix, to be compared with that of others."""
    own = -(-product.width // STEP // found.split)
    groups = -(-tiles_of(product) // (found.teams * found.turns))
    simdgroups = found.teams * found.split
    needed = needed_bytes(product.group, product.width, simdgroups, found.depth, is_normed)
    resident = SHARED_BYTES // needed
    resident = max(1, min(resident, 64 // simdgroups))
    waves = -(-groups // (processors * resident))
    each = -(-groups // processors)  # threadgroups of the busiest processor
    work = each * simdgroups * own * found.turns  # its steps
    in_flight = min(each, resident) * simdgroups * min(found.depth, own * found.turns)
    # Threadgroups that could share a processor gather on those that are free first.
    gathered = 10.0 if groups <= processors and resident > 1 else 0.0
    return gathered + work + 8.0 * max(0, 32 - in_flight) / 32 + 40.0 * (waves - 1) + 0.2 * abs(16 - simdgroups)


def needed_bytes(group: int, width: int, simdgroups: int, depth: int, is_normed: bool) -> int:
    """Return the bytes of threadgroup memory that x, its sums, a norm's weights and the stages need."""
    vectors = 8 * (width // 8 + (1 if group >= 64 else 4)) * 16 + (2 * width if is_normed else 0)
    return vectors + width // group * 32 + simdgroups * depth * (ROWS * STEP // 2 + 64 * STEP // group)


def shared_bytes(template: Mapping[str, Any], _: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of the kernel."""
    simdgroups = template["TEAMS"] * template["SPLIT"]
    return needed_bytes(template["GROUP"], template["WIDTH"], simdgroups, template["DEPTH"], template["NORMED"])


def stages_configuration(product: Product, found: Stages, is_normed: bool) -> Configuration:
    """Return the launch of the kernel.

    Raises
    ------
    ValueError
        The stages do not fit the matrix.
    """
    simdgroups = found.teams * found.split
    if (
        not takes_stages(product)
        or min(found) < 1
        or simdgroups > MOST_SIMDGROUPS
        or (found.turns > 1 and found.split > 1)
        or needed_bytes(product.group, product.width, simdgroups, found.depth, is_normed) > SHARED_BYTES
    ):
        raise ValueError(f"qmv: {found} does not fit {product}")
    groups = -(-tiles_of(product) // (found.teams * found.turns))
    return Configuration((groups, 1, 1), (simdgroups * 32, 1, 1), dict(zip(TEMPLATE, found)))
