"""Products with quantised matrices, which indices may choose from a stack."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import result
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.kernels.ops.matmul.stacks import ITEMS, SCALARS, Numbers, Side, index_array, items, named, side_of, size_of
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES, Format, format_of, listed
from hiprt.kernels.ops.quantized.gathered_tiles import GatheredPlan, gathered_plan
from hiprt.kernels.ops.quantized.operands import Operands, operands_of
from hiprt.kernels.ops.quantized.quantized_tiles import chosen_rows, tiles_plan
from hiprt.kernels.ops.quantized.wgmma_tiles import wgmma_plan
from hiprt.kernels.ops.reduction.sort import argsort
from hiprt.kernels.tuning.table import Table
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["ONE", "gather_qmm", "multiply", "plan_of"]

ONE = Side(1, 1, 1)  # a side with one matrix

SIMDGROUPS = 4
ROWS = 2  # rows that a simdgroup takes, as in the packed kernel
MOST_ROWS = 64  # rows that a plain loop on the CPU device takes, as in the packed kernel
INDICES = {"left_indices": "uint", "right_indices": "uint"}
PACKED = Kernel(
    "quantized/quantized_matmul",
    inputs={"x": "T", "weight": "uint", "scales": "T", "biases": "T", **INDICES},
    outputs={"out": "T"},
    scalars={"rows": "uint", "width": "uint", "stretch": "uint", **SCALARS},
    template={"T": "dtype", "GROUP": "int", "BITS": "int"},
    headers=("quantized/codes.h", "matmul/stack.h"),
    threads=128,
    instances=each(GROUP=GROUP_SIZES, BITS=BITS),
)
KERNEL = Kernel(
    "quantized/gather_qmm",
    inputs={"x": "T", "weight": "uint", "scales": "uchar", "biases": "uchar", **INDICES},
    outputs={"out": "T"},
    scalars={
        "columns": "uint",
        "width": "uint",
        "span": "uint",
        "bits": "uint",
        "mode": "int",
        "stretch": "uint",
        **SCALARS,
    },
    template={"T": "dtype", "TRANSPOSED": "bool"},
    headers=("quantized/formats.h", "matmul/stack.h"),
    threads=128,
    instances=each(TRANSPOSED=(False, True)),
)


@op
def gather_qmm(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None = None,
    lhs_indices: Array | None = None,
    rhs_indices: Array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    sorted_indices: bool = False,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return products of matrices that indices choose: ``x[lhs_indices] @ w[rhs_indices]``, dequantised.

    Parameters
    ----------
    x : Array, [..., M, K]
        float16, bfloat16 or float32.
    w : Array, [..., N, K * bits / 32], or [..., K, N * bits / 32] without `transpose`
        uint32.
    scales, biases : Array
        The scales and the biases that `quantize` returns. Modes of floating codes have no biases.
    lhs_indices, rhs_indices : Array, optional
        Flat indices, of any integer dtype, into the leading axes of `x` and of `w`; their shapes broadcast. Indices
        that are not given count through the operand's leading axes. An index that names no matrix gives zeros.
    transpose : bool
        Whether `x` is multiplied with the rows of `w`, instead of its columns.
    group_size, bits, mode
        The format, as in `quantize`.
    sorted_indices : bool
        A promise that `rhs_indices` ascend. Rows of one matrix then lie together, and the matrix is read once for many
        of them. Without the promise, indices of many rows are sorted first. The result differs only in the rounding
        that `quantized_matmul` does with many rows.

    Returns
    -------
    Array, [*indices, M, N]
        The products, of the promoted dtype of `x`, `scales` and `biases`; they are summed in float32 and rounded once.

    Raises
    ------
    ValueError
        The format does not exist, a dtype is wrong, or the shapes do not fit.
    """
    op = "gather_qmm"
    form = format_of(op, group_size, bits, mode)
    stream = stream or current_stream()
    given = operands_of(op, x, w, scales, biases, transpose, form, stream)
    if x.ndim < 2:
        raise ValueError(f"[{op}] The first input must have at least two dimensions but has shape {listed(x.shape)}.")
    shapes = []
    for value, indices in ((x, lhs_indices), (w, rhs_indices)):
        shapes.append(value.shape[:-2] if indices is None else index_array(op, indices).shape)
    full = broadcast_shapes("broadcast_shapes", *shapes)
    counts = size_of(x.shape[:-2]), size_of(w.shape[:-2])
    sides = []
    for shape, count, indices in zip(shapes, counts, (lhs_indices, rhs_indices)):
        sides.append(side_of(shape, full, count, indices, stream))
    lines, right = x.shape[-2], sides[1]
    plan = plan_of(given, lines, size_of(full), sides[0], right, False, target_of(stream))
    if plan is not None and right.indices is not None and given.biases is not None:
        shape = (*full, lines, given.columns)
        operands = {"x": given.x, "w": given.w, "scales": given.scales, "biases": given.biases}
        out = result(op, out, shape, given.x.dtype, stream, {**operands, "rhs_indices": right.indices})
        if not out.address % 16:
            plan.run(stream, out, given.x, right.indices, given.w, given.scales, given.biases)
            return out
    table = target_of(stream).table
    in_runs, order = sorted_indices or lines > table.untiled_rows, None
    is_sortable = given.has_tiles and not in_runs and lines == 1
    if is_sortable and right.indices is not None and is_worth_sorting(right, size_of(full), table):
        in_runs, order = True, argsort(right.indices.reshape(-1), stream=stream)
    return multiply(op, given, full, lines, sides[0], right, stream, out, in_runs=in_runs, order=order)


def plan_of(
    given: Operands, lines: int, count: int, left: Side, right: Side, is_gated: bool, target: Target
) -> GatheredPlan | None:
    """Return the plan of Hopper's tiles for vectors that choose matrices; None where other kernels are to be taken."""
    is_affine = given.is_packed and given.biases is not None
    is_chosen = right.indices is not None and left.indices is None and lines == 1
    # Each vector is that of `left.divisor` choices in turn, and each choice has an index of its own.
    is_each = right.divisor == 1 and left.divisor * left.modulus == count
    is_served = is_affine and is_chosen and is_each and right.modulus == count >= target.table.gathered_from
    if "wgmma" not in target.features or not is_served:
        return None
    product = Product(given.w.shape[-2], given.x.shape[-1], count, given.form.group_size, given.form.bits, is_gated)
    return gathered_plan(product, right.count, left.divisor, given.x.dtype, target)


def is_worth_sorting(right: Side, count: int, table: Table) -> bool:
    """Whether products in the order of their matrices would share enough of them to pay for that order."""
    return right.modulus == count >= max(table.sorted_from, 2 * right.count)


def multiply(
    op: str,
    given: Operands,
    batch: tuple[int, ...],
    lines: int,
    left: Side,
    right: Side,
    stream: Stream,
    out: Array | None,
    shape: tuple[int, ...] | None = None,
    *,
    in_runs: bool = True,
    order: Array | None = None,
) -> Array:
    """Launch the products of a batch of [lines, K] with matrices, and return the result.

    With `in_runs`, neighbouring products are likely to be with the same matrix; so are neighbours in `order`.
    """
    x, form = given.x, given.form
    operands = {
        "x": x,
        "weight": given.w,
        "scales": given.scales,
        "biases": given.scales if given.biases is None else given.biases,
        "left_indices": given.w if left.indices is None else left.indices,
        "right_indices": given.w if right.indices is None else right.indices,
    }
    out = result(op, out, shape or (*batch, lines, given.columns), x.dtype, stream, operands)
    flags = (left.indices is not None) | (right.indices is not None) << 1
    count, target = size_of(batch) * lines, target_of(stream)
    numbers = left.numbers, right.numbers
    sizes = given.columns, x.shape[-1], count, lines
    is_single = not batch and not flags
    is_whole = is_single and given.is_packed and not out.address % 16
    if "wgmma" in target.features and is_whole and given.biases is not None:
        whole = Product(given.columns, x.shape[-1], count, form.group_size, form.bits, False)
        plan = wgmma_plan(whole, x.dtype, False, target)
        if plan is not None:
            plan.run(stream, out, x, given.w, given.scales, given.biases)
            return out
    if given.has_tiles and in_runs and count > target.table.untiled_rows:
        rows, is_stack = None, left.indices is None and right.indices is not None and lines == 1
        if (is_single or is_stack) and given.biases is not None:
            parts = given.w, given.scales, given.biases
            rows = chosen_rows(x, *parts, form, given.columns, count, *numbers, is_single, target)
        tiles = tiles_plan(form, x.dtype, *sizes, *numbers, flags | (order is not None) << 2, target, rows, is_single)
        tiles.run(stream, out=out, order=given.w if order is None else order, **operands)
        return out
    for launch in launches_of(form, x.dtype, *sizes, *numbers, flags, given.is_packed, given.is_transposed, target):
        launch(stream, out=out, **operands)
    return out


@Planned
def launches_of(
    form: Format,
    dtype: np.dtype[Any],
    columns: int,
    depth: int,
    count: int,
    lines: int,
    left: Numbers,
    right: Numbers,
    flags: int,
    is_packed: bool,
    is_transposed: bool,
    target: Target,
) -> tuple[Launch, ...]:
    """Return the launches of the kernels of single rows; each takes as many rows of results as a grid can have."""
    stretch = min(MOST_ROWS, max(1, target.table.loop_bytes * 8 // max(depth * form.bits, 1)))
    sizes = {"width": depth, "lines": lines, "given": flags, **named(left, right)}
    if is_packed:
        kernel, each_group = PACKED, stretch if target.takes_loops else SIMDGROUPS * ROWS
        template = {"T": dtype, "GROUP": form.group_size, "BITS": form.bits}
        sizes |= {"rows": columns, "stretch": stretch}
    else:
        stretch = -(-stretch // 8) * 8
        kernel, each_group = KERNEL, SIMDGROUPS if is_transposed else SIMDGROUPS * 32
        each_group = stretch if target.takes_loops else each_group
        template = {"T": dtype, "TRANSPOSED": is_transposed}
        sizes |= {"columns": columns, "span": form.group_size, "bits": form.bits, "mode": form.number}
        sizes["stretch"] = stretch
    groups, threads = -(-columns // each_group), (1 if target.takes_loops else SIMDGROUPS * 32, 1, 1)
    return tuple(
        Launch(kernel, (groups, min(ITEMS, count - start), 1), threads, template, start=start, **sizes)
        for start in items(count)
    )
