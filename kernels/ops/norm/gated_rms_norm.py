"""Root-mean-square normalisation with a gate."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import floating, row_stride, same
from hiprt.kernels.ops.row_launch import row_launch, rows_of, vector
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gated_heads_norm", "gated_rms_norm"]

KERNEL = Kernel(
    "norm/gated_rms_norm",
    inputs={"x": "T", "gate": "T", "weight": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint", "heads": "uint", "gate_stride": "uint", "eps": "float"},
    template={"T": "dtype"},
    headers=("norm/row_sums.h",),
    aliasing={"out": ("x", "gate", "weight")},
    ahead=(),
    is_varied=True,
    instances=each(),
)


@op
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
    This is the output norm of a gated-delta layer, whose heads are the rows.
    """
    stream = stream or current_stream()
    return plan_of(x, gate, weight, eps, target_of(stream)).run(stream, out, x=x, gate=gate, weight=weight)


@Planned
def plan_of(x: Form, gate: Form, weight: Form, eps: float, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "gated_rms_norm"
    rows, width = rows_of(op, x)
    same(op, "gate", gate, "x", x)
    if gate.shape != x.shape:
        raise ValueError(f"{op}: x has shape {x.shape} and gate {gate.shape}; they must be the same")
    vector(op, "weight", weight, x)
    return plan_with(op, x, rows, width, 1, width, eps, target)


@op
def gated_heads_norm(x: Array, gate: Array, weight: Array, eps: float, *, stream: Stream | None = None) -> Array:
    """Return `gated_rms_norm` of heads whose gates are columns of a wider product.

    Parameters
    ----------
    x : Array, [B, H, D]
    gate : Array, [B, H * D]
        Of the dtype of `x`; its rows may lie apart.
    weight : Array, [D]
    eps : float

    Returns
    -------
    Array, [B, H, D]

    Raises
    ------
    TypeError, ValueError
        As for `gated_rms_norm`.
    """
    stream = stream or current_stream()
    return heads_plan_of(x, gate, weight, eps, target_of(stream)).run(stream, None, x=x, gate=gate, weight=weight)


@Planned
def heads_plan_of(x: Form, gate: Form, weight: Form, eps: float, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "gated_heads_norm"
    floating(op, "x", x, 3)
    batch, heads, width = x.shape
    stride = row_stride(op, "gate", gate, (batch, heads * width), "x", x)
    vector(op, "weight", weight, x)
    return plan_with(op, x, batch * heads, width, heads, stride, eps, target)


def plan_with(
    op: str, x: Form, rows: int, width: int, heads: int, gate_stride: int, eps: float, target: Target
) -> Plan:
    """Return the plan for operands that fit."""
    sizes = {"width": width, "heads": max(heads, 1), "gate_stride": gate_stride, "eps": eps}
    return Plan(op, x.shape, x.dtype, Launch(KERNEL, *row_launch(target, rows, width), {"T": x.dtype}, **sizes))
