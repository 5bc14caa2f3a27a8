"""The residual sum and its root-mean-square normalisation, in one kernel."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import result, same
from hiprt.kernels.ops.row_launch import row_launch, rows_of, vector
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["add_rms_norm"]

OP = "add_rms_norm"
KERNEL = Kernel(
    "norm/add_rms_norm",
    inputs={"x": "T", "residual": "T", "weight": "T"},
    outputs={"sum": "T", "out": "T"},
    scalars={"width": "uint", "eps": "float"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    aliasing={"sum": ("x", "residual"), "out": ("x", "residual", "weight")},
    is_varied=True,
    instances=each(),
)


@op
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
    out : tuple of 2 Array, optional
        They receive the results; the first may be `x` or `residual`.

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
    stream = stream or current_stream()
    launch = launch_of(x, residual, weight, eps, target_of(stream))
    given = {"x": x, "residual": residual, "weight": weight}
    first, second = out or (None, None)
    total = result(OP, first, x.shape, x.dtype, stream, given, ("x", "residual"))
    normed = result(OP, second, x.shape, x.dtype, stream, {**given, "sum": total})
    launch(stream, sum=total, out=normed, **given)
    return total, normed


@Planned
def launch_of(x: Form, residual: Form, weight: Form, eps: float, target: Target) -> Launch:
    """Check the operands and return the launch."""
    rows, width = rows_of(OP, x)
    same(OP, "residual", residual, "x", x)
    if residual.shape != x.shape:
        raise ValueError(f"{OP}: x has shape {x.shape} and residual {residual.shape}; they must be the same")
    vector(OP, "weight", weight, x)
    return Launch(KERNEL, *row_launch(target, rows, width), {"T": x.dtype}, width=width, eps=eps)
