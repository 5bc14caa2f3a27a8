"""Queries and keys normed and rotated, keys and values put into caches of 8 bits: one kernel of a decode step."""

from __future__ import annotations

from typing import Any

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import floating
from hiprt.kernels.ops.attention.frequencies import device_frequencies
from hiprt.kernels.ops.attention.norm_rope_write import SIZES, heads_of
from hiprt.kernels.ops.quantized_cache.coded_heads import values_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["norm_rope_quantize"]

OP = "norm_rope_quantize"
SIMDGROUPS = 4  # as in the kernel
KERNEL = Kernel(
    "quantized_cache/norm_rope_quantize",
    inputs={"x": "T", "q_norm": "T", "k_norm": "T", "position": "int", "frequencies": "ulong"},
    updates={"keys": "int8_t", "values": "int8_t", "key_scales": "float", "value_scales": "float"},
    outputs={"out": "T"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=("attention/cos_sin.h", "attention/turned_head.h", "quantized_cache/group_code.h"),
    threads=128,
    ahead=("q_norm", "k_norm", "position", "frequencies"),
    instances=each(),
)


@op
def norm_rope_quantize(
    qkv: Array,
    q_norm: Array | None,
    k_norm: Array | None,
    position: Array,
    keys: Array,
    values: Array,
    key_scales: Array,
    value_scales: Array,
    *,
    heads: int,
    base: float,
    eps: float = 1e-6,
    dims: int | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``rope(rms_norm(queries))``, and write ``rope(rms_norm(keys))`` and the values into caches of 8 bits.

    Parameters
    ----------
    qkv, q_norm, k_norm, position, heads, base, eps, dims
        As in `norm_rope_write`; D is 64, 128 or 256.
    keys, values : Array, [B, Hkv, capacity, D] or [Hkv, capacity, D]
        int8: a cache of codes for each row, or one for all, whose positions then differ. Written in place.
    key_scales, value_scales : Array, [B, Hkv, capacity, D / 64] or [Hkv, capacity, D / 64]
        float32: the scale of each group of 64 codes. Written in place.

    Returns
    -------
    Array, [B, heads, D]
        As `norm_rope_write` returns it.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, a cache of codes does not start at a multiple of 16 bytes, or
        `out` overlaps another array.

    Notes
    -----
    A code is the nearest whole number to the value over the scale, which is the largest magnitude of the group over
    127: so ``code * scale`` is off by half a scale at most. Where a group has NaN or infinity, its codes are not
    defined.
    """
    stream = stream or current_stream()
    target = target_of(stream)
    caches = {"keys": keys, "values": values, "key_scales": key_scales, "value_scales": value_scales}
    plan = plan_of(qkv, q_norm, k_norm, position, *caches.values(), heads, base, eps, dims, target)
    frequencies = device_frequencies(stream, base, keys.shape[-1] if dims is None else dims)
    given: dict[str, Any] = {"x": qkv, "q_norm": q_norm, "k_norm": k_norm, "position": position, **caches}
    return plan.run(stream, out, **given, frequencies=frequencies)


@Planned
def plan_of(
    qkv: Form,
    q_norm: Form | None,
    k_norm: Form | None,
    position: Form,
    keys: Form,
    values: Form,
    key_scales: Form,
    value_scales: Form,
    heads: int,
    base: float,
    eps: float,
    dims: int | None,
    target: Target,
) -> Plan:
    """Check the operands and return the plan."""
    floating(OP, "qkv", qkv, 2)
    keys = values_of(OP, "keys", keys, key_scales, qkv.dtype)
    values = values_of(OP, "values", values, value_scales, qkv.dtype)
    call = heads_of(OP, qkv, q_norm, k_norm, position, keys, values, heads, base, dims)
    if target.takes_loops:
        grid, threads = (call.rows, 1, 1), 1
    else:
        grid = (-(-(heads + 2 * call.kv_heads) // SIMDGROUPS), call.rows, 1)
        threads = SIMDGROUPS * 32
    scalars = call._asdict()
    rows = scalars.pop("rows")
    launch = Launch(KERNEL, grid, (threads, 1, 1), {"T": qkv.dtype}, eps=eps, **scalars)
    return Plan(OP, (rows, heads, call.width), qkv.dtype, launch)
