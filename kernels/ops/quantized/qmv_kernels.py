"""The kernels of `qmv`: their declarations, and the instances that are compiled ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hiprt.array import bfloat16
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS, BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.integer_dots import dot_kernel
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.vector_blocks import blocks_kernel
from hiprt.kernels.ops.quantized.vector_rings import vector_ring_kernel
from hiprt.kernels.tuning.blocks import TEMPLATE as BLOCKS_TEMPLATE
from hiprt.kernels.tuning.dots import TEMPLATE
from hiprt.kernels.tuning.sharing import UNSHARED, Sharing
from hiprt.kernels.tuning.stages import TEMPLATE as STAGES, shared_bytes

__all__ = [
    "BLOCKS",
    "DOTS",
    "INTEGER",
    "KERNEL",
    "PHASED",
    "SEVERAL",
    "SHARED_BLOCKS",
    "STAGED",
    "TENSOR",
    "VECTOR_RING",
]

OPERANDS = {"x": "T", "weight": "uint", "scales": "T", "biases": "T", "norm": "T", "residual": "T"}
DOT_WIDTH = 2560
OTHER_BITS = tuple(bits for bits in AFFINE_BITS if bits not in BITS)  # of codes that cross words, or are small
PARTS = {"NORMED": "bool", "ADDED": "bool", "GATED": "bool"}
VECTORS = each(("T", "S"), GROUP=GROUP_SIZES, BITS=BITS, BATCH=lambda _, loops: (1,) if loops else (1, 2))
# The sharings that are compiled ahead; others are compiled when they are first used.
SHARED = tuple(Sharing(*each) for each in ((4, 2), (2, 1), (2, 2), (2, 4), (2, 8), (1, 2), (1, 4), (1, 8)))


def instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the kernel's instances: formats with whole rows, and on GPUs the shared rows of one format."""
    others = [dict(zip(("T", "S"), (bfloat16,) * 2), GROUP=64, BITS=bits, BATCH=1) for bits in OTHER_BITS]
    formats = [*VECTORS(takes_loops), *others]
    whole = [{**each, "ROWS": UNSHARED.rows, "SPLIT": UNSHARED.split} for each in formats]
    head = {"GROUP": 64, "BITS": 4, "BATCH": 1}
    shared = [
        {"T": dtype, "S": dtype, **head, "ROWS": rows, "SPLIT": split}
        for dtype in (np.dtype(np.float16), bfloat16)
        for rows, split in SHARED
    ]
    return whole if takes_loops else [*whole, *shared]


def dot_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel of integer dot instructions that are compiled ahead; others are at first use."""
    parts = ((True, False, True), (False, True, False), (True, False, False))
    shared = ((4, 1, 8, 2, 4), (2, 2, 4, 2, 4), (4, 4, 2, 2, 4), (2, 1, 4, 2, 4), (4, 1, 4, 2, 2), (1, 2, 4, 2, 4))
    forms = ((64, 4), (128, 4), (64, 8), (32, 4), (32, 8), (64, 4))
    others = ((2, 1, 4, 2, 4), (4, 1, 8, 2, 4), (2, 2, 4, 2, 2), (4, 4, 2, 2, 4), (1, 2, 4, 2, 4))
    other_forms = ((64, 2), (64, 3), (128, 5), (64, 6), (32, 2))
    if takes_loops:
        return []
    spread = shared_out(TEMPLATE, others, other_forms, parts)
    return [*shared_out(TEMPLATE, shared, forms, parts), *(one for one in spread if one["T"] == bfloat16)]


def shared_out(
    template: Iterable[str],
    sharings: Sequence[tuple[int, ...]],
    forms: Sequence[tuple[int, int]],
    parts: Sequence[tuple[bool, ...]],
) -> list[dict[str, Any]]:
    """List instances of both 16-bit dtypes: sharings, each with its group size and bits, and the parts in turn."""
    return [
        {
            "T": dtype,
            "S": dtype,
            "GROUP": group,
            "BITS": bits,
            "WIDTH": DOT_WIDTH,
            **dict(zip(template, sharing)),
            **dict(zip(PARTS, parts[i % len(parts)])),
        }
        for dtype in (np.dtype(np.float16), bfloat16)
        for i, (sharing, (group, bits)) in enumerate(zip(sharings, forms))
    ]


def several_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the same of the kernel of several vectors: the first three of a dtype, and that of codes of 3 bits."""
    found: list[dict[str, Any]] = []
    for one in dot_instances(takes_loops):
        before = sum(each["T"] == one["T"] for each in found)
        if before < 3 or one["BITS"] == 3:
            found.append({**one, "VECTORS": 3 if before else 6, "DEPTH": 1})
    return found


def phased_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel whose x is staged in parts.

    Those are 4B's down on gfx1151, 32B's gate and up with codes of 8 bits on gfx942, and 1.7B's down with such codes
    there, whose parts are halves of a step.
    """
    names = ("BITS", "WIDTH", *TEMPLATE, "HELD", "KEPT_ROUNDS", *PARTS)
    down = 4, 9728, 4, 1, 16, 1, 4, 160, 2, False, True, False
    gate_up = 8, 5120, 4, 2, 16, 1, 4, 192, 2, True, False, True
    halves = 8, 6144, 4, 16, 2, 1, 4, 256, 1, False, True, False
    half = np.dtype(np.float16)
    chosen = ((half, down), (half, gate_up), (bfloat16, down), (bfloat16, halves))
    every = [{"T": dtype, "S": dtype, "GROUP": 64, "VECTORS": 4, **dict(zip(names, one))} for dtype, one in chosen]
    return [] if takes_loops else every


def block_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel of AMD's matrix instructions that are compiled ahead."""
    parts = ((False, True, False), (True, False, True), (True, False, False))
    shared = ((2, 4, 2), (4, 8, 1), (1, 4, 2), (2, 2, 1), (2, 8, 1))
    forms = ((64, 4), (64, 4), (32, 8), (128, 4), (64, 8))
    template = [name for name in BLOCKS_TEMPLATE if name != "SPLIT"]
    return [] if takes_loops else shared_out(template, shared, forms, parts)


def shared_block_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the same of the kernel whose threadgroups share the width."""
    parts = ((False, True, False), (True, False, False), (True, False, True))
    shared = ((1, 8, 2, 4), (1, 16, 2, 3), (2, 4, 1, 2))
    forms = ((64, 4), (64, 4), (64, 8))
    return [] if takes_loops else shared_out(BLOCKS_TEMPLATE, shared, forms, parts)


KERNEL = Kernel(
    "quantized/qmv",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "width": "uint", "batch": "uint", "flags": "uint", "stretch": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "S": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "BATCH": "int",
        "ROWS": "int",
        "SPLIT": "int",
    },
    headers=tuple(f"quantized/{name}.h" for name in ("codes", "tile_codes", "lane_codes", "lane_values")),
    threads=lambda template: 32 * Sharing(template["ROWS"], template["SPLIT"]).simdgroups,
    instances=instances,
)
# This body uses NVIDIA's matrix instructions, so it is not in the dialect.
TENSOR = Kernel(
    "qmv_mma",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "batch": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "S": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "BATCH": "int",
        "TILES": "int",
        "SPLIT": "int",
        "DEPTH": "int",
        "PHASE": "int",
        "REPEATED": "bool",
        **PARTS,
    },
    threads=lambda template: 32 * template["TILES"] * template["SPLIT"],
    ahead=("weight", "scales", "biases"),
    source=(OPS / "quantized/qmv_mma.hip").read_text(),
)
# This one as well; it multiplies several vectors.
STAGED = Kernel(
    "qmv_staged",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "batch": "uint", "eps": "float"},
    template={"T": "dtype", "S": "dtype", "GROUP": "int", "BITS": "int", "WIDTH": "int", **STAGES, **PARTS},
    threads=lambda template: 32 * template["TEAMS"] * template["SPLIT"],
    ahead=("weight", "scales", "biases"),
    shared=shared_bytes,
    source=(OPS / "quantized/staged_vectors.hip").read_text(),
)
# This kernel multiplies one vector with one matrix.
INTEGER = ring_kernel(
    "qmv_integer",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "eps": "float"},
    template={"S": "dtype", **PARTS},
    ahead=("weight", "scales", "biases", "norm"),
)
# This one multiplies several vectors, each with the bits of the kernel before.
VECTOR_RING = vector_ring_kernel(
    "qmv_vector_rings", inputs=OPERANDS, outputs={"out": "S"}, template={"S": "dtype", **PARTS}
)
# This one multiplies one vector as well, on GPUs whose waves have integer dot instructions.
DOTS = dot_kernel(
    "qmv_dots",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "eps": "float"},
    template={"S": "dtype", **PARTS},
    part_of="qmv",
    instances=dot_instances,
)
# And this one several.
SEVERAL = dot_kernel(
    "qmv_several_dots",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "batch": "uint", "eps": "float"},
    template={"S": "dtype", "VECTORS": "int", **PARTS},
    part_of="qmv",
    instances=several_instances,
)
# This one as many, or one, whose x threadgroup memory does not hold at once.
PHASED = dot_kernel(
    "qmv_phased_dots",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "batch": "uint", "eps": "float"},
    template={"S": "dtype", "VECTORS": "int", "HELD": "int", "KEPT_ROUNDS": "int", **PARTS},
    part_of="qmv",
    instances=phased_instances,
)
# This one multiplies up to 16, where matrix instructions of waves take as many at once.
BLOCKS = blocks_kernel("qmv_blocks", inputs=OPERANDS, parts=PARTS, instances=block_instances)
# And this one where threadgroups share the width of a matrix with few rows.
SHARED_BLOCKS = blocks_kernel(
    "qmv_shared_blocks", inputs=OPERANDS, parts=PARTS, instances=shared_block_instances, is_shared=True
)
