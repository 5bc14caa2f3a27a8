"""The kernels of AMD's matrix instructions for several vectors, and their plan where threadgroups share the width."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Plan
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.tuning.blocks import TEMPLATE
from hiprt.stream import Stream

__all__ = ["SharedPlan", "blocks_kernel"]

FLOAT32 = np.dtype(np.float32)
BODY = "quantized/vector_blocks.hip"
# What the body is given where a threadgroup has all of the width.
WHOLE = (
    "constexpr int SPLIT = 1;",
    "device uint* const arrived = nullptr;",
    "device float* const parts = nullptr;",
)


def blocks_kernel(
    name: str,
    *,
    inputs: Mapping[str, str],
    parts: Mapping[str, str],
    instances: Callable[[bool], Iterable[Mapping[str, Any]]],
    is_shared: bool = False,
) -> Kernel:
    """Return a kernel around the body ``vector_blocks.hip``.

    Parameters
    ----------
    name : str
    inputs, instances
        The declaration, as for `Kernel`.
    parts : mapping of str to str
        The template parameters that say what is done before and after the product.
    is_shared : bool
        Whether several threadgroups share the width.
    """
    sharing = {name: kind for name, kind in TEMPLATE.items() if is_shared or name != "SPLIT"}
    return Kernel(
        name,
        inputs=inputs,
        updates={"arrived": "uint", "parts": "float"} if is_shared else {},
        outputs={"out": "S"},
        scalars={"columns": "uint", "batch": "uint", "eps": "float"},
        template={"T": "dtype", "S": "dtype", "GROUP": "int", "BITS": "int", "WIDTH": "int", **sharing, **parts},
        headers=("matmul/tiles.h", "quantized/block_factors.h"),
        threads=lambda template: 32 * int(template["SIMDGROUPS"]),
        source="\n".join([*(() if is_shared else WHOLE), '#line 1 "vector_blocks.hip"', (OPS / BODY).read_text()]),
        part_of="qmv",
        instances=instances,
    )


class SharedPlan(NamedTuple):
    """A product of which threadgroups leave their parts for the last one, which adds them up.

    Attributes
    ----------
    plan : Plan
    parts : tuple of int
        The shape of what they leave.
    """

    plan: Plan
    parts: tuple[int, ...]

    def run(self, stream: Stream, out: Array | None, **operands: Array | None) -> Array:
        """Launch on a stream, and return the result."""
        parts = make(self.parts, FLOAT32, stream)
        return self.plan.run(stream, out, **operands, arrived=arrivals(stream), parts=parts)
