"""The residual sum and its root-mean-square normalisation, in one kernel."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.norm.row_launch import grid_of, vector
from hiprt.kernels.ops.operands import floating, made, same
from hiprt.stream import Stream, current_stream

__all__ = ["add_rms_norm"]

KERNEL = Kernel(
    "norm/add_rms_norm",
    inputs={"x": "T", "residual": "T", "weight": "T"},
    outputs={"sum": "T", "out": "T"},
    scalars={"width": "uint", "eps": "float"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    aliasing={"sum": ("x", "residual"), "out": ("x", "residual", "weight")},
)


def add_rms_norm(
    x: Array,
    residual: Array,
    weight: Array,
    eps: float,
    *,
    stream: Stream | None = None,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return ``s = x + residual`` and ``s / sqrt(mean(s**2) + eps) * weight`` over the last axis.

    Parameters
    ----------
    x, residual : Array, [..., D]
        float16, bfloat16 or float32, of one shape and dtype.
    weight : Array, [D]
        Of the dtype of `x`.
    eps : float
    stream : Stream, optional
        This thread's by default.
    out : tuple of 2 Array, optional
        Receive the results; the first may be `x` or `residual`.

    Returns
    -------
    sum, normed : Array
        The shape and dtype of `x`. The sum is rounded before it is normalised, so that both are those of `add` and then
        `rms_norm`, but for the order of the sum of squares.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        A shape does not fit, an array is not contiguous, or a result overlaps another array.
    """
    op = "add_rms_norm"
    floating(op, "x", x)
    same(op, "residual", residual, "x", x)
    if not x.ndim or residual.shape != x.shape:
        raise ValueError(
            f"{op}: x has shape {x.shape} and residual {residual.shape}; they must be the same, of an axis"
        )
    vector(op, "weight", weight, x)
    stream = stream or current_stream()
    first, second = out or (None, None)
    total = made(op, first, x.shape, x.dtype, stream, (x, residual), aliasing=True)
    total = made(op, total, x.shape, x.dtype, stream, (weight,))
    normed = made(op, second, x.shape, x.dtype, stream, (x, residual, weight, total))
    width = x.shape[-1]
    grid, threads = grid_of(stream, x.size // max(width, 1), width)
    KERNEL(stream, grid, threads, (x.dtype,), x, residual, weight, total, normed, width, eps)
    return total, normed
