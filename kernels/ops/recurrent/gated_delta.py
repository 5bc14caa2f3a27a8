"""The gated delta rule: a state that is decayed, corrected and read at each step."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOAT32, apart, buffer, floating, made, same
from hiprt.stream import Stream, current_stream

__all__ = ["gated_delta", "gated_delta_gates"]

SIMDGROUPS = 4
WIDEST = 256
LARGEST_GRID_Y = 65535
THREADS = 64
KERNEL = Kernel(
    "recurrent/gated_delta",
    inputs={"q": "T", "k": "T", "v": "T", "g": "float", "beta": "float"},
    updates={"state": "float"},
    outputs={"out": "T"},
    scalars={
        "steps": "uint",
        "key_heads": "uint",
        "value_heads": "uint",
        "key_width": "uint",
        "value_width": "uint",
    },
    template={"T": "dtype"},
    threads=128,
    instances=each(),
)
GATES = Kernel(
    "recurrent/gated_delta_gates",
    inputs={"a": "T", "b": "T", "a_log": "float", "dt_bias": "T"},
    outputs={"g": "float", "beta": "float"},
    scalars={"size": "uint", "heads": "uint"},
    template={"T": "dtype"},
    headers=("elementwise/expression.h", "recurrent/delta.h"),
    instances=each(),
)


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
    """Return the answers of S steps of the gated delta rule, which move on the state in place.

    Parameters
    ----------
    q, k : Array, [B, S, Hk, Dk]
        float16, bfloat16 or float32; Dk up to 256.
    v : Array, [B, S, Hv, Dv]
        Of the dtype of `q`; Hv is a multiple of Hk, and head h reads head ``h // (Hv / Hk)`` of `q` and `k`.
    g, beta : Array, [B, S, Hv]
        float32: what is left of the state, and how much of the error is corrected (`gated_delta_gates`).
    state : Array, [B, Hv, Dv, Dk]
        float32.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, S, Hv, Dv]
        Of the dtype of `q`: ``state @ q`` after ``state = g * state`` and
        ``state += beta * (v - state @ k) outer k``, in float32, rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or arrays overlap.

    Notes
    -----
    Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024.
    """
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
    if key_width > WIDEST or batch * value_heads > LARGEST_GRID_Y:
        raise ValueError(f"{op}: q has shape {q.shape}; heads of at most {WIDEST}, {LARGEST_GRID_Y} in all, are needed")
    for name, value in (("g", g), ("beta", beta)):
        buffer(op, name, value, FLOAT32, (batch, steps, value_heads))
    buffer(op, "state", state, FLOAT32, (batch, value_heads, value_width, key_width))
    stream = stream or current_stream()
    inputs = q, k, v, g, beta
    apart(op, {"state": state}, inputs)
    out = made(op, out, v.shape, q.dtype, stream, (*inputs, state))
    loops = uses_loops(stream)
    grid = (value_width if loops else -(-value_width // SIMDGROUPS), batch * value_heads, 1)
    threads = (1 if loops else SIMDGROUPS * 32, 1, 1)
    scalars = steps, key_heads, value_heads, key_width, value_width
    KERNEL(stream, grid, threads, (q.dtype,), *inputs, state, out, *scalars)
    return out


def gated_delta_gates(
    a: Array,
    b: Array,
    a_log: Array,
    dt_bias: Array,
    *,
    stream: Stream | None = None,
    out: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return ``g = exp(-exp(a_log) * softplus(a + dt_bias))`` and ``beta = sigmoid(b)``.

    Parameters
    ----------
    a, b : Array, [..., H]
        float16, bfloat16 or float32, of one shape and dtype.
    a_log : Array, [H]
        float32.
    dt_bias : Array, [H]
        Of the dtype of `a`.
    stream : Stream, optional
        This thread's by default.
    out : tuple of 2 Array, optional
        Receive the results.

    Returns
    -------
    g, beta : Array, [..., H]
        float32.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or a result overlaps another array.
    """
    op = "gated_delta_gates"
    floating(op, "a", a)
    same(op, "b", b, "a", a)
    same(op, "dt_bias", dt_bias, "a", a)
    if not a.ndim or b.shape != a.shape:
        raise ValueError(f"{op}: a has shape {a.shape} and b {b.shape}; they must be the same, of an axis or more")
    heads = a.shape[-1]
    buffer(op, "a_log", a_log, FLOAT32, (heads,))
    if dt_bias.shape != (heads,):
        raise ValueError(f"{op}: dt_bias has shape {dt_bias.shape}; {(heads,)} is needed")
    stream = stream or current_stream()
    first, second = out or (None, None)
    g = made(op, first, a.shape, FLOAT32, stream, (a, b, a_log, dt_bias))
    beta = made(op, second, a.shape, FLOAT32, stream, (a, b, a_log, dt_bias, g))
    grid = (-(-a.size // THREADS), 1, 1)
    GATES(stream, grid, (THREADS, 1, 1), (a.dtype,), a, b, a_log, dt_bias, g, beta, a.size, heads)
    return g, beta
