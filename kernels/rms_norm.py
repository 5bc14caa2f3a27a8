"""Root-mean-square normalisation."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import floating, made, same
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["rms_norm"]

KERNEL = Kernel(
    "rms_norm",
    inputs={"x": "T", "weight": "T"},
    outputs={"out": "T"},
    scalars={"rows": "uint", "width": "uint", "stretch": "uint", "eps": "float"},
    template={"T": "dtype", "WEIGHTED": "bool", "SIMDGROUPS": "int", "RUN": "int"},
    aliasing={"out": ("x", "weight")},
)
STRETCH = 16384  # elements of one plain loop on the CPU device
LONG_ROW = 1024  # from here on several simdgroups share a row
SIMDGROUPS = 8


def rms_norm(
    x: Array, weight: Array | None, eps: float, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return ``x / sqrt(mean(x**2) + eps) * weight`` over the last axis, computed in float32 and rounded once.

    Parameters
    ----------
    x : Array, [..., D]
        float16, bfloat16 or float32.
    weight : Array, [D], or None
        Of the dtype of `x`; None means ones.
    eps : float
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `x`.

    Returns
    -------
    Array
        The shape and dtype of `x`.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        `x` has no axis, `weight` is not [D], an array is not contiguous, or `out` overlaps an input in part.

    Notes
    -----
    Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    """
    floating("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x has no axis")
    width = x.shape[-1]
    if weight is not None:
        same("rms_norm", "weight", weight, "x", x)
        if weight.shape != (width,):
            raise ValueError(f"rms_norm: weight has shape {weight.shape}; {(width,)} is needed")
    stream = stream or current_stream()
    inputs = (x, x if weight is None else weight)
    out = made("rms_norm", out, x.shape, x.dtype, stream, inputs, aliasing=True)
    rows = x.size // max(width, 1)
    stretch = max(1, STRETCH // max(width, 1))
    simdgroups = SIMDGROUPS if width >= LONG_ROW else 1
    if uses_loops(stream):
        groups, threads, run = -(-rows // stretch), 1, 1
    else:
        groups, threads = rows if simdgroups > 1 else -(-rows // SIMDGROUPS), SIMDGROUPS * 32
        run = 16 // x.dtype.itemsize
        if width % run or (x.address | inputs[1].address | out.address) % 16:
            run = 1
    template = (x.dtype, weight is not None, simdgroups, run)
    KERNEL(stream, (groups, 1, 1), (threads, 1, 1), template, *inputs, out, rows, width, stretch, eps)
    return out
