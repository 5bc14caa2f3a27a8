"""Products with quantised matrices, which indices may choose from a stack."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOATS, made
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.kernels.ops.elementwise.copies import astype, contiguous
from hiprt.kernels.ops.matmul.stacks import ITEMS, SCALARS, Side, index_array, items, side_of, size_of
from hiprt.kernels.ops.promotion import promote
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES, UINT8, Format, check_matrix, format_of, listed
from hiprt.kernels.ops.reduction.sort import argsort
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["Operands", "gather_qmm", "multiply", "operands_of"]

PACKED_INPUTS = {
    "x": "T",
    "weight": "uint",
    "scales": "T",
    "biases": "T",
    "left_indices": "uint",
    "right_indices": "uint",
}
TILE_COLUMNS = 64
TILE_ROWS = (128, 64, 32)
FEW_ROWS = 8  # up to here a row alone is faster
SORTED_FROM = 64  # products
SIMDGROUPS = 4
ROWS = 2  # of a simdgroup, as in the packed kernel
MOST_ROWS = 64  # of a plain loop on the CPU device, as in the packed kernel
STRETCH_BYTES = 16384  # weights of one plain loop: a few microseconds
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
        "packed": "uint",
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
TILES = Kernel(
    "quantized/quantized_tiles",
    inputs={**PACKED_INPUTS, "order": "uint"},
    outputs={"out": "T"},
    scalars={
        "columns": "uint",
        "width": "uint",
        "span": "uint",
        "count": "uint",
        **{name: word for name, word in SCALARS.items() if name != "start"},
    },
    template={"T": "dtype", "BITS": "int", "ROWS": "int"},
    headers=("quantized/codes.h", "matmul/stack.h", "matmul/tiles.h"),
    threads=128,
    instances=each(BITS=BITS, ROWS=lambda dtype, loops: TILE_ROWS[-1:] if loops or dtype.itemsize != 2 else TILE_ROWS),
    part_of="quantized_matmul",
)


class Operands(NamedTuple):
    """What a product is made of: contiguous, of fitting shapes and dtypes.

    Attributes
    ----------
    x : Array, [..., M, K]
    w, scales : Array
    biases : Array or None
    form : Format
    is_transposed : bool
    columns : int
        N.
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
        """Whether the kernel that reads 128 bits at a time takes them."""
        aligned = not (self.x.address | self.w.address) % 16
        return self.form.is_affine and self.form.bits in BITS and self.is_transposed and aligned


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
    """Check and promote what a product is given.

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
    """Return the result's dtype and columns, and whether kernels take the operands as they are."""
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
        As `quantize` returns them; no biases for modes of floating codes.
    lhs_indices, rhs_indices : Array, optional
        Of any integer dtype: flat indices into the leading axes of `x` and of `w`; their shapes broadcast. One that is
        not given counts through its operand's leading axes. An index that names no matrix gives zeros.
    transpose : bool
        Whether rows of `w` are multiplied with, instead of columns.
    group_size, bits, mode
        The format, as in `quantize`.
    sorted_indices : bool
        A promise that `rhs_indices` ascend: rows of one matrix lie together, and it is read once for many of them.
        Without it, indices of many rows are sorted first; the result differs only in what `quantized_matmul` rounds
        with many rows.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [*indices, M, N]
        Of the promoted dtype of `x`, `scales` and `biases`; summed in float32 and rounded once.

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
    in_runs, order = sorted_indices or lines > FEW_ROWS, None
    is_sortable = given.is_packed and not in_runs and lines == 1
    if is_sortable and right.indices is not None and is_worth_sorting(right, size_of(full)):
        in_runs, order = True, argsort(right.indices.reshape(-1), stream=stream)
    return multiply(op, given, full, lines, sides[0], right, stream, out, in_runs=in_runs, order=order)


def is_worth_sorting(right: Side, count: int) -> bool:
    """Whether products in the order of their matrices would share enough of them to pay for that order."""
    return right.modulus == count >= max(SORTED_FROM, 2 * right.count)


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
    x, w, scales, form, columns = given.x, given.w, given.scales, given.form, given.columns
    biases = scales if given.biases is None else given.biases
    indices = [w if side.indices is None else side.indices for side in (left, right)]
    out = made(op, out, shape or (*batch, lines, columns), x.dtype, stream, (x, w, scales, biases, *indices))
    count = size_of(batch) * lines
    bits = (left.indices is not None) | (right.indices is not None) << 1
    inputs = x, w, scales, biases, *indices, out
    loops = uses_loops(stream)
    if given.is_packed and in_runs and count > FEW_ROWS:
        rows = tile_rows(x.dtype, count // max(right.count, 1), loops)
        grid = (-(-count // rows), -(-columns // TILE_COLUMNS), 1)
        threads = (1 if loops else SIMDGROUPS * 32, 1, 1)
        sizes = columns, x.shape[-1], form.group_size, count, lines, *left.scalars, *right.scalars, bits
        sizes = *sizes[:-1], bits | (order is not None) << 2
        inputs = *inputs[:-1], w if order is None else order, out
        TILES(stream, grid, threads, (x.dtype, form.bits, rows), *inputs, *sizes)
        return out
    plan = plan_of(form, x.dtype, columns, x.shape[-1], given.is_packed, given.is_transposed, loops)
    for start in items(count):
        scalars = *plan.sizes, lines, *left.scalars, *right.scalars, bits, start
        grid = (plan.groups, min(ITEMS, count - start), 1)
        plan.kernel(stream, grid, plan.threads, plan.template, *inputs, *scalars)
    return out


def tile_rows(dtype: np.dtype[Any], count: int, loops: bool) -> int:
    """Return the rows of a tile, for matrices that each have `count`: large tiles where that still leaves several."""
    fitting = (rows for rows in TILE_ROWS if count >= 4 * rows and dtype.itemsize == 2 and not loops)
    return next(fitting, TILE_ROWS[-1])


class Plan(NamedTuple):
    """A launch, but for the batch."""

    kernel: Kernel
    template: tuple[Any, ...]
    groups: int
    threads: tuple[int, int, int]
    sizes: tuple[int, ...]


@lru_cache(4096)
def plan_of(
    form: Format, dtype: np.dtype[Any], columns: int, depth: int, is_packed: bool, is_transposed: bool, loops: bool
) -> Plan:
    """Return the launch for matrices of these sizes."""
    stretch = min(MOST_ROWS, max(1, STRETCH_BYTES * 8 // max(depth * form.bits, 1)))
    threads = (1 if loops else SIMDGROUPS * 32, 1, 1)
    if is_packed:
        groups = -(-columns // (stretch if loops else SIMDGROUPS * ROWS))
        return Plan(PACKED, (dtype, form.group_size, form.bits), groups, threads, (columns, depth, stretch))
    stretch = -(-stretch // 8) * 8
    groups = -(-columns // (stretch if loops else SIMDGROUPS if is_transposed else SIMDGROUPS * 32))
    sizes = columns, depth, form.group_size, form.bits, form.number, stretch
    return Plan(KERNEL, (dtype, is_transposed), groups, threads, sizes)
