"""Wgmma tiles: how the kernel of Hopper's matrix instructions shares out a quantised product of many rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt.kernels.ops.arrivals import COUNTERS
from hiprt.kernels.tuning.tiling import Configuration, Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = [
    "MOST_MATRICES",
    "TEMPLATE",
    "WgmmaTiles",
    "gathered_configuration",
    "gathered_tiles_of",
    "most_run_tiles",
    "resident_of",
    "shared_bytes",
    "tiles_of",
    "wgmma_configuration",
    "wgmma_tiles",
    "wgmma_tiles_of",
]

# The template parameters that the tiles give to the kernel.
TEMPLATE = {"ROWS": "int", "SPLIT": "int", "STAGES": "int"}
THREADS = 256
LOCALS = 128  # rows of the matrix that a threadgroup takes
STEP = 64  # codes of a row that it multiplies at a time; it takes two steps in turn
SPLITS = (1, 2, 3, 4, 6)
MOST_MATRICES = 1024  # of a stack
LARGEST = 2**35  # elements of a matrix, whose pieces of 16 bytes have numbers of 32 bits


class WgmmaTiles(NamedTuple):
    """How the kernel shares out its work.

    Attributes
    ----------
    rows : int
        The rows of x of a tile: 64, 128 or 256.
    split : int
        The threadgroups that share the width of a tile.
    """

    rows: int
    split: int = 1


class StepTime(NamedTuple):
    """The microseconds of a step, by one threadgroup on a processor and by as many as it holds."""

    alone: float
    together: float


# Measured on an H100 on 2026-11-27 with four matrices of a model and 128 to 4,096 rows.
STEP_TIMES = {256: StepTime(0.75, 0.75), 128: StepTime(0.6, 1.05), 64: StepTime(0.6, 0.75)}
# Where rows choose their matrices, the microseconds of a processor for each step of a tile, likewise.
GATHERED_TIMES = {256: 0.75, 128: 0.525, 64: 0.375, 32: 0.26}
STARTED, FINISHED = 3.0, 2.0  # microseconds of a launch, and of the end of a tile
SHARED_SUMS = 3.0  # for each of the threadgroups that share a tile, where a processor holds 256 rows of tiles


def wgmma_tiles_of(product: Product, target: Target) -> WgmmaTiles | None:
    """Return the tiles for a product; None where the kernel does not serve it, or others are faster."""
    if "wgmma" not in target.features or product.batch < target.table.wgmma_rows or not takes_wgmma(product):
        return None
    return min(wgmma_tiles(product), key=lambda found: cost_of(product, found, target.compute_units))


def takes_wgmma(product: Product) -> bool:
    """Whether the kernel serves a product: whole pieces of results and whole pairs of steps."""
    return (
        product.bits in (4, 8)
        and product.group in (32, 64, 128)
        and product.batch > 0
        and columns_of(product) > 0
        and columns_of(product) % 8 == 0
        and product.width % (2 * STEP) == 0
        and max(product.batch, product.rows) * product.width < LARGEST
    )


def columns_of(product: Product) -> int:
    """Return the columns of the result."""
    return product.rows // 2 if product.is_gated else product.rows


def wgmma_tiles(product: Product) -> Iterator[WgmmaTiles]:
    """Yield the tiles that fit a product."""
    for rows in STEP_TIMES:
        for split in SPLITS:
            found = WgmmaTiles(rows, split)
            if fits(product, found):
                yield found


def fits(product: Product, found: WgmmaTiles) -> bool:
    """Whether the kernel can share out a product so."""
    can_split = 1 <= found.split <= product.width // (2 * STEP) and tiles_of(product, found.rows) <= COUNTERS
    return found.rows in STEP_TIMES and (found.split == 1 or can_split)


def tiles_of(product: Product, rows: int) -> int:
    """Return the tiles of a result."""
    return -(-columns_of(product) // (LOCALS // 2 if product.is_gated else LOCALS)) * -(-product.batch // rows)


def cost_of(product: Product, found: WgmmaTiles, processors: int) -> float:
    """Return about how many microseconds a product takes."""
    time, resident = STEP_TIMES[found.rows], resident_of(found.rows)
    each = -(-tiles_of(product, found.rows) * found.split // processors)  # tiles of the busiest processor
    steps = product.width / STEP / found.split
    rounds = -(-each // resident)
    step = rounds * time.together if resident == 1 else each // resident * time.together + each % resident * time.alone
    # Sums that are shared go through memory, which they fill if there are more than the processors hold at a time.
    shared = SHARED_SUMS * found.split * found.rows * resident / 256 if found.split > 1 else 0.0
    return STARTED + steps * step + rounds * (FINISHED + shared * min(rounds, 2))


def resident_of(rows: int) -> int:
    """Return the threadgroups that a processor holds at a time."""
    return {256: 1, 128: 2, 64: 2, 32: 3}[rows]


def stages_of(rows: int, bits: int) -> int:
    """Return the steps that a threadgroup has in its memory, or on their way there."""
    return {256: 5, 128: 4, 64: 7 if bits == 4 else 5, 32: 7 if bits == 4 else 4}[rows]


def shared_bytes(template: Mapping[str, Any], _: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of the kernel: steps, parts of the result, room to align."""
    step: int = template["ROWS"] * STEP * 2 + LOCALS * STEP * template["BITS"] // 8
    stages: int = template["STAGES"]
    return step * stages + LOCALS * STEP * 2 + 1024


def wgmma_configuration(product: Product, found: WgmmaTiles, target: Target) -> Configuration:
    """Return the launch of the kernel.

    Raises
    ------
    ValueError
        The tiles do not fit the product.
    """
    if not takes_wgmma(product) or not fits(product, found):
        raise ValueError(f"quantized_matmul: {found} does not fit {product}")
    units = tiles_of(product, found.rows) * found.split
    grid = (min(units, target.compute_units * resident_of(found.rows)), 1, 1)
    template = dict(zip(TEMPLATE, (*found, stages_of(found.rows, product.bits))))
    return Configuration(grid, (THREADS, 1, 1), template)


def gathered_tiles_of(product: Product, stack: int, target: Target) -> int | None:
    """Return the rows of a tile where each row of x chooses its matrix of a stack; None where the kernel takes none.

    The product is that of one matrix with all rows. Those that have one matrix share tiles.
    """
    if "wgmma" not in target.features or not takes_stack(product, stack):
        return None
    each = product.batch / stack
    return min(GATHERED_TIMES, key=lambda rows: max(1.0, each / rows + 0.5) * GATHERED_TIMES[rows])


def takes_stack(product: Product, stack: int) -> bool:
    """Whether the kernel serves rows that choose their matrices of a stack."""
    return 1 <= stack <= MOST_MATRICES and takes_wgmma(product) and stack * product.rows * product.width < LARGEST


def most_run_tiles(count: int, stack: int, rows: int) -> int:
    """Return the most tiles of rows that each name a matrix of a stack, or none, where no two matrices share a tile."""
    return count // rows + min(count, stack + 1)


def gathered_configuration(product: Product, stack: int, rows: int, target: Target) -> Configuration:
    """Return the launch of the kernel where rows choose their matrices.

    Raises
    ------
    ValueError
        The tiles do not fit the product.
    """
    if not takes_stack(product, stack) or rows not in GATHERED_TIMES:
        raise ValueError(f"gather_qmm: tiles of {rows} rows do not fit {product} with each of {stack} matrices")
    units = most_run_tiles(product.batch, stack, rows) * tiles_of(product._replace(batch=1), rows)
    grid = (min(units, target.compute_units * resident_of(rows)), 1, 1)
    template = dict(zip(TEMPLATE, (rows, 1, stages_of(rows, product.bits))))
    return Configuration(grid, (THREADS, 1, 1), template)
