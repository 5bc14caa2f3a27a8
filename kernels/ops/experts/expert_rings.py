"""Products of a token's experts by integer matrix instructions: the body of `qmv`, for matrices that indices choose."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.tuning.rings import TEMPLATE, Ring, ring_of, ring_plan, shared_bytes
from hiprt.kernels.tuning.tiling import Shape, Tiles

__all__ = ["DOWN", "GATE_UP", "down_plan", "gate_up_plan"]

BODY = (OPS / "quantized/integer_rings.hip").read_text()
GATE_UP = Kernel(
    "moe_gate_up_integer",
    inputs={"x": "T", "indices": "int", "weight": "uint", "scales": "T", "biases": "T", "norm": "T"},
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        **dict.fromkeys(TEMPLATE, "int"),
        "NORMED": "bool",
        "CHOSEN": "int",
        "COLUMNS": "int",
    },
    threads=lambda template: 32 * template["TEAMS"] * template["SPLIT"],
    ahead=(),
    resident=lambda template: int(template["RESIDENT"]),
    shared=lambda template, target: shared_bytes(template, "matrix" in target.features),
    source="""
typedef T S;
constexpr int CHOICE = 1;
constexpr bool GATED = true, ADDED = false;
const device T *const shares = x, *const residual = x;
#line 1 "integer_rings.hip"
"""
    + BODY,
)
DOWN = Kernel(
    "moe_down_integer",
    inputs={
        "x": "T",
        "indices": "int",
        "shares": "T",
        "weight": "uint",
        "scales": "T",
        "biases": "T",
        "residual": "T",
    },
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        **dict.fromkeys(TEMPLATE, "int"),
        "ADDED": "bool",
        "CHOSEN": "int",
    },
    threads=lambda template: 32 * template["TEAMS"] * template["SPLIT"],
    ahead=(),
    resident=lambda template: int(template["RESIDENT"]),
    shared=lambda template, target: shared_bytes(
        {**template, "WIDTH": template["WIDTH"] * template["CHOSEN"]}, "matrix" in target.features
    ),
    source="""
typedef T S;
constexpr int CHOICE = 2, COLUMNS = 8;
constexpr bool GATED = false, NORMED = false;
constexpr float eps = 0.0f;
const device T* const norm = x;
#line 1 "integer_rings.hip"
"""
    + BODY,
)


def gate_up_plan(
    arch: str, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int
) -> Tiles | None:
    """Return the launch of `GATE_UP` for one token, as far as its ring says; None where another kernel takes it."""
    shape = Shape(chosen * 2 * columns, width, 1, group, bits, True)
    return plan_of(arch, dtype, shape) if columns % 4 == 0 else None


def down_plan(
    arch: str, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int
) -> Tiles | None:
    """Return the launch of `DOWN` for one token, as far as its ring says; None where another kernel takes it."""
    shape = Shape(columns, chosen * width, 1, group, bits, False)
    return plan_of(arch, dtype, shape) if width * bits % 1024 == 0 else None


def plan_of(arch: str, dtype: np.dtype[Any], shape: Shape) -> Tiles | None:
    """Return the launch for a shape, where bulk copies are: they were measured on compute capability 9.0."""
    ring = ring_for(arch, shape) if dtype.itemsize == 2 and shape.width * shape.bits % 1024 == 0 else None
    return ring and ring_plan(shape, ring)


def ring_for(arch: str, shape: Shape) -> Ring | None:
    """Choose for a device."""
    return ring_of(shape) if arch == "sm_90" and shape.tiles else None
