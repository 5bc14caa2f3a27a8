"""Grouped-query attention of one step over its cache."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import INT32, buffer, floating, made, same
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["attention"]

KERNEL = Kernel(
    "attention",
    inputs={"q": "T", "keys": "T", "values": "T", "position": "int"},
    outputs={"out": "T"},
    scalars={"capacity": "uint", "repeat": "uint", "scale": "float"},
    template={"T": "dtype", "WIDTH": "int", "SIMDGROUPS": "int"},
)
SIMDGROUPS = 8
WIDTHS = (32, 256)


def attention(
    q: Array,
    keys: Array,
    values: Array,
    position: Array,
    *,
    scale: float,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``softmax(scale * q @ keys.T) @ values`` over positions 0 to ``position``, both included.

    Parameters
    ----------
    q : Array, [Hq, D]
        float16, bfloat16 or float32; D from 32 to 256.
    keys, values : Array, [Hkv, capacity, D]
        Of the dtype of `q`; Hq is a multiple of Hkv, and query head h reads head ``h // (Hq / Hkv)``.
    position : Array, [1]
        int32, on the device. From capacity on, the whole cache is read; below 0 the result is zeros.
    scale : float
        Usually ``D**-0.5``.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [Hq, D]
        The dtype of `q`; scores, softmax and sums are float32, rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps an input.

    Notes
    -----
    One pass with a running maximum: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
    """
    floating("attention", "q", q, 2)
    heads, width = q.shape
    same("attention", "keys", keys, "q", q)
    same("attention", "values", values, "q", q)
    if keys.ndim != 3 or keys.shape != values.shape or keys.shape[2] != width:
        raise ValueError(
            f"attention: q {q.shape}, keys {keys.shape}, values {values.shape} do not fit [Hkv, capacity, D]"
        )
    kv_heads, capacity, _ = keys.shape
    if not kv_heads or heads % kv_heads:
        raise ValueError(f"attention: {heads} query heads are not a multiple of {kv_heads} heads of keys")
    if not WIDTHS[0] <= width <= WIDTHS[1]:
        raise ValueError(f"attention: heads of {width} elements; {WIDTHS[0]} to {WIDTHS[1]} are supported")
    buffer("attention", "position", position, INT32, (1,))
    stream = stream or current_stream()
    out = made("attention", out, q.shape, q.dtype, stream, (q, keys, values, position))
    threads = 1 if uses_loops(stream) else SIMDGROUPS * 32
    template = (q.dtype, width, SIMDGROUPS)
    repeat = heads // kv_heads
    KERNEL(stream, (heads, 1, 1), (threads, 1, 1), template, q, keys, values, position, out, capacity, repeat, scale)
    return out
