"""The convolution in front of a gated-delta layer, with what it remembers between calls."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.operands import apart, floating, made, same
from hiprt.stream import Stream, current_stream

__all__ = ["conv_step"]

THREADS = 64
LARGEST_GRID_Y = 65535
RUN = 16  # steps of a thread: at least the largest state
TAPS = (2, 8)
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
    threads=64,
    instances=each(STEPS=(RUN,)),
)


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
    """Return a causal depthwise convolution of new steps, which moves on the state in place.

    Parameters
    ----------
    x : Array, [B, S, C]
        float16, bfloat16 or float32: S new steps, one in decoding; at most 1,048,560.
    state : Array, [B, K - 1, C]
        Of the dtype of `x`: the inputs of the last steps, oldest first; zeros at the start of a text. Becomes the last
        K - 1 of the old state and `x`.
    weight : Array, [C, K] or [C, K, 1]
        Of the dtype of `x`; K from 2 to 8, the last one for the newest step.
    bias : Array, [C], optional
        Of the dtype of `x`.
    silu : bool
        Whether ``silu`` follows.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

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
    op = "conv_step"
    floating(op, "x", x, 3)
    for name, value in (("state", state), ("weight", weight), ("bias", bias)):
        if value is not None:
            same(op, name, value, "x", x)
    batch, steps, channels = x.shape
    if steps > RUN * LARGEST_GRID_Y:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {RUN * LARGEST_GRID_Y} steps are needed")
    taps = weight.shape[1] if weight.ndim in (2, 3) else 0
    if weight.shape not in ((channels, taps), (channels, taps, 1)) or not TAPS[0] <= taps <= TAPS[1]:
        raise ValueError(f"{op}: weight has shape {weight.shape}; [{channels}, {TAPS[0]} to {TAPS[1]}] is needed")
    if state.shape != (batch, taps - 1, channels):
        raise ValueError(f"{op}: state has shape {state.shape}; {(batch, taps - 1, channels)} is needed")
    if bias is not None and bias.shape != (channels,):
        raise ValueError(f"{op}: bias has shape {bias.shape}; {(channels,)} is needed")
    stream = stream or current_stream()
    inputs = x, weight, x if bias is None else bias
    apart(op, {"state": state}, inputs)
    out = made(op, out, x.shape, x.dtype, stream, (*inputs, state))
    size = batch * channels
    grid = (-(-size // THREADS), max(1, -(-steps // RUN)), 1)
    scalars = size, channels, steps, taps, bias is not None, bool(silu)
    KERNEL(stream, grid, (THREADS, 1, 1), (x.dtype, RUN), *inputs, state, out, *scalars)
    return out
