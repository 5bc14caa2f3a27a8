"""Root-mean-square normalisation with a gate."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.norm.row_launch import grid_of, vector
from hiprt.kernels.ops.operands import floating, made, same
from hiprt.stream import Stream, current_stream

__all__ = ["gated_rms_norm"]

KERNEL = Kernel(
    "norm/gated_rms_norm",
    inputs={"x": "T", "gate": "T", "weight": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint", "eps": "float"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    aliasing={"out": ("x", "gate", "weight")},
)


def gated_rms_norm(
    x: Array, gate: Array, weight: Array, eps: float, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return ``x / sqrt(mean(x**2) + eps) * weight * silu(gate)`` over the last axis.

    Parameters
    ----------
    x, gate : Array, [..., D]
        float16, bfloat16 or float32, of one shape and dtype.
    weight : Array, [D]
        Of the dtype of `x`.
    eps : float
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `x` or `gate`.

    Returns
    -------
    Array
        The shape and dtype of `x`; computed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input in part.

    Notes
    -----
    The output norm of a gated-delta layer, whose heads are the rows.
    """
    op = "gated_rms_norm"
    floating(op, "x", x)
    same(op, "gate", gate, "x", x)
    if not x.ndim or gate.shape != x.shape:
        raise ValueError(
            f"{op}: x has shape {x.shape} and gate {gate.shape}; they must be the same, of an axis or more"
        )
    vector(op, "weight", weight, x)
    stream = stream or current_stream()
    out = made(op, out, x.shape, x.dtype, stream, (x, gate, weight), aliasing=True)
    width = x.shape[-1]
    grid, threads = grid_of(stream, x.size // max(width, 1), width)
    KERNEL(stream, grid, threads, (x.dtype,), x, gate, weight, out, width, eps)
    return out
