"""Addition of two arrays."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.elementwise import launch
from hiprt.kernels.kernel import Kernel
from hiprt.stream import Stream

__all__ = ["add"]

KERNEL = Kernel(
    "add",
    inputs={"a": "T", "b": "T"},
    outputs={"out": "T"},
    scalars={"size": "uint", "stretch": "uint"},
    template={"T": "dtype", "RUN": "int"},
    aliasing=True,
)


def add(a: Array, b: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return ``a + b``, computed in float32 and rounded once.

    Parameters
    ----------
    a, b : Array
        float16, bfloat16 or float32 of one shape and dtype.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `a` or `b`.

    Returns
    -------
    Array
        The shape and dtype of `a`.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        The shapes differ, an array is not contiguous, or `out` overlaps an operand in part.
    """
    return launch(KERNEL, ("a", "b"), a, b, stream, out)
