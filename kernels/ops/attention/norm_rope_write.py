"""Queries and keys normed and rotated, keys and values put into their caches: one kernel of a decode step."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch, Plan
from hiprt.kernels.lang.operands import INT32, buffer, floating, same
from hiprt.kernels.ops.attention.frequencies import check_rotation, device_frequencies
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["SIZES", "heads_of", "norm_rope_write"]

SIMDGROUPS = 4
WIDEST = 256
# What a kernel takes of `Heads`, and the number that norms add.
SIZES = {
    "heads": "uint",
    "kv_heads": "uint",
    "columns": "uint",
    "width": "uint",
    "capacity": "uint",
    "own_caches": "uint",
    "dims": "uint",
    "is_normed": "uint",
    "eps": "float",
}
KERNEL = Kernel(
    "attention/norm_rope_write",
    inputs={"x": "T", "q_norm": "T", "k_norm": "T", "position": "int", "slots": "int", "frequencies": "ulong"},
    updates={"keys": "T", "values": "T"},
    outputs={"out": "T"},
    scalars=SIZES,
    template={"T": "dtype"},
    headers=("attention/cos_sin.h", "attention/turned_head.h"),
    threads=128,
    ahead=("q_norm", "k_norm", "position", "frequencies"),
    instances=each(),
)


@op
def norm_rope_write(
    qkv: Array,
    q_norm: Array | None,
    k_norm: Array | None,
    position: Array,
    keys: Array,
    values: Array,
    *,
    heads: int,
    base: float,
    eps: float = 1e-6,
    dims: int | None = None,
    slots: Array | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``rope(rms_norm(queries))``, and write ``rope(rms_norm(keys))`` and the values into the caches.

    Parameters
    ----------
    qkv : Array, [B, W]
        float16, bfloat16 or float32. The columns of a row are `heads` * D of queries, Hkv * D of keys, Hkv * D of
        values; any after them are not read.
    q_norm, k_norm : Array, [D], optional
        Weights of an RMS norm of each head, of the dtype of `qkv`; None leaves the heads as they are.
    position : Array, [B]
        int32, on the device: how far each row turns, and where its keys and values go if there are no `slots`.
    keys, values : Array, [B, Hkv, capacity, D] or [Hkv, capacity, D]
        A cache for each row, or one for all, whose positions then differ. Of the dtype of `qkv`; written in place. D
        from 2 to 256.
    heads : int
        How many heads of queries there are.
    base : float
        As in `rope`.
    eps : float
        Is added to the mean of squares in both norms.
    dims : int, optional
        As in `rope`: how many elements of each head turn.
    slots : Array, [B], optional
        int32, on the device: where in the caches the keys and values of each row go, as `block_slots` makes it for
        caches in blocks. A row whose slot is outside 0..capacity-1 writes nothing.

    Returns
    -------
    Array, [B, heads, D]
        Of the dtype of `qkv`; rounded after the norm and after the rotation, as `rms_norm` and `rope` do.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or `out` overlaps another array.
    """
    stream = stream or current_stream()
    plan = plan_of(qkv, q_norm, k_norm, position, keys, values, heads, base, eps, dims, slots, target_of(stream))
    frequencies = device_frequencies(stream, base, keys.shape[-1] if dims is None else dims)
    given = {"x": qkv, "q_norm": q_norm, "k_norm": k_norm, "position": position, "keys": keys, "values": values}
    return plan.run(stream, out, **given, slots=position if slots is None else slots, frequencies=frequencies)


class Heads(NamedTuple):
    """The sizes of one call.

    Attributes
    ----------
    rows : int
    heads, kv_heads : int
        Heads of queries, and of keys and of values.
    columns : int
        Elements from one row of `qkv` to the next.
    width : int
        Elements of a head.
    capacity : int
        Positions of a cache.
    own_caches : int
        1 where each row has its own caches, 0 where all have the same.
    dims : int
        Elements of a head that turn.
    is_normed : int
        Bit 0 where queries have a norm, bit 1 where keys have one.
    """

    rows: int
    heads: int
    kv_heads: int
    columns: int
    width: int
    capacity: int
    own_caches: int
    dims: int
    is_normed: int


def heads_of(
    op: str,
    qkv: Form,
    q_norm: Form | None,
    k_norm: Form | None,
    position: Form,
    keys: Form,
    values: Form,
    heads: int,
    base: float,
    dims: int | None,
) -> Heads:
    """Check the operands of an op that norms and rotates heads and writes caches; return their sizes.

    Raises
    ------
    TypeError, ValueError
        As `norm_rope_write` says.
    """
    floating(op, "qkv", qkv, 2)
    same(op, "keys", keys, "qkv", qkv)
    same(op, "values", values, "qkv", qkv)
    rows, columns = qkv.shape
    if keys.ndim not in (3, 4) or keys.shape != values.shape or keys.shape[:-3] not in ((), (rows,)):
        raise ValueError(f"{op}: keys {keys.shape} and values {values.shape} are not [{rows}, Hkv, capacity, D]")
    kv_heads, capacity, width = keys.shape[-3:]
    if (heads + 2 * kv_heads) * width > columns or not 2 <= width <= WIDEST or not kv_heads:
        raise ValueError(f"{op}: {heads} and twice {kv_heads} heads of {width} elements do not fit qkv {qkv.shape}")
    if rows > LARGEST_GRID_YZ:
        raise ValueError(f"{op}: qkv has shape {qkv.shape}; at most {LARGEST_GRID_YZ} rows fit a launch")
    for name, norm in (("q_norm", q_norm), ("k_norm", k_norm)):
        if norm is not None:
            buffer(op, name, norm, qkv.dtype, (width,))
    dims = check_rotation(op, base, dims, width)
    buffer(op, "position", position, INT32, (rows,))
    is_normed = (q_norm is not None) | (k_norm is not None) << 1
    return Heads(rows, heads, kv_heads, columns, width, capacity, int(keys.ndim == 4), dims, is_normed)


@Planned
def plan_of(
    qkv: Form,
    q_norm: Form | None,
    k_norm: Form | None,
    position: Form,
    keys: Form,
    values: Form,
    heads: int,
    base: float,
    eps: float,
    dims: int | None,
    slots: Form | None,
    target: Target,
) -> Plan:
    """Check the operands and return the plan."""
    op = "norm_rope_write"
    call = heads_of(op, qkv, q_norm, k_norm, position, keys, values, heads, base, dims)
    if slots is not None:
        buffer(op, "slots", slots, INT32, (call.rows,))
    if target.takes_loops:
        grid, threads = (call.rows, 1, 1), 1
    else:
        grid = (-(-(heads + 2 * call.kv_heads) // SIMDGROUPS), call.rows, 1)
        threads = SIMDGROUPS * 32
    scalars = call._asdict()
    rows = scalars.pop("rows")
    launch = Launch(KERNEL, grid, (threads, 1, 1), {"T": qkv.dtype}, eps=eps, **scalars)
    return Plan(op, (rows, heads, call.width), qkv.dtype, launch)
