"""A decode step of a gated-delta layer: all that lies between its input product and its output product."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import FLOAT32, aligned, buffer, disjoint, floating, same
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.recurrent.conv_step import taps_of
from hiprt.kernels.ops.recurrent.gated_delta import WIDEST_KEY
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gdn_step"]

STAGED_BYTES = 28672  # the most threadgroup memory for the channels and answers of a head of keys
KERNEL = Kernel(
    "recurrent/gdn_step",
    inputs={"proj": "T", "weight": "T", "a_log": "float", "dt_bias": "T", "norm": "T"},
    updates={"conv": "T", "state": "float", "arrived": "uint"},
    outputs={"out": "T"},
    scalars={"key_heads": "uint", "eps": "float", "norm_eps": "float"},
    template={
        "T": "dtype",
        "KEY": "int",
        "VALUE": "int",
        "RATIO": "int",
        "HEADS": "int",
        "TAPS": "int",
        "NORMED": "bool",
        "SIMDGROUPS": "int",
    },
    headers=(
        "elementwise/expression.h",
        "quantized/ordered_loads.h",
        "elementwise/power_of_two.h",
        "recurrent/gated_delta.h",
    ),
    threads=lambda template: int(template["SIMDGROUPS"]) * 32,
    ahead=("weight", "a_log", "dt_bias", "norm", "conv", "state"),
    instances=each(
        KEY=(128,),
        VALUE=(128,),
        RATIO=(2,),
        HEADS=lambda _, takes_loops: (2 if takes_loops else 1,),
        TAPS=(4,),
        NORMED=(False, True),
        SIMDGROUPS=(DEFAULT.gdn_simdgroups,),
    ),
)


@op
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
    """Return what the heads of a gated-delta layer answer to one token of each sequence, and update both states.

    Parameters
    ----------
    proj : Array, [B, W]
        float16, bfloat16 or float32. The input product, whose columns are q (Hk * Dk), k (Hk * Dk), v (Hv * Dv),
        z (Hv * Dv), b (Hv), a (Hv), each head by head. Head h of the values reads head ``h // (Hv / Hk)`` of q and k.
    conv_weight : Array, [C, K] or [C, K, 1]
        Of the dtype of `proj`. The factors for the channels of q, k and v; K from 2 to 8, the last one for the newest
        step.
    conv : Array, [B, K - 1, C]
        Of the dtype of `proj`. The state of the convolution, as `conv_step` keeps it; written in place.
    a_log : Array, [Hv]
        float32.
    dt_bias : Array, [Hv]
        Of the dtype of `proj`.
    state : Array, [B, Hv, Dv, Dk]
        float32. The state of the delta rule, as `gated_delta` keeps it; written in place.
    key_heads, value_heads : int
        Hk and its multiple Hv.
    key_width, value_width : int
        Dk, up to 256, and Dv; multiples of 8.
    qk_eps : float
        Is added to the mean of squares in the norms of q and k.
    norm : Array, [Dv], optional
        Of the dtype of `proj`. Where it is given, `gated_rms_norm` with this weight and gate z follows.
    eps : float
        Is added to the mean of squares in that norm.

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
    The op is `conv_step` with silu, ``rms_norm(q) / Dk`` and ``rms_norm(k) / sqrt(Dk)`` without weights,
    `gated_delta_gates`, `gated_delta` and `gated_rms_norm`, without the roundings between them.
    """
    stream = stream or current_stream()
    sizes = key_heads, value_heads, key_width, value_width
    plan = plan_of(proj, conv_weight, conv, a_log, dt_bias, state, norm, *sizes, qk_eps, eps, target_of(stream))
    disjoint("gdn_step", {"conv": conv, "state": state}, (proj, conv_weight, a_log, dt_bias, norm))
    # The weight is first: it stands in for a norm that is not there, and is read as early.
    given = {"weight": conv_weight, "proj": proj, "a_log": a_log, "dt_bias": dt_bias, "norm": norm}
    return plan.run(stream, out, given, conv, state)


class StepPlan(NamedTuple):
    """A step.

    Attributes
    ----------
    plan : Plan
    is_counted : bool
        Whether several threadgroups read a head of keys, and count themselves.
    """

    plan: Plan
    is_counted: bool

    def run(
        self, stream: Stream, out: Array | None, given: Mapping[str, Array | None], conv: Array, state: Array
    ) -> Array:
        """Launch on a stream, and return the result."""
        arrived = arrivals(stream) if self.is_counted else state
        return self.plan.run(stream, out, **given, conv=conv, state=state, arrived=arrived)


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
    qk_eps: float,
    eps: float,
    target: Target,
) -> StepPlan:
    """Check the operands and return the plan."""
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
    taps = taps_of(op, "conv_weight", conv_weight, channels)
    shapes: tuple[tuple[str, Form | None, tuple[int, ...]], ...] = (
        ("proj", proj, (min(batch, LARGEST_GRID_YZ), columns)),
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
    # One head of values a threadgroup, so that more of the processors read the state; not of so many sequences that a
    # processor would take several in turn.
    is_once = batch == 1 or batch * value_heads <= target.compute_units
    can_count = not target.takes_loops and "arrivals" in target.features and is_once and batch * key_heads <= COUNTERS
    is_counted = can_count and ratio > 1
    heads = 1 if is_counted else ratio
    simdgroups = max(target.table.gdn_simdgroups, -(-heads // 32))  # a lane finds the gates of a head
    template = {
        "T": proj.dtype,
        "KEY": key_width,
        "VALUE": value_width,
        "RATIO": ratio,
        "HEADS": heads,
        "TAPS": taps,
        "NORMED": norm is not None,
        "SIMDGROUPS": simdgroups,
    }
    grid, threads = (value_heads // heads, batch, 1), (1 if target.takes_loops else simdgroups * 32, 1, 1)
    launch = Launch(KERNEL, grid, threads, template, key_heads=key_heads, eps=qk_eps, norm_eps=eps)
    return StepPlan(Plan(op, (batch, value_heads * value_width), proj.dtype, launch), is_counted)


def check_widths(op: str, key_width: int, value_width: int, ratio: int) -> None:
    """Refuse heads that a threadgroup cannot hold.

    Raises
    ------
    ValueError
        A width is no multiple of 8, or too large.
    """
    staged = 8 * (key_width + ratio * value_width) + ratio * value_width
    if (
        key_width % 8
        or value_width % 8
        or min(key_width, value_width) < 8
        or key_width > WIDEST_KEY
        or staged > STAGED_BYTES
    ):
        raise ValueError(
            f"{op}: heads of {key_width} and {value_width}, {ratio} for one of the keys; multiples of 8 are needed, of "
            f"at most {WIDEST_KEY} for keys and {STAGED_BYTES} bytes in all"
        )
