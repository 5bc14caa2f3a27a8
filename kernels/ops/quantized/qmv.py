"""Product of a few vectors with a quantised matrix, with what a decode step does before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, Form, bfloat16, dtype_of
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan, Three
from hiprt.kernels.lang.operands import FLOATS, aligned, buffer, contiguous, floating, same
from hiprt.kernels.ops.quantized.formats import AFFINE_BITS, BITS, GROUP_SIZES, check_matrix, format_of
from hiprt.kernels.ops.quantized.integer_dots import dot_kernel
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.vector_blocks import SharedPlan, blocks_kernel
from hiprt.kernels.tuning.blocks import (
    MOST_VECTORS as MOST_OF_BLOCKS,
    TEMPLATE as BLOCKS_TEMPLATE,
    Blocks,
    blocks,
    blocks_configuration,
    blocks_of,
    cost as blocks_cost,
    parts_shape,
)
from hiprt.kernels.tuning.choices import MOST_WAYS, Run, choose
from hiprt.kernels.tuning.dots import TEMPLATE, Dots, dots_configuration, dots_of, ranked_dots
from hiprt.kernels.tuning.rings import Ring, ring_configuration, ring_of
from hiprt.kernels.tuning.sharing import UNSHARED, Sharing, sharing_of, sharings
from hiprt.kernels.tuning.stages import TEMPLATE as STAGES, Stages, shared_bytes, stages_configuration, stages_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product, Tiling, tensor_configuration, tiling_of
from hiprt.kernels.tuning.vector_rings import (
    TEMPLATE as VECTOR_RINGS,
    VectorRing,
    shared_bytes as vector_ring_bytes,
    vector_ring_configuration,
    vector_ring_of,
)
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["qmv"]

MOST = 8  # vectors that one launch multiplies on every target
MOST_ROWS = 64  # rows that a plain loop takes, as in the kernel
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
VECTOR_RING = Kernel(
    "qmv_vector_rings",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "eps": "float"},
    template={"T": "dtype", "S": "dtype", "GROUP": "int", "BITS": "int", "WIDTH": "int", **VECTOR_RINGS, **PARTS},
    threads=lambda template: 32 * (template["TEAMS"] * template["SPLIT"] // template["SHARERS"] + template["HELPERS"]),
    cluster=lambda template: int(template["SHARERS"]),
    ahead=("weight", "scales", "biases"),
    shared=vector_ring_bytes,
    source=(OPS / "quantized/vector_rings.hip").read_text(),
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


@op
def qmv(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int = 64,
    bits: int = 4,
    norm: Array | None = None,
    eps: float = 1e-6,
    residual: Array | None = None,
    swiglu: bool = False,
    out_dtype: DTypeLike | None = None,
    tiling: Tiling | Ring | VectorRing | Stages | Dots | Blocks | Sharing | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``rms_norm(x, norm, eps) @ dequantize(w, scales, biases).T + residual``, as one kernel.

    Parameters
    ----------
    x : Array, [B, K]
        float16, bfloat16 or float32; B from 0 to 8, and to 16 of 16-bit numbers on AMD GPUs with matrix instructions.
    w : Array, [N, K * bits / 32]
        uint32.
    scales, biases : Array, [N, K / group_size]
        The scales and the biases that `quantize` returns, of the dtype of `x`.
    group_size : int
        32, 64 or 128.
    bits : int
        2, 3, 4, 5, 6 or 8.
    norm : Array, [K], optional
        The weights of an RMS norm of `x`, of the dtype of `x`.
    eps : float
        The norm's epsilon.
    residual : Array, [B, N], optional
        A summand of the result, of the dtype of `x`.
    swiglu : bool
        Whether the first half of the rows of `w` is a gate and the second half what it gates: the result is
        ``silu(gate) * up``, [B, N / 2].
    out_dtype : dtype, optional
        The dtype of the result, which is that of `x` by default.
    tiling : Ring, VectorRing, Stages, Tiling, Dots, Blocks or Sharing, optional
        How a kernel of matrix or dot instructions shares out the work, or the one that every GPU has. `ring_of`,
        `vector_ring_of`, `stages_of`, `tiling_of`, `blocks_of`, `dots_of` or `sharing_of` chooses it by default.

    Returns
    -------
    Array, [B, N] or [B, N / 2]
        The product, summed in float32 and rounded once. On GPUs ``x * norm`` is rounded to the dtype of `x` first, and
        must be in its range. The norm's common factor is applied to the sums. 16-bit numbers of a single vector on
        NVIDIA, with codes of 4 or 8 bits, and of up to 4 vectors on AMD, are not rounded to the dtype; the part that
        shares a scale of the codes, on AMD a piece of 16 to 64 codes of it, is rounded to multiples of 2^-14 of the
        power of two below its largest number. With ``HIPRT_QMV_PLANES=2`` it is rounded to 8 bits on AMD. By AMD's
        rules for up to 4 vectors, and on NVIDIA where a `VectorRing` shares out the work and all numbers are below
        2^113, each of several vectors has the bits that it has alone.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned to 16 bytes, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    options = group_size, bits, swiglu, out_dtype, tiling, eps
    plan = plan_of(x, w, scales, biases, norm, residual, *options, target_of(stream))
    # The first operand stands in for a norm that is not given: one that no kernel before it writes.
    return plan.run(stream, out, weight=w, x=x, scales=scales, biases=biases, norm=norm, residual=residual)


@Planned
def plan_of(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form | None,
    residual: Form | None,
    group_size: int,
    bits: int,
    is_gated: bool,
    out_dtype: DTypeLike | None,
    tiling: Tiling | Ring | VectorRing | Stages | Dots | Blocks | Sharing | None,
    eps: float,
    target: Target,
) -> Plan | SharedPlan:
    """Check the operands and return the plan."""
    op = "qmv"
    most = (
        MOST_OF_BLOCKS if isinstance(tiling, Blocks) else most_vectors(w, x.dtype, group_size, bits, is_gated, target)
    )
    columns = check(op, x, w, scales, biases, group_size, bits, norm, residual, is_gated, most)
    dtype = x.dtype if out_dtype is None else dtype_of(out_dtype)
    if dtype not in FLOATS:
        raise TypeError(f"{op}: out_dtype is {dtype}; float16, bfloat16 or float32 is needed")
    batch, width = x.shape
    launch = None
    if batch * columns:
        product = Product(w.shape[0], width, batch, group_size, bits, is_gated)
        kinds = {"T": x.dtype, "S": dtype, "GROUP": group_size, "BITS": bits}
        parts = {"NORMED": norm is not None, "ADDED": residual is not None, "GATED": is_gated}
        if tiling is None:
            operands = {"x": x, "weight": w, "scales": scales, "biases": biases, "norm": norm, "residual": residual}
            options = group_size, bits, is_gated, out_dtype

            def run(way: Tiling | Ring | VectorRing | Stages | Dots | Blocks | Sharing | None) -> Run:
                plan = plan_of(x, w, scales, biases, norm, residual, *options, way, eps, target)
                return lambda stream, given: plan.run(stream, None, **given)

            ways = ways_of(target, x.dtype, product, norm is not None)
            tiling = choose(target, name_of(product, kinds, parts), ways, operands, run)
        if bits not in BITS and not isinstance(tiling, (Dots, Sharing, type(None))):
            raise ValueError(f"{op}: {tiling} does not fit codes of {bits} bits")
        if isinstance(tiling, Ring):
            configuration = ring_configuration(product, tiling, target)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            launch = Launch(INTEGER, configuration.grid, configuration.threads, template, columns=columns, eps=eps)
        elif isinstance(tiling, VectorRing):
            configuration = vector_ring_configuration(product, tiling)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            launch = Launch(VECTOR_RING, configuration.grid, configuration.threads, template, columns=columns, eps=eps)
        elif isinstance(tiling, Dots):
            configuration = dots_configuration(product, tiling)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            scalars: dict[str, Any] = {"columns": columns, "eps": eps, "groups": configuration.grid[0]}
            kernel = dots_kernel(tiling)
            if kernel is not DOTS:
                scalars["batch"] = batch
            launch = Launch(kernel, configuration.grid, configuration.threads, template, **scalars)
        elif isinstance(tiling, Blocks):
            configuration = blocks_configuration(product, tiling)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            kernel = SHARED_BLOCKS if tiling.split > 1 else BLOCKS
            launch = Launch(
                kernel, configuration.grid, configuration.threads, template, columns=columns, batch=batch, eps=eps
            )
            if tiling.split > 1:
                shape = parts_shape(product, tiling, norm is not None)
                return SharedPlan(Plan(op, (batch, columns), dtype, launch), shape)
        elif isinstance(tiling, Stages):
            configuration = stages_configuration(product, tiling, norm is not None)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            launch = Launch(
                STAGED, configuration.grid, configuration.threads, template, columns=columns, batch=batch, eps=eps
            )
        elif isinstance(tiling, Tiling):
            configuration = tensor_configuration(product, tiling)
            template = {**kinds, "WIDTH": width, **configuration.template, **parts}
            launch = Launch(
                TENSOR, configuration.grid, configuration.threads, template, columns=columns, batch=batch, eps=eps
            )
        else:
            launch = plain_launch(product, columns, kinds, parts, eps, target, tiling)
    return Plan(op, (batch, columns), dtype, launch)


def dots_kernel(sharing: Dots) -> Kernel:
    """Return the kernel of integer dot instructions that has a sharing's template."""
    if sharing.held:
        return PHASED
    return SEVERAL if sharing.vectors > 1 else DOTS


def plain_launch(
    product: Product,
    columns: int,
    kinds: dict[str, Any],
    parts: dict[str, bool],
    eps: float,
    target: Target,
    sharing: Sharing | None,
) -> Launch:
    """Return the launch of the kernel that every target has.

    Raises
    ------
    ValueError
        The sharing does not fit the product.
    """
    vectors, stretch = 1, 0
    flags = sum(1 << i for i, part in enumerate(parts.values()) if part)
    shared = UNSHARED
    if target.takes_loops:
        rows = min(MOST_ROWS, max(2, target.table.loop_bytes * 8 // (product.width * product.bits)))
        stretch = rows // 2 if product.is_gated else rows
        grid: Three = (-(-columns // stretch), product.batch, 1)
        threads: Three = (1, 1, 1)
    else:
        if sharing is not None and (product.batch > 1 or sharing not in sharings(product)):
            raise ValueError(f"qmv: {sharing} does not fit {product}")
        shared = sharing or sharing_of(product, target)
        vectors = min(product.batch, 2)
        outputs = shared.rows // 2 if product.is_gated else shared.rows
        each_group = shared.simdgroups // shared.split * outputs
        grid = (-(-columns // each_group), -(-product.batch // vectors), 1)
        threads = (shared.simdgroups * 32, 1, 1)
    scalars = {"columns": columns, "width": product.width, "batch": product.batch, "stretch": stretch, "eps": eps}
    template = {**kinds, "BATCH": vectors, "ROWS": shared.rows, "SPLIT": shared.split}
    return Launch(KERNEL, grid, threads, template, flags=flags, **scalars)


def check(
    op: str,
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    group: int,
    bits: int,
    norm: Form | None,
    residual: Form | None,
    is_gated: bool,
    most: int,
) -> int:
    """Return the result's columns after checking the operands, of which x has at most so many vectors."""
    floating(op, "x", x, 2)
    form = format_of(op, group, bits, "affine")
    if w.ndim != 2:
        raise ValueError(f"{op}: a matrix is needed, not w of {w.shape}")
    rows, width = check_matrix(op, w, scales, biases, form)
    contiguous(op, "w", w)
    same(op, "scales", scales, "x", x)
    same(op, "biases", biases, "x", x)
    batch = x.shape[0]
    if x.shape[1] != width or batch > most:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {most} vectors of {width} are needed")
    if is_gated and rows % 2:
        raise ValueError(f"{op}: {rows} rows are not a gate and as many rows that it gates")
    columns = rows // 2 if is_gated else rows
    given = {"x": x, "w": w, "scales": scales, "biases": biases}
    if norm is not None:
        buffer(op, "norm", norm, x.dtype, (width,))
        given["norm"] = norm
    if residual is not None:
        buffer(op, "residual", residual, x.dtype, (batch, columns))
    for name, value in given.items():
        aligned(op, name, value)
    return columns


def chosen(
    target: Target, dtype: np.dtype[Any], product: Product, is_normed: bool = True
) -> Tiling | Ring | VectorRing | Stages | Dots | Blocks | None:
    """Return how a kernel for 16-bit numbers and some targets shares out the work; None if none takes it."""
    if dtype.itemsize != 2:
        return None
    if product.bits not in BITS:
        return dots_of(product, target)
    if "matrix" not in target.features or product.width * product.bits % 1024:
        return blocks_of(product, is_normed, target) or dots_of(product, target)
    ring = ring_of(product, target) or vector_ring_of(product, target)
    return ring or stages_of(product, is_normed, target) or tiling_of(product, target)


def most_vectors(w: Form | Array, dtype: np.dtype[Any], group: int, bits: int, is_gated: bool, target: Target) -> int:
    """Return how many vectors one launch multiplies with a matrix."""
    if "blocks" not in target.features or dtype.itemsize != 2 or w.ndim != 2 or bits not in BITS:
        return MOST
    product = Product(w.shape[0], w.shape[1] * 32 // bits, MOST_OF_BLOCKS, group, bits, is_gated)
    return MOST_OF_BLOCKS if any(blocks(product, target)) else MOST


def ways_of(
    target: Target, dtype: np.dtype[Any], product: Product, is_normed: bool = True
) -> list[Tiling | Ring | VectorRing | Stages | Dots | Blocks | Sharing | None]:
    """Return how a product can be shared out, as the rules have it first; several ways where timing may choose.

    Those are ways of one vector: by integer dot instructions, and by the kernel that every target has, the ways that
    the rules put next to theirs. By AMD's matrix instructions several vectors have ways too, among them one by which
    no threadgroups share the width, and that of integer dot instructions where it takes as many; fewer vectors go the
    way of one.
    """
    rule = chosen(target, dtype, product, is_normed)
    if isinstance(rule, Blocks):
        every = sorted(blocks(product, target), key=lambda sharing: blocks_cost(product, sharing, is_normed, target))
        whole = next(sharing for sharing in every if sharing.split == 1)
        few = [rule, *([] if whole == rule else [whole])]
        few += [sharing for sharing in every if sharing not in few]
        by_dots = dots_of(product, target) if product.batch <= MOST else None
        return [*few[: MOST_WAYS - 1], *([by_dots] if by_dots else [])]
    if product.batch > 1 or target.takes_loops or not (rule is None or isinstance(rule, Dots)):
        return [rule]
    plain = sharing_of(product, target)
    if rule is not None:
        return [*ranked_dots(product, target)[: MOST_WAYS - 1], plain]
    order = list(sharings(product, target.table.product_rows))
    at = order.index(plain)
    nearest = sorted(order, key=lambda sharing: abs(order.index(sharing) - at))
    return [*nearest[:MOST_WAYS]]


def name_of(product: Product, kinds: dict[str, Any], parts: dict[str, bool]) -> str:
    """Return what a choice calls a product."""
    words = [name.lower() for name, is_there in parts.items() if is_there]
    form = f"{product.bits} bits in groups of {product.group}"
    dtypes = str(kinds["T"]) if kinds["T"] == kinds["S"] else f"{kinds['T']} to {kinds['S']}"
    vectors = f", {product.batch} vectors" if product.batch > 1 else ""
    return f"qmv {product.rows}x{product.width} of {form}{vectors}, {', '.join([dtypes, *words])}"
