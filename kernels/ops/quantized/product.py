"""A quantised product with what a layer does before and after it: kernels for a few rows, ops for more."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from hiprt.array import Array, empty
from hiprt.kernels.ops.elementwise.add import add
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.norm.rms_norm import rms_norm
from hiprt.kernels.ops.quantized.qmv import MOST, chosen, qmv
from hiprt.kernels.ops.quantized.quantized_matmul import quantized_matmul
from hiprt.kernels.tuning.target import target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.kernels.tuning.vector_rings import VectorRing
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

    Up to 8 rows are one kernel. Where a target reads a matrix several times in the time in which it multiplies tiles of
    it, up to `Table.vector_rows` rows of 16-bit numbers are such kernels, one for each 8. More rows are computed by
    `rms_norm`, `quantized_matmul`, `silu_mul` and `add`, which round in between. The arguments are those of `qmv`.

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
    rows = x.shape[0]
    if rows <= MOST:
        return few(x, w, scales, biases, residual=residual)
    if x.dtype.itemsize == 2 and rows <= target_of(stream).table.vector_rows:
        out = empty((rows, w.shape[0] // 2 if swiglu else w.shape[0]), x.dtype, stream)
        for start in range(0, rows, MOST):
            part = slice(start, start + MOST)
            added = None if residual is None else residual[part]
            few(x[part], w, scales, biases, residual=added, out=out[part])
        return out
    normed = x if norm is None else rms_norm(x, norm, eps, stream=stream)
    y = quantized_matmul(normed, w, scales, biases, True, group_size, bits, stream=stream)
    if swiglu:
        half = y.shape[1] // 2
        y = silu_mul(*(contiguous(part, stream=stream) for part in (y[:, :half], y[:, half:])), stream=stream)
    return y if residual is None else add(residual, y, stream=stream)


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
