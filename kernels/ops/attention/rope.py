"""Rotary position embedding at a position that lives on the device."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import INT32, buffer, floating
from hiprt.kernels.ops.attention.frequencies import check_rotation, device_frequencies
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["rope"]

THREADS = 64
KERNEL = Kernel(
    "attention/rope",
    inputs={"x": "T", "position": "int", "frequencies": "ulong"},
    outputs={"out": "T"},
    scalars={"heads": "uint", "width": "uint", "dims": "uint"},
    template={"T": "dtype", "TRADITIONAL": "bool"},
    headers=("attention/cos_sin.h",),
    aliasing={"out": ("x",)},
    threads=THREADS,
    instances=each(TRADITIONAL=(False, True)),
)


@op
def rope(
    x: Array,
    position: Array,
    *,
    base: float,
    dims: int | None = None,
    traditional: bool = False,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Rotate pair i of the first `dims` elements of each head by ``position * base**(-2i / dims)`` radians.

    Parameters
    ----------
    x : Array, [heads, D] or [rows, heads, D]
        float16, bfloat16 or float32.
    position : Array, [1] or [rows]
        int32, on the device: one for all heads of a row.
    base : float
        Positive.
    dims : int, optional
        Even, at most D; D by default. The elements after them are copied.
    traditional : bool
        Whether pair i is elements 2i and 2i + 1, instead of i and i + dims / 2.

    Returns
    -------
    Array, of the shape of `x`
        The dtype of `x`: ``a cos - b sin`` and ``b cos + a sin``, computed in float32 and rounded once. `out` may be
        `x`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, `dims` is odd or too large, `base` is not positive, or `out` overlaps an input in part.

    Notes
    -----
    Su et al., "RoFormer", 2021. The fraction of a turn is exact to 2**-53 of the frequency at any position, and the
    same float32 operations follow on every target. Implementations that multiply in float32 are off by up to
    ``position * 6e-8`` radians.
    """
    stream = stream or current_stream()
    plan = plan_of(x, position, base, dims, traditional, target_of(stream))
    frequencies = device_frequencies(stream, base, x.shape[-1] if dims is None else dims)
    return plan.run(stream, out, x=x, position=position, frequencies=frequencies)


@Planned
def plan_of(x: Form, position: Form, base: float, dims: int | None, traditional: bool, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = "rope"
    floating(op, "x", x)
    if x.ndim not in (2, 3):
        raise ValueError(f"{op}: x has shape {x.shape}; 2 or 3 axes are needed")
    rows, heads, width = (1, *x.shape)[-3:]
    buffer(op, "position", position, INT32, (rows,))
    dims = check_rotation(op, base, dims, width)
    if max(rows, heads) > LARGEST_GRID_YZ:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {LARGEST_GRID_YZ} rows and heads fit a launch")
    if target.takes_loops:
        grid, threads = (min(heads, 1), 1, rows), 1
    else:
        grid, threads = (-(-(width - dims // 2) // THREADS), heads, rows), THREADS
    template = {"T": x.dtype, "TRADITIONAL": bool(traditional)}
    launch = Launch(KERNEL, grid, (threads, 1, 1), template, heads=heads, width=width, dims=dims)
    return Plan(op, x.shape, x.dtype, launch)
