"""A quantised product with what a layer does before and after it: kernels for a few rows, ops for more."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hiprt.array import Array, Form, empty
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.elementwise.add import add
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.norm.rms_norm import rms_norm
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.qmv import qmv
from hiprt.kernels.ops.quantized.qmv_ways import MOST, chosen, most_vectors
from hiprt.kernels.ops.quantized.quantized_matmul import quantized_matmul
from hiprt.kernels.ops.quantized.wgmma_tiles import wgmma_plan
from hiprt.kernels.tuning.target import target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["product", "rows_alike"]


@op
def product(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int,
    bits: int,
    norm: Array | None = None,
    eps: float = 1e-6,
    residual: Array | None = None,
    swiglu: bool = False,
    stream: Stream | None = None,
) -> Array:
    """Return what `qmv` returns, for any number of rows.

    Up to 8 rows are one kernel, and up to 16 where `qmv` takes as many. More rows are computed by `rms_norm`,
    `quantized_matmul`, `silu_mul` and `add`, which round in between; one kernel does what the last three do, with the
    same bits, where `wgmma_tiles_of` finds tiles. Where it does not, and a target reads a matrix several times in the
    time in which it multiplies tiles of it, up to `Table.vector_rows` rows of 16-bit numbers, with codes of 4 or 8
    bits, are kernels of 8. The arguments are those of `qmv`.

    Returns
    -------
    Array, [B, N] or [B, N / 2]

    Raises
    ------
    TypeError, ValueError
        What these ops raise.
    """
    stream = stream or current_stream()
    few = partial(qmv, group_size=group_size, bits=bits, norm=norm, eps=eps, swiglu=swiglu, stream=stream)
    rows, target = x.shape[0], target_of(stream)
    if rows <= MOST or rows <= most_vectors(w, x.dtype, group_size, bits, swiglu, target):
        return few(x, w, scales, biases, residual=residual)
    whole = product_of(x, w, scales, biases, residual, group_size, bits, swiglu)
    plan = None if whole is None else wgmma_plan(whole, x.dtype, residual is not None, target)
    if plan is None and x.dtype.itemsize == 2 and bits in BITS and rows <= target.table.vector_rows:
        out = empty((rows, w.shape[0] // 2 if swiglu else w.shape[0]), x.dtype, stream)
        for start in range(0, rows, MOST):
            part = slice(start, start + MOST)
            added = None if residual is None else residual[part]
            few(x[part], w, scales, biases, residual=added, out=out[part])
        return out
    normed = x if norm is None else rms_norm(x, norm, eps, stream=stream)
    if plan is not None:
        out = empty((rows, w.shape[0] // 2 if swiglu else w.shape[0]), x.dtype, stream)
        plan.run(stream, out, normed, w, scales, biases, residual)
        return out
    y = quantized_matmul(normed, w, scales, biases, True, group_size, bits, stream=stream)
    if swiglu:
        half = y.shape[1] // 2
        y = silu_mul(*(contiguous(part, stream=stream) for part in (y[:, :half], y[:, half:])), stream=stream)
    return y if residual is None else add(residual, y, stream=stream)


@Planned
def product_of(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    residual: Form | None,
    group_size: int,
    bits: int,
    is_gated: bool,
) -> Product | None:
    """Return the product of operands that a kernel takes as they are; None for others, which other ops judge."""
    if x.ndim != 2 or w.ndim != 2 or group_size not in GROUP_SIZES:
        return None
    (count, width), rows = x.shape, w.shape[0]
    groups = (rows, width // group_size)
    shapes = [(w, (rows, width * bits // 32)), (scales, groups), (biases, groups)]
    if residual is not None:
        shapes.append((residual, (count, rows // 2 if is_gated else rows)))
    fits = all(each.shape == shape and each.is_contiguous and each.is_aligned for each, shape in shapes)
    floats = all(each.dtype == x.dtype for each, _ in shapes[1:])
    if not (fits and floats and w.dtype == UINT32 and x.is_contiguous and x.is_aligned and rows % (1 + is_gated) == 0):
        return None
    return Product(rows, width, count, group_size, bits, is_gated)


def rows_alike(
    w: Array,
    dtype: np.dtype[Any],
    *,
    group_size: int,
    bits: int,
    swiglu: bool = False,
    stream: Stream | None = None,
) -> int:
    """Return how many rows `product` takes at a time on a GPU, each with the bits that it has by itself.

    Parameters
    ----------
    w, group_size, bits, swiglu, stream
        As `product` takes them.
    dtype : numpy.dtype
        That of the rows.

    Returns
    -------
    int
        From 1 to 8.
    """
    target = target_of(stream or current_stream())
    one = Product(w.shape[0], w.shape[1] * 32 // bits, 1, group_size, bits, swiglu)
    rows = range(2, MOST + 1)
    return max((n for n in rows if isinstance(chosen(target, dtype, one._replace(batch=n)), VectorRing)), default=1)
