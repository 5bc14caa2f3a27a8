"""What the gated delta rule takes of new steps: all that lies between a layer's input product and the rule."""

from __future__ import annotations

from operator import index

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch
from hiprt.kernels.lang.operands import FLOAT32, buffer, disjoint, floating, same
from hiprt.kernels.ops.recurrent.conv_step import taps_of
from hiprt.kernels.ops.recurrent.gated_delta import WIDEST_KEY
from hiprt.kernels.ops.row_launch import row_launch
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gdn_inputs"]

OP = "gdn_inputs"
RUN = 8  # steps that a threadgroup takes: at least as many as the largest state has
KERNEL = Kernel(
    "recurrent/gdn_inputs",
    inputs={"proj": "T", "weight": "T", "a_log": "float", "dt_bias": "T"},
    updates={"conv": "T"},
    outputs={"q": "T", "k": "T", "v": "T", "g": "float", "beta": "float"},
    scalars={
        "steps": "uint",
        "key_heads": "uint",
        "value_heads": "uint",
        "columns": "uint",
        "gates": "uint",
        "eps": "float",
    },
    template={"T": "dtype", "KEY": "int", "VALUE": "int", "TAPS": "int", "RUN": "int"},
    headers=("elementwise/expression.h", "elementwise/power_of_two.h", "recurrent/gated_delta.h"),
    ahead=(),
    is_varied=True,
    instances=each(KEY=(128,), VALUE=(128,), TAPS=(4,), RUN=(RUN,)),
)


@op
def gdn_inputs(
    proj: Array,
    conv_weight: Array,
    conv: Array,
    a_log: Array,
    dt_bias: Array,
    *,
    key_heads: int,
    value_heads: int,
    key_width: int,
    value_width: int,
    gates: int | None = None,
    qk_eps: float = 1e-6,
    stream: Stream | None = None,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return what `gated_delta` takes of S tokens of each sequence, and bring the convolution's state up to date.

    Parameters
    ----------
    proj : Array, [B, S, W], or [B, W] for one token of each
        float16, bfloat16 or float32; S up to 524,280. The input product, whose first columns are q (Hk * Dk),
        k (Hk * Dk) and v (Hv * Dv), each head by head. It also has b (Hv) and a (Hv), side by side. Further columns
        are not read.
    conv_weight : Array, [C, K] or [C, K, 1]
        Of the dtype of `proj`. The factors for the channels of q, k and v; K from 2 to 8, the last one for the newest
        step.
    conv : Array, [B, K - 1, C]
        Of the dtype of `proj`. The state of the convolution, as `conv_step` keeps it; written in place.
    a_log : Array, [Hv]
        float32.
    dt_bias : Array, [Hv]
        Of the dtype of `proj`.
    key_heads, value_heads : int
        Hk and its multiple Hv.
    key_width, value_width : int
        Dk, up to 256, and Dv.
    gates : int, optional
        The column where b begins; by default the one behind v.
    qk_eps : float
        Is added to the mean of squares in the norms of q and k.

    Returns
    -------
    q, k : Array, [B, S, Hk, Dk]
        Of the dtype of `proj`.
    v : Array, [B, S, Hv, Dv]
        Of the dtype of `proj`.
    g, beta : Array, [B, S, Hv]
        float32.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or arrays overlap.

    Notes
    -----
    The op is `conv_step` with silu, ``rms_norm(q) / Dk`` and ``rms_norm(k) / sqrt(Dk)`` without weights, and
    `gated_delta_gates`, without the roundings between them. With the rule in the same kernel, it is `gdn_step`.
    """
    stream = stream or current_stream()
    key_heads, value_heads, key_width, value_width = map(index, (key_heads, value_heads, key_width, value_width))
    sizes = key_heads, value_heads, key_width, value_width
    launch = launch_of(proj, conv_weight, conv, a_log, dt_bias, *sizes, gates, qk_eps, target_of(stream))
    disjoint(OP, {"conv": conv}, (proj, conv_weight, a_log, dt_bias))
    batch, steps, _ = sizes_of(proj.form)
    dtype, keys, heads = proj.dtype, (batch, steps, key_heads, key_width), (batch, steps, value_heads)
    q, k, v = (make(shape, dtype, stream) for shape in (keys, keys, (*heads, value_width)))
    g, beta = (make(heads, FLOAT32, stream) for _ in range(2))
    given = {"proj": proj, "weight": conv_weight, "a_log": a_log, "dt_bias": dt_bias, "conv": conv}
    launch(stream, q=q, k=k, v=v, g=g, beta=beta, **given)
    return q, k, v, g, beta


@Planned
def launch_of(
    proj: Form,
    conv_weight: Form,
    conv: Form,
    a_log: Form,
    dt_bias: Form,
    key_heads: int,
    value_heads: int,
    key_width: int,
    value_width: int,
    gates: int | None,
    qk_eps: float,
    target: Target,
) -> Launch:
    """Check the operands and return the launch."""
    floating(OP, "proj", proj)
    batch, steps, columns = sizes_of(proj)
    for name, value in (("conv_weight", conv_weight), ("conv", conv), ("dt_bias", dt_bias)):
        same(OP, name, value, "proj", proj)
    if key_heads < 1 or value_heads < 1 or value_heads % key_heads:
        raise ValueError(f"{OP}: {value_heads} heads of values are not a multiple of {key_heads} heads of keys")
    if not 1 <= key_width <= WIDEST_KEY or value_width < 1:
        raise ValueError(f"{OP}: heads of {key_width} and {value_width}; 1 to {WIDEST_KEY} is needed for keys")
    channels = 2 * key_heads * key_width + value_heads * value_width
    runs, gates = -(-steps // RUN), channels if gates is None else index(gates)
    if gates < channels:
        raise ValueError(f"{OP}: gates={gates}; columns behind the {channels} of q, k and v are needed")
    if max(batch, runs) > LARGEST_GRID_YZ or columns < gates + 2 * value_heads:
        limits = f"at most {LARGEST_GRID_YZ} sequences of {RUN * LARGEST_GRID_YZ}"
        wanted = f"{limits} rows of at least {gates + 2 * value_heads}"
        raise ValueError(f"{OP}: proj has shape {proj.shape}; {wanted} are needed")
    taps = taps_of(OP, "conv_weight", conv_weight, channels)
    for name, value, shape in (("conv", conv, (batch, taps - 1, channels)), ("dt_bias", dt_bias, (value_heads,))):
        if value.shape != shape:
            raise ValueError(f"{OP}: {name} has shape {value.shape}; {shape} is needed")
    buffer(OP, "a_log", a_log, FLOAT32, (value_heads,))
    template = {"T": proj.dtype, "KEY": key_width, "VALUE": value_width, "TAPS": taps, "RUN": RUN}
    _, threads = row_launch(target, batch, max(key_width, value_width))
    grid = (2 * key_heads + value_heads, batch, runs)
    heads = {"key_heads": key_heads, "value_heads": value_heads}
    return Launch(KERNEL, grid, threads, template, **heads, steps=steps, columns=columns, gates=gates, eps=qk_eps)


def sizes_of(proj: Form) -> tuple[int, int, int]:
    """Return the sequences, the steps of each, and the columns of a product.

    Raises
    ------
    ValueError
        It has neither 2 nor 3 axes.
    """
    if proj.ndim not in (2, 3):
        raise ValueError(f"{OP}: proj has shape {proj.shape}; 2 or 3 axes are needed")
    return proj.shape[0], proj.shape[1] if proj.ndim == 3 else 1, proj.shape[-1]
