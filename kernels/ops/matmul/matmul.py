"""Products of matrices that are not quantised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import result
from hiprt.kernels.ops.broadcasting import broadcast_shapes, broadcast_to, period
from hiprt.kernels.ops.elementwise.add import add
from hiprt.kernels.ops.elementwise.binary import complex, subtract  # noqa: A004
from hiprt.kernels.ops.elementwise.copies import astype, contiguous
from hiprt.kernels.ops.elementwise.unary import imag, real
from hiprt.kernels.ops.matmul.stacks import ITEMS, items
from hiprt.kernels.ops.promotion import is_complex, is_float, promote, strided
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["matmul"]

PARTS = real, imag
SIMDGROUPS = 4
STRETCH = 64  # columns of one plain loop on the CPU device
TILE_ROWS = (64, 32)
TILE_COLUMNS, TILE_DEPTH, RUN = 64, 32, 8
PERIODS = dict.fromkeys(("left_divisor", "left_modulus", "right_divisor", "right_modulus"), "uint")
KERNEL = Kernel(
    "matmul/matmul",
    inputs={"a": "T", "b": "T"},
    outputs={"out": "T"},
    scalars={
        "columns": "uint",
        "depth": "uint",
        "a_line": "uint",
        "a_step": "uint",
        "stretch": "uint",
        "lines": "uint",
        **PERIODS,
        "start": "uint",
    },
    template={"T": "dtype", "DOTS": "bool"},
    threads=128,
    instances=each(DOTS=(False, True)),
)


def tile_instances(takes_loops: bool) -> list[dict[str, Any]]:
    """List the instances of the kernel of tiles: those of 16-bit numbers, on GPUs."""
    every = each(DOTS=(False, True), ROWS=TILE_ROWS)(takes_loops)
    return [one for one in every if one["T"].itemsize == 2 and not takes_loops]


TILES = Kernel(
    "matmul/matmul_tiles",
    inputs={"a": "T", "b": "T"},
    outputs={"out": "T"},
    scalars={"columns": "uint", "depth": "uint", "lines": "uint", **PERIODS},
    template={"T": "dtype", "DOTS": "bool", "ROWS": "int"},
    headers=("matmul/tiles.h",),
    threads=128,
    instances=tile_instances,
    part_of="matmul",
)


@op
def matmul(a: Array, b: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return ``a @ b``.

    Parameters
    ----------
    a : Array, [..., M, K] or [K]
        The left matrices, of any strides. Transposed matrices are not copied.
    b : Array, [..., K, N] or [K]
        The right matrices, whose leading axes broadcast with those of `a`.

    Returns
    -------
    Array, [..., M, N]
        The products, of the promoted dtype; they are summed in float32 and rounded once. An operand with a single axis
        leaves out M or N. A product of complex64 is made of four products of its parts.

    Raises
    ------
    TypeError
        An argument is not an array.
    ValueError
        A dtype is not floating, the shapes do not fit, or `out` overlaps an input.

    Notes
    -----
    Rows share nothing, as suits the few of decoding. More than 8 rows of 16-bit numbers go by tiles on AMD GPUs, by
    matrix instructions where these have them; then K is a multiple of 32, and `a` and `b` start at one of 16 bytes.
    """
    op = "matmul"
    strided(op, "a", a)
    strided(op, "b", b)
    dtype = promote(a.dtype, b.dtype)
    if is_complex(dtype):
        return complex_product(a, b, stream or current_stream(), out)
    if not is_float(dtype):
        raise ValueError(f"[{op}] Only real floating point types are supported but {a.dtype} and {b.dtype} were given.")
    if not a.ndim or not b.ndim:
        raise ValueError(f"[{op}] Got 0 dimension input. Inputs must have at least one dimension.")
    stream = stream or current_stream()
    left = a[None] if a.ndim == 1 else a
    right = b[:, None] if b.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(
            f"[{op}] Last dimension of first input with shape {left.shape} must match second to last dimension of "
            f"second input with shape {right.shape}."
        )
    full = broadcast_shapes(op, left.shape[:-2], right.shape[:-2])
    lines, depth, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    shape = (*full, *((lines,) if a.ndim > 1 else ()), *((columns,) if b.ndim > 1 else ()))
    left, right = (plain(v if v.dtype == dtype else astype(v, dtype, stream=stream), stream) for v in (left, right))
    out = result(op, out, shape, dtype, stream, {"a": left, "b": right})
    if stream.written is not None and not stream.plans_launches:
        stream.written.append(out)
        return out
    left, left_period = placed(left, full, stream)
    right, right_period = placed(right, full, stream)
    is_dots = not right.is_contiguous
    line = (depth, 1) if left.is_contiguous else (1, lines)
    count = math.prod(full) * lines
    periods = left_period, right_period
    target = target_of(stream)
    left, right = in_rows(left), in_rows(right)
    launches = None
    if line[1] == 1 and not (left.address | right.address) % 16:
        launches = tiles_of(dtype, is_dots, columns, depth, lines, count, *periods, target)
    if launches is None:
        launches = launches_of(dtype, is_dots, columns, depth, lines, count, line, *periods, target)
    for launch in launches:
        launch(stream, a=left, b=right, out=out)
    return out


def complex_product(a: Array, b: Array, stream: Stream, out: Array | None) -> Array:
    """Return ``a @ b`` of complex numbers."""
    parts = {(x, y): matmul(x(a, stream=stream), y(b, stream=stream), stream=stream) for x in PARTS for y in PARTS}
    whole = subtract(parts[real, real], parts[imag, imag], stream=stream)
    return complex(whole, add(parts[real, imag], parts[imag, real], stream=stream), stream=stream, out=out)


@Planned
def tiles_of(
    dtype: np.dtype[Any],
    is_dots: bool,
    columns: int,
    depth: int,
    lines: int,
    count: int,
    left: tuple[int, int],
    right: tuple[int, int],
    target: Target,
) -> tuple[Launch, ...] | None:
    """Return the launch of the kernel of tiles for `count` rows of results; None where it does not take them."""
    is_whole = depth > 0 and depth % TILE_DEPTH == 0 and (is_dots or columns % RUN == 0) and columns > 0
    rows = next((rows for rows in TILE_ROWS if lines >= 4 * rows), TILE_ROWS[-1])
    tiles = -(-lines // rows) * (count // lines) if lines else 0
    is_large = target.table.multiplies_tiles and lines > target.table.untiled_rows and tiles <= ITEMS
    if target.takes_loops or dtype.itemsize != 2 or not is_whole or not is_large:
        return None
    sizes = {"columns": columns, "depth": depth, "lines": lines, **dict(zip(PERIODS, (*left, *right)))}
    template = {"T": dtype, "DOTS": is_dots, "ROWS": rows}
    return (Launch(TILES, (-(-columns // TILE_COLUMNS), tiles, 1), (SIMDGROUPS * 32, 1, 1), template, **sizes),)


@Planned
def launches_of(
    dtype: np.dtype[Any],
    is_dots: bool,
    columns: int,
    depth: int,
    lines: int,
    count: int,
    line: tuple[int, int],
    left: tuple[int, int],
    right: tuple[int, int],
    target: Target,
) -> tuple[Launch, ...]:
    """Return the launches for `count` rows of results; each takes as many rows as a grid can have.

    `line` is the distance between a's rows, and between the elements of one. `left` and `right` are the divisor and the
    modulus by which a product's number gives its matrix of the stack.
    """
    groups = -(-columns // (STRETCH if target.takes_loops else SIMDGROUPS if is_dots else SIMDGROUPS * 32))
    threads = (1 if target.takes_loops else SIMDGROUPS * 32, 1, 1)
    sizes = {"columns": columns, "depth": depth, "stretch": STRETCH, "lines": lines}
    sizes |= dict(zip(("a_line", "a_step"), line))
    sizes |= dict(zip(PERIODS, (*left, *right)))
    return tuple(
        Launch(
            KERNEL, (groups, min(ITEMS, count - start), 1), threads, {"T": dtype, "DOTS": is_dots}, start=start, **sizes
        )
        for start in items(count)
    )


def plain(x: Array, stream: Stream) -> Array:
    """Return a stack whose matrices lie without gaps, by rows or by columns; it is a copy where they do not."""
    return x if in_rows(x).is_contiguous else contiguous(x, stream=stream)


def in_rows(x: Array) -> Array:
    """Return a stack in the order of its memory: matrices that lie by columns are transposed."""
    return x if x.is_contiguous else x.transpose(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)


def placed(x: Array, full: tuple[int, ...], stream: Stream) -> tuple[Array, tuple[int, int]]:
    """Return a stack, and the divisor and modulus of its matrices; it is a copy where broadcasting has no such form."""
    batch = x.shape[:-2]
    found = period_of(batch, full)
    if found is not None:
        return x, found
    spread = contiguous(broadcast_to(x, (*full, *x.shape[-2:])), stream=stream)
    return spread, (1, max(1, math.prod(full)))


def period_of(batch: tuple[int, ...], full: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the divisor and the modulus, at least 1, of a stack's matrices in a batch; None where none describe it."""
    found = period(batch, full)
    return None if found is None else (max(1, found[0]), max(1, found[1]))
