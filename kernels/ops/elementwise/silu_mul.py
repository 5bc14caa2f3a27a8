"""The gate of a gated feed-forward layer."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.elementwise.same_shape_launch import combine
from hiprt.op import op
from hiprt.stream import Stream

__all__ = ["silu_mul"]

KERNEL = Kernel(
    "elementwise/silu_mul",
    inputs={"gate": "T", "up": "T"},
    outputs={"out": "T"},
    scalars={"size": "uint", "stretch": "uint"},
    template={"T": "dtype", "RUN": "int"},
    aliasing={"out": ("gate", "up")},
    instances=each(RUN=runs),
)


@op
def silu_mul(gate: Array, up: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return ``gate / (1 + exp(-gate)) * up``, computed in float32 and rounded once.

    Parameters
    ----------
    gate, up : Array
        float16, bfloat16 or float32 of one shape and dtype.

    Returns
    -------
    Array
        The shape and dtype of `gate`. `out` may be `gate` or `up`.

    Raises
    ------
    TypeError
        A dtype is not supported, or the dtypes differ.
    ValueError
        The shapes differ, an array is not contiguous, or `out` overlaps an operand in part.

    Notes
    -----
    SwiGLU (Shazeer, "GLU Variants Improve Transformer", 2020). ``gate`` of -inf gives NaN, as the formula does.
    """
    return combine(KERNEL, gate, up, stream, out)
