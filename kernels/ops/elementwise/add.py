"""Addition of two arrays."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.operands import FLOATS
from hiprt.kernels.ops.elementwise import binary
from hiprt.kernels.ops.elementwise.expression import Operand
from hiprt.kernels.ops.elementwise.same_shape_launch import combine
from hiprt.op import op
from hiprt.stream import Stream

__all__ = ["add"]

KERNEL = Kernel(
    "elementwise/add",
    inputs={"a": "T", "b": "T"},
    outputs={"out": "T"},
    scalars={"size": "uint", "stretch": "uint"},
    template={"T": "dtype", "RUN": "int"},
    aliasing={"out": ("a", "b")},
    instances=each(RUN=runs),
)


@op
def add(a: Operand, b: Operand, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return ``a + b``; floating dtypes are computed in float32 and rounded once.

    Parameters
    ----------
    a, b : Array or number
        The operands, of any dtypes, which are promoted as in MLX. Their shapes broadcast. One may be a Python number.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        No operand is an array, or a dtype has no kernels.
    ValueError
        The shapes do not fit, or `out` overlaps an operand that it is not.

    Notes
    -----
    Contiguous arrays of one shape and floating dtype have a kernel of their own. `out` may be `a` or `b`.
    """
    if isinstance(a, Array) and isinstance(b, Array) and a.dtype == b.dtype and a.shape == b.shape:
        if a.dtype in FLOATS and a.is_contiguous and b.is_contiguous:
            return combine(KERNEL, a, b, stream, out)
    return binary.add(a, b, stream=stream, out=out)
