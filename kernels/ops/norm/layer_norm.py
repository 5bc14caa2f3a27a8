"""Layer normalisation."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.ops.row_launch import row_launch, rows_of, vector
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
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
    is_varied=True,
    instances=each(),
)


@op
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
    stream = stream or current_stream()
    return plan_of(x, weight, bias, eps, target_of(stream)).run(stream, out, x=x, weight=weight, bias=bias)


@Planned
def plan_of(x: Form, weight: Form | None, bias: Form | None, eps: float, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "layer_norm"
    rows, width = rows_of(op, x)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            vector(op, name, value, x)
    given = (weight is not None) | (bias is not None) << 1
    launch = Launch(KERNEL, *row_launch(target, rows, width), {"T": x.dtype}, width=width, given=given, eps=eps)
    return Plan(op, x.shape, x.dtype, launch)
