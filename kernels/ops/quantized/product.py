"""A quantised product with what a layer does before and after it: one kernel for a few rows, ops for more."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.ops.elementwise.add import add
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.norm.rms_norm import rms_norm
from hiprt.kernels.ops.quantized.qmv import MOST, qmv
from hiprt.kernels.ops.quantized.quantized_matmul import quantized_matmul
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["product"]


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

    Up to 8 rows are one kernel. More are computed by `rms_norm`, `quantized_matmul`, `silu_mul` and `add`, which round
    in between. The arguments are those of `qmv`.

    Returns
    -------
    Array, [B, N] or [B, N / 2]

    Raises
    ------
    TypeError, ValueError
        What these ops raise.
    """
    stream = stream or current_stream()
    if x.shape[0] <= MOST:
        return qmv(
            x,
            w,
            scales,
            biases,
            group_size=group_size,
            bits=bits,
            norm=norm,
            eps=eps,
            residual=residual,
            swiglu=swiglu,
            stream=stream,
        )
    normed = x if norm is None else rms_norm(x, norm, eps, stream=stream)
    y = quantized_matmul(normed, w, scales, biases, True, group_size, bits, stream=stream)
    if swiglu:
        half = y.shape[1] // 2
        y = silu_mul(*(contiguous(part, stream=stream) for part in (y[:, :half], y[:, half:])), stream=stream)
    return y if residual is None else add(residual, y, stream=stream)
