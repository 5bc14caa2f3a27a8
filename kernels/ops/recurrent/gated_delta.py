"""The gated delta rule: a state that is decayed, corrected and read at each step."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import FLOAT32, buffer, disjoint, floating, same
from hiprt.kernels.ops.recurrent.gated_delta_chunks import GatedDeltaChunks, Rule, gated_delta_chunks
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["WIDEST_KEY", "gated_delta"]

SIMDGROUPS = 4
WIDEST_KEY = 256  # elements of a head of keys
KERNEL = Kernel(
    "recurrent/gated_delta",
    inputs={"q": "T", "k": "T", "v": "T", "g": "float", "beta": "float"},
    updates={"state": "float"},
    outputs={"out": "T"},
    scalars={
        "steps": "uint",
        "key_heads": "uint",
        "value_heads": "uint",
        "value_width": "uint",
    },
    template={"T": "dtype", "KEY": "int"},
    headers=("elementwise/expression.h", "elementwise/power_of_two.h", "recurrent/gated_delta.h"),
    threads=SIMDGROUPS * 32,
    ahead=("state",),
    instances=each(KEY=(128,)),
)


@op
def gated_delta(
    q: Array,
    k: Array,
    v: Array,
    g: Array,
    beta: Array,
    state: Array,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return what the state answers in S steps of the gated delta rule, and bring the state up to date in place.

    Parameters
    ----------
    q, k : Array, [B, S, Hk, Dk]
        float16, bfloat16 or float32; Dk up to 256.
    v : Array, [B, S, Hv, Dv]
        Of the dtype of `q`; Hv is a multiple of Hk, and head h reads head ``h // (Hv / Hk)`` of `q` and `k`.
    g, beta : Array, [B, S, Hv]
        float32. What is left of the state, and how much of the error is corrected, as `gated_delta_gates` computes
        them.
    state : Array, [B, Hv, Dv, Dk]
        float32.

    Returns
    -------
    Array, [B, S, Hv, Dv]
        Of the dtype of `q`: ``state @ q`` after ``state = g * state`` and
        ``state += beta * (v - state @ k) outer k``, in float32, rounded once. On a GPU many steps go by chunks
        of 32, with other roundings, where Dk is a multiple of 32 up to 128 and `q` and `k` start at multiples of
        16 bytes.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or arrays overlap.

    Notes
    -----
    Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024 (arXiv 2412.06464). By chunks: the same, and Yang et al.,
    "Parallelizing Linear Transformers with the Delta Rule over Sequence Length", 2024 (arXiv 2406.06484).
    """
    stream = stream or current_stream()
    plan = plan_of(q, k, v, g, beta, state, target_of(stream))
    disjoint("gated_delta", {"state": state}, (q, k, v, g, beta))
    return plan.run(stream, out, q=q, k=k, v=v, g=g, beta=beta, state=state)


@Planned
def plan_of(q: Form, k: Form, v: Form, g: Form, beta: Form, state: Form, target: Target) -> Plan | GatedDeltaChunks:
    """Check the operands and return the plan."""
    op = "gated_delta"
    floating(op, "q", q, 4)
    same(op, "k", k, "q", q)
    same(op, "v", v, "q", q)
    batch, steps, key_heads, key_width = q.shape
    if k.shape != q.shape or v.ndim != 4 or v.shape[:2] != q.shape[:2]:
        raise ValueError(f"{op}: q {q.shape}, k {k.shape} and v {v.shape} do not fit [B, S, heads, width]")
    value_heads, value_width = v.shape[2:]
    if not key_heads or value_heads % key_heads:
        raise ValueError(f"{op}: {value_heads} heads of values are not a multiple of {key_heads} heads of keys")
    if not 1 <= key_width <= WIDEST_KEY or batch * value_heads > LARGEST_GRID_YZ:
        limits = f"heads of 1 to {WIDEST_KEY}, {LARGEST_GRID_YZ} in all, are needed"
        raise ValueError(f"{op}: q has shape {q.shape}; {limits}")
    for name, value in (("g", g), ("beta", beta)):
        buffer(op, name, value, FLOAT32, (batch, steps, value_heads))
    buffer(op, "state", state, FLOAT32, (batch, value_heads, value_width, key_width))
    sizes = batch, steps, key_heads, value_heads, key_width, value_width
    rule = Rule(*sizes, q.is_aligned and k.is_aligned)
    chunks = gated_delta_chunks(rule, q.dtype, target)
    if chunks is not None:
        return chunks
    if target.takes_loops:
        groups, threads = value_width, 1
    else:
        groups, threads = -(-value_width // SIMDGROUPS), SIMDGROUPS * 32
    launch = Launch(
        KERNEL,
        (groups, batch * value_heads, 1),
        (threads, 1, 1),
        {"T": q.dtype, "KEY": key_width},
        steps=steps,
        key_heads=key_heads,
        value_heads=value_heads,
        value_width=value_width,
    )
    return Plan(op, v.shape, q.dtype, launch)
