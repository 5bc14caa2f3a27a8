"""The kernel of Hopper's matrix instructions for many rows, each of which chooses its matrix of a quantised stack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.quantized.wgmma_tiles import launch_of
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.wgmma_tiles import (
    MOST_MATRICES,
    gathered_configuration,
    gathered_tiles_of,
    most_run_tiles,
)
from hiprt.objects import Planned
from hiprt.stream import Stream

__all__ = ["RUN_TILES", "GatheredPlan", "gathered_plan", "run_tiles"]

THREADS = 512
# Only the kernel of Hopper's instructions takes its results.
RUN_TILES = Kernel(
    "run_tiles",
    inputs={"indices": "uint"},
    outputs={"order": "uint", "matrices": "uint"},
    scalars={"count": "uint", "stack": "uint", "rows": "uint"},
    threads=THREADS,
    ahead=(),
    source=(OPS / "quantized/run_tiles.hip").read_text(),
)


class RunTiles(NamedTuple):
    """The launch that orders items by the matrices that they name, and the numbers that it writes.

    Attributes
    ----------
    launch : Launch
    rows : int
        The rows of a tile.
    most : int
        The most tiles that there may be.
    """

    launch: Launch
    rows: int
    most: int

    def run(self, stream: Stream, indices: Array) -> tuple[Array, Array]:
        """Return the item of each row of the tiles, and the number of tiles with the matrix of each behind it."""
        order = make((self.most * self.rows,), UINT32, stream)
        matrices = make((1 + self.most,), UINT32, stream)
        self.launch(stream, indices=indices, order=order, matrices=matrices)
        return order, matrices


@Planned
def run_tiles(count: int, stack: int, rows: int) -> RunTiles:
    """Return the launch for some items of a stack of matrices, in tiles of `rows` rows.

    Raises
    ------
    ValueError
        There are no items, or the stack is too large.
    """
    if count < 1 or not 1 <= stack <= MOST_MATRICES:
        raise ValueError(f"run_tiles: {count} items of {stack} matrices; 1 to {MOST_MATRICES} are needed")
    launch = Launch(RUN_TILES, (stack + 1, 1, 1), (THREADS, 1, 1), count=count, stack=stack, rows=rows)
    return RunTiles(launch, rows, most_run_tiles(count, stack, rows))


class GatheredPlan(NamedTuple):
    """The launches that order rows by their matrices, and that multiply them."""

    runs: RunTiles
    launch: Launch

    def run(
        self,
        stream: Stream,
        out: Array,
        x: Array,
        indices: Array,
        w: Array,
        scales: Array,
        biases: Array,
        runs: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array]:
        """Launch on a stream, and return the rows' order, which another product of the same `runs` may be given.

        Arrays are contiguous, and all but the indices, scales and biases aligned to 16 bytes.
        """
        order, matrices = runs or self.runs.run(stream, indices)
        given = {"x": x, "weight": w, "scales": scales, "biases": biases, "residual": x}
        self.launch(stream, out=out, order=order, matrices=matrices, arrived=out, parts=out, **given)
        return order, matrices


@Planned
def gathered_plan(
    product: Product, stack: int, sharing: int, dtype: np.dtype[Any], target: Target, rows: int | None = None
) -> GatheredPlan | None:
    """Return the plan for rows that choose their matrices; None where another kernel is to be taken.

    Parameters
    ----------
    product : Product
        That of one matrix with all rows of the result.
    stack : int
        The number of matrices.
    sharing : int
        The neighbouring rows of the result that have one row of x.
    dtype : numpy.dtype
    target : Target
    rows : int, optional
        The rows of a tile; the fastest by default.

    Raises
    ------
    ValueError
        The tiles do not fit the product.
    """
    rows = rows or (gathered_tiles_of(product, stack, target) if dtype.itemsize == 2 else None)
    if rows is None:
        return None
    configuration = gathered_configuration(product, stack, rows, target)
    launch = launch_of(product, configuration, dtype, stack, sharing=sharing)
    return GatheredPlan(run_tiles(product.batch, stack, rows), launch)
