"""Root-mean-square normalisation."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each, runs
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.ops.row_launch import rows_of, vector
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["rms_norm"]

KERNEL = Kernel(
    "norm/rms_norm",
    inputs={"x": "T", "weight": "T"},
    outputs={"out": "T"},
    scalars={"rows": "uint", "width": "uint", "stretch": "uint", "eps": "float"},
    template={"T": "dtype", "WEIGHTED": "bool", "SIMDGROUPS": "int", "RUN": "int"},
    aliasing={"out": ("x", "weight")},
    ahead=(),
    instances=each(WEIGHTED=(False, True), SIMDGROUPS=(1, DEFAULT.norm_simdgroups), RUN=runs),
)


@op
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
    stream = stream or current_stream()
    return plan_of(x, weight, out, eps, target_of(stream)).run(stream, out, x=x, weight=weight)


@Planned
def plan_of(x: Form, weight: Form | None, out: Form | None, eps: float, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "rms_norm"
    rows, width = rows_of(op, x)
    if weight is not None:
        vector(op, "weight", weight, x)
    table = target.table
    stretch = max(1, table.loop_elements // max(width, 1))
    simdgroups = table.norm_simdgroups if width >= table.norm_long_row else 1
    run = 16 // x.dtype.itemsize
    if target.takes_loops:
        grid, threads, run = (-(-rows // stretch), 1, 1), (1, 1, 1), 1
    else:
        groups = rows if simdgroups > 1 else -(-rows // table.norm_simdgroups)
        grid, threads = (groups, 1, 1), (table.norm_simdgroups * 32, 1, 1)
        if width % run or not all(each is None or each.is_aligned for each in (x, weight, out)):
            run = 1
    template = {"T": x.dtype, "WEIGHTED": weight is not None, "SIMDGROUPS": simdgroups, "RUN": run}
    launch = Launch(KERNEL, grid, threads, template, rows=rows, width=width, stretch=stretch, eps=eps)
    return Plan(op, x.shape, x.dtype, launch)
