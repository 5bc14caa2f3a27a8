"""A decode step of a gated-delta layer, from its input product to what its output product takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOAT32, aligned, apart, buffer, floating, made, same
from hiprt.kernels.ops.recurrent.conv_step import TAPS
from hiprt.kernels.ops.recurrent.gated_delta import LARGEST_GRID_Y, WIDEST
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["gdn_step"]

SIMDGROUPS = 16
STAGED_BYTES = 28672  # of a head's channels and answers, in a threadgroup's memory
KERNEL = Kernel(
    "recurrent/gdn_step",
    inputs={"proj": "T", "weight": "T", "a_log": "float", "dt_bias": "T", "norm": "T"},
    updates={"conv": "T", "state": "float"},
    outputs={"out": "T"},
    scalars={"key_heads": "uint", "eps": "float", "norm_eps": "float"},
    template={
        "T": "dtype",
        "KEY": "int",
        "VALUE": "int",
        "RATIO": "int",
        "TAPS": "int",
        "NORMED": "bool",
        "SIMDGROUPS": "int",
    },
    headers=("elementwise/expression.h", "quantized/ordered_loads.h", "recurrent/delta.h"),
    threads=512,
    ahead=("state",),
    instances=each(KEY=(128,), VALUE=(128,), RATIO=(2,), TAPS=(4,), NORMED=(False, True), SIMDGROUPS=(SIMDGROUPS,)),
)


def gdn_step(
    proj: Array,
    conv_weight: Array,
    conv: Array,
    a_log: Array,
    dt_bias: Array,
    state: Array,
    *,
    key_heads: int,
    value_heads: int,
    key_width: int,
    value_width: int,
    qk_eps: float = 1e-6,
    norm: Array | None = None,
    eps: float = 1e-6,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return what the heads of a gated-delta layer answer to one token of each sequence; moves on both states.

    Parameters
    ----------
    proj : Array, [B, W]
        float16, bfloat16 or float32: the input product, in columns q (Hk * Dk), k (Hk * Dk), v (Hv * Dv),
        z (Hv * Dv), b (Hv), a (Hv), each head by head. Head h of the values reads head ``h // (Hv / Hk)`` of q and k.
    conv_weight : Array, [C, K] or [C, K, 1]
        Of the dtype of `proj`: of the channels q, k and v; K from 2 to 8, the last one for the newest step.
    conv : Array, [B, K - 1, C]
        Of the dtype of `proj`: the state of the convolution, as `conv_step` keeps it.
    a_log : Array, [Hv]
        float32.
    dt_bias : Array, [Hv]
        Of the dtype of `proj`.
    state : Array, [B, Hv, Dv, Dk]
        float32, as `gated_delta` keeps it.
    key_heads, value_heads : int
        Hk and its multiple Hv.
    key_width, value_width : int
        Dk, up to 256, and Dv; multiples of 8.
    qk_eps : float
        Of the norms of q and k, beside the mean of squares.
    norm : Array, [Dv], optional
        Of the dtype of `proj`: the weight of `gated_rms_norm` with gate z, which follows where it is given.
    eps : float
        Of that norm.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, Hv * Dv]
        Of the dtype of `proj`; computed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned, or arrays overlap.

    Notes
    -----
    The same as `conv_step` with silu, ``rms_norm(q) / Dk`` and ``rms_norm(k) / sqrt(Dk)`` without weights,
    `gated_delta_gates`, `gated_delta` and `gated_rms_norm`, without the roundings between them.
    """
    stream = stream or current_stream()
    sizes = key_heads, value_heads, key_width, value_width
    plan = plan_of(proj, conv_weight, conv, a_log, dt_bias, state, norm, *sizes, uses_loops(stream))
    inputs = proj, conv_weight, a_log, dt_bias, dt_bias if norm is None else norm
    apart("gdn_step", {"conv": conv, "state": state}, inputs)
    out = made("gdn_step", out, plan.shape, proj.dtype, stream, (*inputs, conv, state))
    KERNEL(stream, plan.grid, plan.threads, plan.template, *inputs, conv, state, out, key_heads, qk_eps, eps)
    return out


class Plan(NamedTuple):
    """A launch, and the shape of what it returns."""

    shape: tuple[int, int]
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]


@Planned
def plan_of(
    proj: Form,
    conv_weight: Form,
    conv: Form,
    a_log: Form,
    dt_bias: Form,
    state: Form,
    norm: Form | None,
    key_heads: int,
    value_heads: int,
    key_width: int,
    value_width: int,
    loops: bool,
) -> Plan:
    """Check the operands and return the launch."""
    op = "gdn_step"
    floating(op, "proj", proj, 2)
    for name, value in (("conv_weight", conv_weight), ("conv", conv), ("dt_bias", dt_bias), ("norm", norm)):
        if value is not None:
            same(op, name, value, "proj", proj)
    if key_heads < 1 or value_heads < 1 or value_heads % key_heads:
        raise ValueError(f"{op}: {value_heads} heads of values are not a multiple of {key_heads} heads of keys")
    ratio, batch = value_heads // key_heads, proj.shape[0]
    check_widths(op, key_width, value_width, ratio)
    channels = 2 * key_heads * key_width + value_heads * value_width
    columns = channels + value_heads * value_width + 2 * value_heads
    taps = conv_weight.shape[1] if conv_weight.ndim in (2, 3) else 0
    if conv_weight.shape not in ((channels, taps), (channels, taps, 1)) or not TAPS[0] <= taps <= TAPS[1]:
        raise ValueError(
            f"{op}: conv_weight has shape {conv_weight.shape}; [{channels}, {TAPS[0]} to {TAPS[1]}] is needed"
        )
    shapes: tuple[tuple[str, Form | None, tuple[int, ...]], ...] = (
        ("proj", proj, (min(batch, LARGEST_GRID_Y), columns)),
        ("conv", conv, (batch, taps - 1, channels)),
        ("dt_bias", dt_bias, (value_heads,)),
        ("norm", norm, (value_width,)),
    )
    for name, value, shape in shapes:
        if value is not None and value.shape != shape:
            raise ValueError(f"{op}: {name} has shape {value.shape}; {shape} is needed")
    buffer(op, "a_log", a_log, FLOAT32, (value_heads,))
    buffer(op, "state", state, FLOAT32, (batch, value_heads, value_width, key_width))
    aligned(op, "state", state)
    template = proj.dtype, key_width, value_width, ratio, taps, norm is not None, SIMDGROUPS
    threads = 1 if loops else SIMDGROUPS * 32
    return Plan((batch, value_heads * value_width), (key_heads, batch, 1), (threads, 1, 1), template)


def check_widths(op: str, key_width: int, value_width: int, ratio: int) -> None:
    """Refuse heads that a threadgroup cannot share."""
    staged = 8 * (key_width + ratio * value_width) + ratio * value_width
    if (
        key_width % 8
        or value_width % 8
        or min(key_width, value_width) < 8
        or key_width > WIDEST
        or staged > STAGED_BYTES
    ):
        raise ValueError(
            f"{op}: heads of {key_width} and {value_width}, {ratio} for one of the keys; multiples of 8 are needed, of "
            f"at most {WIDEST} for keys and {STAGED_BYTES} bytes in all"
        )
