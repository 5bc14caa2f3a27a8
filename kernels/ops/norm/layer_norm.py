"""Layer normalisation."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.norm.row_launch import grid_of, vector
from hiprt.kernels.ops.operands import floating, made
from hiprt.stream import Stream, current_stream

__all__ = ["layer_norm"]

KERNEL = Kernel(
    "norm/layer_norm",
    inputs={"x": "T", "weight": "T", "bias": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint", "given": "uint", "eps": "float"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    aliasing={"out": ("x", "weight", "bias")},
)


def layer_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``(x - mean) / sqrt(variance + eps) * weight + bias`` over the last axis.

    Parameters
    ----------
    x : Array, [..., D]
        float16, bfloat16 or float32.
    weight, bias : Array, [D], or None
        Of the dtype of `x`; None means ones, and zeros.
    eps : float
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `x`.

    Returns
    -------
    Array
        The shape and dtype of `x`; computed in float32, in two passes, and rounded once.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        `x` has no axis, `weight` or `bias` is not [D], an array is not contiguous, or `out` overlaps an input in part.
    """
    op = "layer_norm"
    floating(op, "x", x)
    if not x.ndim:
        raise ValueError(f"{op}: x has no axis")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            vector(op, name, value, x)
    stream = stream or current_stream()
    inputs = x, x if weight is None else weight, x if bias is None else bias
    out = made(op, out, x.shape, x.dtype, stream, inputs, aliasing=True)
    width = x.shape[-1]
    given = (weight is not None) | (bias is not None) << 1
    KERNEL(stream, *grid_of(stream, x.size // max(width, 1), width), (x.dtype,), *inputs, out, width, given, eps)
    return out
