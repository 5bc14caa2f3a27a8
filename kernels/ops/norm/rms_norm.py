"""Root-mean-square normalisation."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.ops.operands import floating, made, same
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["rms_norm"]

KERNEL = Kernel(
    "norm/rms_norm",
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
    stream = stream or current_stream()
    plan = plan_of(x, weight, out, uses_loops(stream))
    inputs = (x, x if weight is None else weight)
    out = made("rms_norm", out, x.shape, x.dtype, stream, inputs, aliasing=True)
    KERNEL(stream, plan.grid, plan.threads, plan.template, *inputs, out, *plan.sizes, eps)
    return out


class Plan(NamedTuple):
    """A launch."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    sizes: tuple[int, int, int]


@Planned
def plan_of(x: Form, weight: Form | None, out: Form | None, loops: bool) -> Plan:
    """Check the operands and return the launch."""
    floating("rms_norm", "x", x)
    if not x.ndim:
        raise ValueError("rms_norm: x has no axis")
    width = x.shape[-1]
    if weight is not None:
        same("rms_norm", "weight", weight, "x", x)
        if weight.shape != (width,):
            raise ValueError(f"rms_norm: weight has shape {weight.shape}; {(width,)} is needed")
    rows = x.size // max(width, 1)
    stretch = max(1, STRETCH // max(width, 1))
    simdgroups = SIMDGROUPS if width >= LONG_ROW else 1
    sizes = rows, width, stretch
    if loops:
        return Plan((-(-rows // stretch), 1, 1), (1, 1, 1), (x.dtype, weight is not None, simdgroups, 1), sizes)
    groups = rows if simdgroups > 1 else -(-rows // SIMDGROUPS)
    run = 16 // x.dtype.itemsize
    if width % run or not all(each is None or each.is_aligned for each in (x, weight, out)):
        run = 1
    return Plan((groups, 1, 1), (SIMDGROUPS * 32, 1, 1), (x.dtype, weight is not None, simdgroups, run), sizes)
