"""The causal convolution in front of a gated-delta layer, and its state."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import disjoint, floating, same
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["conv_step", "taps_of"]

THREADS = 64
RUN = 16  # steps that a thread takes: at least as many as the largest state has
LEAST_TAPS, MOST_TAPS = 2, 8
KERNEL = Kernel(
    "recurrent/conv_step",
    inputs={"x": "T", "weight": "T", "bias": "T"},
    updates={"state": "T"},
    outputs={"out": "T"},
    scalars={
        "size": "uint",
        "channels": "uint",
        "steps": "uint",
        "taps": "uint",
        "is_biased": "uint",
        "is_silu": "uint",
    },
    template={"T": "dtype", "STEPS": "int"},
    threads=THREADS,
    instances=each(STEPS=(RUN,)),
)


@op
def conv_step(
    x: Array,
    state: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    silu: bool = True,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return a causal depthwise convolution of new steps, and bring the state up to date in place.

    Parameters
    ----------
    x : Array, [B, S, C]
        float16, bfloat16 or float32. S new steps: one in decoding, at most 1,048,560.
    state : Array, [B, K - 1, C]
        Of the dtype of `x`. The inputs of the last steps, oldest first; zeros at the start of a text. The last K - 1
        of the old state and `x` replace it.
    weight : Array, [C, K] or [C, K, 1]
        Of the dtype of `x`; K from 2 to 8, the last factor for the newest step.
    bias : Array, [C], optional
        Of the dtype of `x`.
    silu : bool
        Whether ``silu`` is applied to the sum.

    Returns
    -------
    Array, [B, S, C]
        Of the dtype of `x`; summed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or arrays overlap.
    """
    stream = stream or current_stream()
    plan = plan_of(x, state, weight, bias, silu)
    disjoint("conv_step", {"state": state}, (x, weight, bias))
    return plan.run(stream, out, x=x, weight=weight, bias=bias, state=state)


@Planned
def plan_of(x: Form, state: Form, weight: Form, bias: Form | None, silu: bool) -> Plan:
    """Check the operands and return the plan."""
    op = "conv_step"
    floating(op, "x", x, 3)
    for name, value in (("state", state), ("weight", weight), ("bias", bias)):
        if value is not None:
            same(op, name, value, "x", x)
    batch, steps, channels = x.shape
    if steps > RUN * LARGEST_GRID_YZ:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {RUN * LARGEST_GRID_YZ} steps are needed")
    taps = taps_of(op, "weight", weight, channels)
    if state.shape != (batch, taps - 1, channels):
        raise ValueError(f"{op}: state has shape {state.shape}; {(batch, taps - 1, channels)} is needed")
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"{op}: bias has shape {bias.shape}; {(channels,)} is needed")
    size = batch * channels
    grid = (-(-size // THREADS), max(1, -(-steps // RUN)), 1)
    sizes = {"size": size, "channels": channels, "steps": steps, "taps": taps}
    options = {"is_biased": bias is not None, "is_silu": bool(silu)}
    launch = Launch(KERNEL, grid, (THREADS, 1, 1), {"T": x.dtype, "STEPS": RUN}, **sizes, **options)
    return Plan(op, x.shape, x.dtype, launch)


def taps_of(op: str, name: str, weight: Form, channels: int) -> int:
    """Return how many steps the weight of a convolution covers.

    Raises
    ------
    ValueError
        The weight is neither [channels, K] nor [channels, K, 1], or K is not supported.
    """
    taps = weight.shape[1] if weight.ndim in (2, 3) else 0
    if weight.shape not in ((channels, taps), (channels, taps, 1)) or not LEAST_TAPS <= taps <= MOST_TAPS:
        raise ValueError(f"{op}: {name} has shape {weight.shape}; [{channels}, {LEAST_TAPS} to {MOST_TAPS}] is needed")
    return taps
