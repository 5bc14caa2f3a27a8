"""Queries and keys normed and turned, keys and values put into their caches: one kernel of a decode step."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, buffer, floating, made, same
from hiprt.kernels.ops.attention.rope import upload
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["norm_rope_write"]

SIMDGROUPS = 4
WIDEST = 256
LARGEST_GRID_Y = 65535
KERNEL = Kernel(
    "attention/norm_rope_write",
    inputs={"x": "T", "q_norm": "T", "k_norm": "T", "position": "int", "frequencies": "ulong"},
    updates={"keys": "T", "values": "T"},
    outputs={"out": "T"},
    scalars={
        "heads": "uint",
        "pairs": "uint",
        "stride": "uint",
        "width": "uint",
        "capacity": "uint",
        "dims": "uint",
        "flags": "uint",
        "eps": "float",
    },
    template={"T": "dtype"},
    headers=("attention/rotation.h",),
    threads=128,
    ahead=("q_norm", "k_norm", "position", "frequencies"),
    instances=each(),
)


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
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``rope(rms_norm(queries))``, and write ``rope(rms_norm(keys))`` and the values into the caches.

    Parameters
    ----------
    qkv : Array, [B, W]
        float16, bfloat16 or float32. Of each row `heads` * D columns are queries, Hkv * D keys, Hkv * D values; what
        follows is left alone.
    q_norm, k_norm : Array, [D], optional
        Weights of an RMS norm of each head, of the dtype of `qkv`.
    position : Array, [B]
        int32, on the device. A row whose position is outside 0..capacity-1 writes nothing into the caches.
    keys, values : Array, [B, Hkv, capacity, D]
        Of the dtype of `qkv`; written in place. D from 2 to 256.
    heads : int
        Of queries.
    base : float
        Of `rope`.
    eps : float
        Of the norms.
    dims : int, optional
        How many elements of each head turn: even; D by default.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

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
    plan = plan_of(qkv, q_norm, k_norm, position, keys, values, heads, base, dims, uses_loops(stream))
    norms = [qkv if norm is None else norm for norm in (q_norm, k_norm)]
    out = made("norm_rope_write", out, plan.shape, qkv.dtype, stream, (qkv, *norms, position, keys, values))
    table = upload(stream.device, base, plan.dims)
    operands = qkv, *norms, position, table, keys, values, out
    KERNEL(stream, plan.grid, plan.threads, (qkv.dtype,), *operands, *plan.sizes, eps)
    return out


class Plan(NamedTuple):
    """A launch, and the shape of what it returns."""

    shape: tuple[int, int, int]
    dims: int
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    sizes: tuple[int, ...]


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
    dims: int | None,
    loops: bool,
) -> Plan:
    """Check the operands and return the launch."""
    op = "norm_rope_write"
    floating(op, "qkv", qkv, 2)
    same(op, "keys", keys, "qkv", qkv)
    same(op, "values", values, "qkv", qkv)
    batch, stride = qkv.shape
    if keys.ndim != 4 or keys.shape != values.shape or keys.shape[0] != batch:
        raise ValueError(f"{op}: keys {keys.shape} and values {values.shape} are not [{batch}, Hkv, capacity, D]")
    _, pairs, capacity, width = keys.shape
    if (heads + 2 * pairs) * width > stride or not 2 <= width <= WIDEST or not pairs:
        raise ValueError(f"{op}: {heads} and twice {pairs} heads of {width} elements do not fit qkv {qkv.shape}")
    if batch > LARGEST_GRID_Y:
        raise ValueError(f"{op}: qkv has shape {qkv.shape}; at most {LARGEST_GRID_Y} rows fit a launch")
    dims = width if dims is None else dims
    if dims % 2 or not 0 <= dims <= width:
        raise ValueError(f"{op}: dims={dims} is not an even number of at most {width}")
    if not base > 0:
        raise ValueError(f"{op}: base={base} is not positive")
    for name, norm in (("q_norm", q_norm), ("k_norm", k_norm)):
        if norm is not None:
            buffer(op, name, norm, qkv.dtype, (width,))
    buffer(op, "position", position, INT32, (batch,))
    flags = (q_norm is not None) | (k_norm is not None) << 1
    grid = (batch, 1, 1) if loops else (-(-(heads + 2 * pairs) // SIMDGROUPS), batch, 1)
    sizes = heads, pairs, stride, width, capacity, dims, flags
    return Plan((batch, heads, width), dims, grid, (1 if loops else SIMDGROUPS * 32, 1, 1), sizes)
