"""The kernel of Hopper's matrix instructions for a quantised product of many rows, with what is done to its result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.kernels.tuning.wgmma_tiles import (
    TEMPLATE,
    WgmmaTiles,
    resident_of,
    shared_bytes,
    tiles_of,
    wgmma_configuration,
    wgmma_tiles_of,
)
from hiprt.objects import Planned
from hiprt.stream import Stream

__all__ = ["KERNEL", "WgmmaPlan", "launch_of", "wgmma_plan"]

FLOAT32 = np.dtype(np.float32)

# This body uses Hopper's matrix instructions, so it is not in the dialect.
KERNEL = Kernel(
    "quantized_wgmma",
    inputs={
        "x": "T",
        "weight": "uint",
        "scales": "T",
        "biases": "T",
        "residual": "T",
        "order": "uint",
        "matrices": "uint",
    },
    updates={"arrived": "uint", "parts": "float"},
    outputs={"out": "T"},
    scalars={"columns": "uint", "width": "uint", "count": "uint", "sharing": "uint"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        **TEMPLATE,
        "ADDED": "bool",
        "GATED": "bool",
        "GATHERED": "bool",
    },
    headers=("quantized/wgmma.h",),
    threads=256,
    resident=lambda template: resident_of(template["ROWS"]),
    ahead=(),
    shared=shared_bytes,
    source=(OPS / "quantized/wgmma_tiles.hip").read_text(),
)


class WgmmaPlan(NamedTuple):
    """A launch, and the memory that it needs.

    Attributes
    ----------
    launch : Launch
    parts : tuple of int, or None
        The shape of the sums that threadgroups leave for the last of those that share a tile; None where none do.
    """

    launch: Launch
    parts: tuple[int, ...] | None

    def run(
        self,
        stream: Stream,
        out: Array,
        x: Array,
        w: Array,
        scales: Array,
        biases: Array,
        residual: Array | None = None,
    ) -> None:
        """Launch on a stream; arrays are contiguous, and all but the scales and biases aligned to 16 bytes."""
        given = {"x": x, "weight": w, "scales": scales, "biases": biases}
        given["residual"] = x if residual is None else residual
        given["arrived"] = out if self.parts is None else arrivals(stream)
        given["parts"] = out if self.parts is None else make(self.parts, FLOAT32, stream)
        self.launch(stream, out=out, order=w, matrices=w, **given)


@Planned
def wgmma_plan(
    product: Product, dtype: np.dtype[Any], is_added: bool, target: Target, tiles: WgmmaTiles | None = None
) -> WgmmaPlan | None:
    """Return the plan for a product, which may be added to a residual; None where another kernel is to be taken.

    Raises
    ------
    ValueError
        The tiles do not fit the product.
    """
    tiles = tiles or (wgmma_tiles_of(product, target) if dtype.itemsize == 2 else None)
    if tiles is None:
        return None
    configuration = wgmma_configuration(product, tiles, target)
    launch = launch_of(product, configuration, dtype, product.batch, is_added=is_added)
    shape = (tiles_of(product, tiles.rows), tiles.split, tiles.rows, 128)
    return WgmmaPlan(launch, shape if tiles.split > 1 else None)


def launch_of(
    product: Product,
    configuration: Configuration,
    dtype: np.dtype[Any],
    count: int,
    *,
    is_added: bool = False,
    sharing: int | None = None,
) -> Launch:
    """Return the launch of the kernel.

    Parameters
    ----------
    product : Product
    configuration : Configuration
    dtype : numpy.dtype
    count : int
        The rows of x, or where these choose their matrices the number of matrices.
    is_added : bool
        Whether a residual is added.
    sharing : int, optional
        The neighbouring rows of the result that have one row of x, where rows choose their matrices.
    """
    kinds = {"T": dtype, "GROUP": product.group, "BITS": product.bits}
    parts = {"ADDED": is_added, "GATED": product.is_gated, "GATHERED": sharing is not None}
    return Launch(
        KERNEL,
        configuration.grid,
        configuration.threads,
        {**kinds, **configuration.template, **parts},
        columns=product.rows // 2 if product.is_gated else product.rows,
        width=product.width,
        count=count,
        sharing=sharing or 1,
    )
