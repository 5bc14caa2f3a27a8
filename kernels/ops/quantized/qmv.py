"""Product of a few vectors with a quantised matrix, with what a decode step does before and after it."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from hiprt.array import Array, Form, dtype_of
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan, Three
from hiprt.kernels.lang.operands import FLOATS, aligned, buffer, contiguous, floating, same
from hiprt.kernels.ops.quantized.formats import BITS, check_matrix, format_of
from hiprt.kernels.ops.quantized.qmv_kernels import (
    BLOCKS,
    DOTS,
    INTEGER,
    KERNEL,
    PHASED,
    SEVERAL,
    SHARED_BLOCKS,
    STAGED,
    TENSOR,
    VECTOR_RING,
)
from hiprt.kernels.ops.quantized.qmv_ways import Way, most_vectors, ways_of
from hiprt.kernels.ops.quantized.vector_blocks import SharedPlan
from hiprt.kernels.tuning.blocks import (
    MOST_VECTORS as MOST_OF_BLOCKS,
    Blocks,
    blocks_configuration,
    parts_shape,
)
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.dots import Dots, dots_configuration
from hiprt.kernels.tuning.rings import Ring, ring_configuration
from hiprt.kernels.tuning.sharing import UNSHARED, Sharing, sharing_of, sharings
from hiprt.kernels.tuning.stages import Stages, stages_configuration
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Configuration, Product, Tiling, tensor_configuration
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_configuration
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["qmv"]

MOST_ROWS = 64  # rows that a plain loop takes, as in the kernel


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
    tiling: Way = None,
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
    tiling: Way,
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

            def run(way: Way) -> Run:
                plan = plan_of(x, w, scales, biases, norm, residual, *options, way, eps, target)
                return lambda stream, given: plan.run(stream, None, **given)

            ways = ways_of(target, x.dtype, product, norm is not None)
            tiling = choose(target, name_of(product, kinds, parts), ways, operands, run)
        if bits not in BITS and not isinstance(tiling, (Dots, Sharing, type(None))):
            raise ValueError(f"{op}: {tiling} does not fit codes of {bits} bits")
        launch = launch_of(product, tiling, columns, kinds, parts, eps, target)
        if isinstance(tiling, Blocks) and tiling.split > 1:
            shape = parts_shape(product, tiling, norm is not None)
            return SharedPlan(Plan(op, (batch, columns), dtype, launch), shape)
    return Plan(op, (batch, columns), dtype, launch)


def launch_of(
    product: Product,
    way: Way,
    columns: int,
    kinds: dict[str, Any],
    parts: dict[str, bool],
    eps: float,
    target: Target,
) -> Launch:
    """Return the launch of a way.

    Raises
    ------
    ValueError
        The way does not fit the product.
    """
    if way is None or isinstance(way, Sharing):
        return plain_launch(product, columns, kinds, parts, eps, target, way)
    kernel, configuration = shared_out(product, way, parts["NORMED"], target)
    template = {**kinds, "WIDTH": product.width, **configuration.template, **parts}
    known = {"columns": columns, "batch": product.batch, "eps": eps, "groups": configuration.grid[0]}
    scalars = {name: value for name, value in known.items() if name in kernel.names}
    return Launch(kernel, configuration.grid, configuration.threads, template, **scalars)


def shared_out(
    product: Product, way: Tiling | Ring | VectorRing | Stages | Dots | Blocks, is_normed: bool, target: Target
) -> tuple[Kernel, Configuration]:
    """Return the kernel of a way, and how it shares out a product."""
    if isinstance(way, Ring):
        return INTEGER, ring_configuration(product, way, target)
    if isinstance(way, VectorRing):
        return VECTOR_RING, vector_ring_configuration(product, way)
    if isinstance(way, Dots):
        return PHASED if way.held else SEVERAL if way.vectors > 1 else DOTS, dots_configuration(product, way)
    if isinstance(way, Blocks):
        return SHARED_BLOCKS if way.split > 1 else BLOCKS, blocks_configuration(product, way)
    if isinstance(way, Stages):
        return STAGED, stages_configuration(product, way, is_normed)
    return TENSOR, tensor_configuration(product, way)


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


def name_of(product: Product, kinds: dict[str, Any], parts: dict[str, bool]) -> str:
    """Return what a choice calls a product."""
    words = [name.lower() for name, is_there in parts.items() if is_there]
    form = f"{product.bits} bits in groups of {product.group}"
    dtypes = str(kinds["T"]) if kinds["T"] == kinds["S"] else f"{kinds['T']} to {kinds['S']}"
    vectors = f", {product.batch} vectors" if product.batch > 1 else ""
    return f"qmv {product.rows}x{product.width} of {form}{vectors}, {', '.join([dtypes, *words])}"
