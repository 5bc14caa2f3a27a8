"""Products with quantised matrices, which indices may choose from a stack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form, array, make
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import FLOATS, result
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.kernels.ops.elementwise.copies import astype, contiguous
from hiprt.kernels.ops.matmul.stacks import ITEMS, SCALARS, Numbers, Side, index_array, items, named, side_of, size_of
from hiprt.kernels.ops.promotion import promote
from hiprt.kernels.ops.quantized.formats import (
    AFFINE_BITS,
    BITS,
    GROUP_SIZES,
    UINT8,
    Format,
    check_matrix,
    format_of,
    listed,
)
from hiprt.kernels.ops.quantized.gathered_tiles import GatheredPlan, gathered_plan
from hiprt.kernels.ops.quantized.wgmma_tiles import wgmma_plan
from hiprt.kernels.ops.reduction.sort import argsort
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.table import DEFAULT, Table
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tile_splits import split_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["ONE", "Operands", "gather_qmm", "multiply", "operands_of"]

ONE = Side(1, 1, 1)  # a side with one matrix

PACKED_INPUTS = {
    "x": "T",
    "weight": "uint",
    "scales": "T",
    "biases": "T",
    "left_indices": "uint",
    "right_indices": "uint",
}
BODY = OPS / "quantized/quantized_tiles.metal"
MATRIX = ("x", "weight", "scales", "biases")  # what a product with one matrix reads
FLOAT32 = np.dtype(np.float32)
TILE_COLUMNS = 64
UNPACKED_ROWS = 32  # rows whose products take as long as unpacking the weights of their tile, by count of machine code
SIMDGROUPS = 4
ROWS = 2  # rows that a simdgroup takes, as in the packed kernel
MOST_ROWS = 64  # rows that a plain loop on the CPU device takes, as in the packed kernel


def tile_choices(dtype: np.dtype[Any], takes_loops: bool, table: Table = DEFAULT) -> tuple[int, ...]:
    """Return the numbers of rows that a tile may have, the largest first."""
    return table.tile_rows if dtype.itemsize == 2 and not takes_loops else table.tile_rows[-1:]


def tile_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel of tiles that are compiled ahead; others are at first use.

    Those are all of codes that have other kernels of their own, and the smallest tile of the others.
    """
    rare = [bits for bits in AFFINE_BITS if bits not in BITS]
    smallest = each(BITS=rare, ROWS=lambda dtype, loops: tile_choices(dtype, loops)[-1:])(takes_loops)
    return [*each(BITS=BITS, ROWS=tile_choices)(takes_loops), *(one for one in smallest if one["T"].itemsize == 2)]


PACKED = Kernel(
    "quantized/quantized_matmul",
    inputs=PACKED_INPUTS,
    outputs={"out": "T"},
    scalars={"rows": "uint", "width": "uint", "stretch": "uint", **SCALARS},
    template={"T": "dtype", "GROUP": "int", "BITS": "int"},
    headers=("quantized/codes.h", "matmul/stack.h"),
    threads=128,
    instances=each(GROUP=GROUP_SIZES, BITS=BITS),
)
KERNEL = Kernel(
    "quantized/gather_qmm",
    inputs={
        "x": "T",
        "weight": "uint",
        "scales": "uchar",
        "biases": "uchar",
        "left_indices": "uint",
        "right_indices": "uint",
    },
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
# What the body of tiles is given where threadgroups share the width of a tile, of a product with one matrix.
SHARED = (
    "#define HIPRT_SHARED_TILES 1",
    "constexpr bool SHARED = true;",
    "constexpr uint left_divisor = 1, left_modulus = 1, left_count = 1;",
    "constexpr uint right_divisor = 1, right_modulus = 1, right_count = 1;",
    "const uint lines = count, given = 0;",
    "const device uint *left_indices = nullptr, *right_indices = nullptr, *order = nullptr;",
)


def tiles_kernel(name: str, *, is_shared: bool = False) -> Kernel:
    """Return a kernel around the body ``quantized_tiles.metal``; with `is_shared`, threadgroups share the width."""
    return Kernel(
        name,
        inputs={name: PACKED_INPUTS[name] for name in MATRIX} if is_shared else {**PACKED_INPUTS, "order": "uint"},
        updates={"arrived": "uint", "parts": "float"} if is_shared else {},
        outputs={"out": "T"},
        scalars={
            "columns": "uint",
            "width": "uint",
            "span": "uint",
            "count": "uint",
            **({"shares": "uint"} if is_shared else {name: SCALARS[name] for name in SCALARS if name != "start"}),
        },
        template={"T": "dtype", "BITS": "int", "ROWS": "int"},
        headers=(
            "quantized/codes.h",
            "matmul/stack.h",
            "matmul/tiles.h",
            "quantized/run_pieces.h",
            "quantized/tile_codes.h",
            "quantized/tile_weights.h",
            "quantized/kept_rows.h",
            "quantized/shared_rows.h",
        ),
        threads=128,
        waves=2,  # hiprtc of HIP 6.4 would take so many registers that there is one
        source="\n".join([*SHARED, '#line 1 "quantized_tiles.metal"', BODY.read_text()]) if is_shared else None,
        instances=None if is_shared else tile_instances,
        ahead=() if is_shared else None,
        part_of="quantized_matmul",
    )


TILES = tiles_kernel("quantized/quantized_tiles")
SHARED_TILES = tiles_kernel("quantized/shared_tiles", is_shared=True)


class Operands(NamedTuple):
    """The operands of a product, which are contiguous and have fitting shapes and dtypes.

    Attributes
    ----------
    x : Array, [..., M, K]
    w, scales : Array
    biases : Array or None
    form : Format
    is_transposed : bool
    columns : int
        The number of columns of the result, N.
    """

    x: Array
    w: Array
    scales: Array
    biases: Array | None
    form: Format
    is_transposed: bool
    columns: int

    @property
    def is_packed(self) -> bool:
        """Whether the kernel that reads 128 bits at a time takes the operands."""
        return self.form.bits in BITS and self.has_tiles

    @property
    def has_tiles(self) -> bool:
        """Whether the kernel of tiles takes the operands."""
        return self.form.is_affine and self.is_transposed and not (self.x.address | self.w.address) % 16


def operands_of(
    op: str,
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None,
    is_transposed: bool,
    form: Format,
    stream: Stream,
) -> Operands:
    """Return the operands of a product after checking and promoting them.

    Raises
    ------
    ValueError
        A dtype is wrong, or the shapes do not fit.
    """
    dtype, columns, is_ready = checked(op, x, w, scales, biases, is_transposed, form)
    if is_ready:
        return Operands(x, w, scales, biases, form, is_transposed, columns)
    if not (x.dtype == dtype and x.is_contiguous):
        x = astype(x, dtype, stream=stream)
    if not (w.is_contiguous and scales.is_contiguous and scales.dtype in (dtype, UINT8)):
        w = contiguous(w, stream=stream)
        scales = astype(scales, dtype if form.is_affine else scales.dtype, stream=stream)
    if biases is not None and not (biases.dtype == dtype and biases.is_contiguous):
        biases = astype(biases, dtype, stream=stream)
    return Operands(x, w, scales, biases, form, is_transposed, columns)


@Planned
def checked(
    op: str, x: Form, w: Form, scales: Form, biases: Form | None, is_transposed: bool, form: Format
) -> tuple[np.dtype[Any], int, bool]:
    """Return the result's dtype and columns, and whether kernels take the operands without copies."""
    *_, rows, width = check_matrix(op, w, scales, biases, form)
    floats = [x, scales, biases] if form.is_affine and biases is not None else [x]
    for value in floats:
        if value.dtype not in FLOATS:
            raise ValueError(f"[{op}] Only real floating types are supported but received {value.dtype}.")
    if not x.ndim:
        raise ValueError(f"[{op}] The first input must have at least one dimension.")
    inner, columns = (width, rows) if is_transposed else (rows, width)
    if x.shape[-1] != inner:
        raise ValueError(
            f"[{op}] Last dimension of first input with shape (..., {x.shape[-1]}) does not match the expanded "
            f"quantized matrix ({inner}, {columns}) computed from shape {listed(w.shape)} with "
            f"group_size={form.group_size}, bits={form.bits} and transpose={str(is_transposed).lower()}"
        )
    dtype = promote(*(value.dtype for value in floats))
    given = [each for each in (x, w, scales, biases) if each is not None]
    kinds = [(x, (dtype,)), (scales, (dtype, UINT8)), *([(biases, (dtype,))] if biases else [])]
    is_ready = all(each.is_contiguous for each in given) and all(each.dtype in known for each, known in kinds)
    return dtype, columns, is_ready


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
            plan.run(stream, out, indices=right.indices, **operands)
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
    is_served = is_affine and is_chosen and is_each and is_worth_sorting(right, count, target.table)
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


def tile_rows(dtype: np.dtype[Any], count: int, target: Target, *, is_single: bool = False) -> int:
    """Return the rows of a tile for matrices that each have `count` rows: large tiles where several still remain.

    The target may have tiles of which those with the least work are taken. Rows that are multiplied with a matrix start
    anywhere in a tile, but for those of a single one: they are half a piece more where they are more than one.
    """
    choices = tile_choices(dtype, target.takes_loops, target.table)
    if dtype.itemsize == 2 and target.table.matrix_tile_rows:

        def work(rows: int) -> float:
            pieces = -(-count // rows) if is_single else max(1.0, count / rows + 0.5)
            return pieces * (rows + UNPACKED_ROWS)

        return min(target.table.matrix_tile_rows, key=work)
    return next((rows for rows in choices if count >= 4 * rows), choices[-1])


@Planned
def chosen_rows(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    form: Format,
    columns: int,
    count: int,
    left: Numbers,
    right: Numbers,
    is_single: bool,
    target: Target,
) -> int:
    """Return the rows of a tile of a product: the rules', or those that timing has chosen.

    Numbers of rows between two powers of two have one choice. Where there is not one matrix but a stack, vectors choose
    matrices; as many rows of each are timed, one matrix behind the other.
    """
    dtype, width, matrices = x.dtype, x.shape[-1], right[-1]
    rule = tile_rows(dtype, count // max(matrices, 1), target, is_single=is_single)
    least = 1 << (count.bit_length() - 1)
    others = (rows for rows in tile_choices(dtype, target.takes_loops, target.table) if rows <= least)

    def run(way: int) -> Run:
        lines, flags = (count, 0) if is_single else (1, 2)
        plan = tiles_plan(form, dtype, columns, width, count, lines, left, right, flags, target, way, is_single)
        evenly, chosen = np.arange(count) * matrices // count, list[Array]()

        def launched(stream: Stream, given: dict[str, Any]) -> None:
            if not chosen:
                chosen.append(given["weight"] if is_single else array(evenly.astype(np.uint32), stream=stream))
            unread = dict.fromkeys(("left_indices", "order"), given["weight"])
            plan.run(stream, out=make((count, columns), dtype, stream), right_indices=chosen[0], **given, **unread)

        return launched

    kind = f"{form.bits} bits in groups of {form.group_size}, {dtype}"
    what = "quantized_matmul" if is_single else f"gather_qmm {matrices} of"
    name = f"{what} {columns}x{width} of {kind}, {least} to {2 * least - 1} rows"
    operands = {"x": x, "weight": w, "scales": scales, "biases": biases}
    return choose(target, name, [rule, *(rows for rows in others if rows != rule)], operands, run)


class TilesPlan(NamedTuple):
    """A launch of a kernel of tiles, and what threadgroups leave that share the width of one.

    Attributes
    ----------
    launch : Launch
    parts : tuple of int, or None
        The shape of the sums of each tile, by the threadgroup that leaves them; None where none share a tile.
    """

    launch: Launch
    parts: tuple[int, ...] | None = None

    def run(self, stream: Stream, **operands: Array) -> None:
        """Launch on a stream."""
        if self.parts is None:
            self.launch(stream, **operands)
        else:
            given = {name: operands[name] for name in ("out", *MATRIX)}
            self.launch(stream, **given, arrived=arrivals(stream), parts=make(self.parts, FLOAT32, stream))


@Planned
def tiles_plan(
    form: Format,
    dtype: np.dtype[Any],
    columns: int,
    depth: int,
    count: int,
    lines: int,
    left: Numbers,
    right: Numbers,
    flags: int,
    target: Target,
    rows: int | None = None,
    is_single: bool = False,
) -> TilesPlan:
    """Return the plan for `count` rows of results; the rules have the rows of a tile.

    Where there `is_single`, one matrix, threadgroups may share the width of a tile.
    """
    rows = rows or tile_rows(dtype, count // max(right[-1], 1), target, is_single=right[-1] == 1)
    split = split_of(columns, depth, count, rows, target) if is_single and dtype.itemsize == 2 else 1
    grid = (-(-count // rows), -(-columns // TILE_COLUMNS), split)
    launch = Launch(
        SHARED_TILES if split > 1 else TILES,
        grid,
        (1 if target.takes_loops else SIMDGROUPS * 32, 1, 1),
        {"T": dtype, "BITS": form.bits, "ROWS": rows},
        columns=columns,
        width=depth,
        span=form.group_size,
        count=count,
        **({"shares": split} if split > 1 else {"lines": lines, "given": flags, **named(left, right)}),
    )
    return TilesPlan(launch, (grid[0] * grid[1], split, rows, TILE_COLUMNS) if split > 1 else None)


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
