"""Softmax along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.ops.elementwise.copies import astype, axis_of, contiguous
from hiprt.kernels.ops.elementwise.result_dtypes import real
from hiprt.kernels.ops.promotion import at_least_float, strided
from hiprt.kernels.ops.row_launch import THREADS, row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["row_softmax", "softmax"]

WIDE = 8192  # elements: the logits of a vocabulary are wider, rows of attention are not
MOST_THREADS = 1024

KERNEL = Kernel(
    "norm/softmax",
    inputs={"x": "T"},
    outputs={"out": "T"},
    scalars={"width": "uint"},
    template={"T": "dtype", "LOGARITHM": "bool"},
    headers=("norm/row_sums.h",),
    threads=MOST_THREADS,
    aliasing={"out": ("x",)},
    is_varied=True,
    instances=each(LOGARITHM=(False, True)),
)


@op
def softmax(x: Array, axis: int = -1, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow.

    Parameters
    ----------
    x : Array
        Of any strides; integers become float32.
    axis : int
        The last by default. Along another one the result is a view of an array that has it last.

    Returns
    -------
    Array
        Of the dtype of `x`, or float32; computed in float32 and rounded once. `out` may be `x`; it can be given for the
        last axis only.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        There is no such axis, or `out` overlaps `x` in part or is given with another axis than the last.
    """
    op = "softmax"
    strided(op, "x", x)
    axis = axis_of(op, axis, x.ndim)
    stream = stream or current_stream()
    if axis != x.ndim - 1:
        if out is not None:
            raise ValueError(f"[{op}] out is for the last axis only; axis {axis} of {x.ndim} is given.")
        order = [each for each in range(x.ndim) if each != axis] + [axis]
        turned = softmax(x.transpose(*order), -1, stream=stream)
        return turned.transpose(*(order.index(each) for each in range(x.ndim)))
    rows = astype(contiguous(x, stream=stream), at_least_float(real(x.dtype)), stream=stream)
    return plan_of(rows, target_of(stream)).run(stream, out, x=rows)


@Planned
def plan_of(x: Form, target: Target) -> Plan:
    """Return the plan for rows of a floating dtype."""
    width = x.shape[-1]
    return Plan("softmax", x.shape, x.dtype, row_softmax(x.dtype, False, x.size // max(width, 1), width, target))


@Planned
def row_softmax(dtype: np.dtype[Any], logarithm: bool, rows: int, width: int, target: Target) -> Launch:
    """Return the launch over rows; with `logarithm` each gives the logarithm of the sum of its exponentials instead."""
    grid, threads = row_launch(target, rows, width, MOST_THREADS if width > WIDE else THREADS)
    return Launch(KERNEL, grid, threads, {"T": dtype, "LOGARITHM": logarithm}, width=width)
