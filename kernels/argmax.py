"""The place of the largest value."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import INT32, floating, made
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["argmax"]

KERNEL = Kernel(
    "argmax",
    inputs={"x": "T"},
    outputs={"out": "int"},
    scalars={"width": "uint"},
    template={"T": "dtype"},
    headers=("largest.h",),
    threads=1024,
)
THREADS = 1024


def argmax(x: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return the index of the largest value along the last axis.

    Of equal values (0 and -0 are equal) the lowest index wins; the first NaN wins over every number, as in numpy.

    Parameters
    ----------
    x : Array, [..., D]
        float16, bfloat16 or float32; D at least 1.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [...]
        int32.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        The last axis is missing or empty, an array is not contiguous, or `out` overlaps `x`.
    """
    floating("argmax", "x", x)
    if not x.ndim or not x.shape[-1]:
        raise ValueError(f"argmax: x has shape {x.shape}; the last axis must not be empty")
    stream = stream or current_stream()
    out = made("argmax", out, x.shape[:-1], INT32, stream, (x,))
    width = x.shape[-1]
    threads = 1 if uses_loops(stream) else min(THREADS, -(-width // 32) * 32)
    KERNEL(stream, (x.size // width, 1, 1), (threads, 1, 1), (x.dtype,), x, out, width)
    return out
