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
from hiprt.kernels.tuning.tiling import Product
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

__all__ = ["KERNEL", "WgmmaPlan", "wgmma_plan"]

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
    kinds = {"T": dtype, "GROUP": product.group, "BITS": product.bits}
    parts = {"ADDED": is_added, "GATED": product.is_gated, "GATHERED": False}
    launch = Launch(
        KERNEL,
        configuration.grid,
        configuration.threads,
        {**kinds, **configuration.template, **parts},
        columns=product.rows // 2 if product.is_gated else product.rows,
        width=product.width,
        count=product.batch,
        sharing=1,
    )
    shape = (tiles_of(product, tiles.rows), tiles.split, tiles.rows, 128)
    return WgmmaPlan(launch, shape if tiles.split > 1 else None)
