"""Writing a step's keys or values into their cache, at a position that lives on the device."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import LARGEST_GRID_YZ, Launch
from hiprt.kernels.lang.operands import INT32, buffer, floating, same
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["kv_write"]

THREADS = 64
KERNEL = Kernel(
    "attention/kv_write",
    inputs={"x": "T", "position": "int"},
    updates={"cache": "T"},
    scalars={"heads": "uint", "capacity": "uint", "width": "uint", "cache_rows": "uint"},
    template={"T": "dtype"},
    threads=THREADS,
    instances=each(),
)


@op
def kv_write(cache: Array, x: Array, position: Array, *, stream: Stream | None = None) -> Array:
    """Set ``cache[:, position] = x`` in place: of one row, of several rows in one cache, or of one row in each cache.

    Parameters
    ----------
    cache : Array, [heads, capacity, D] or [rows, heads, capacity, D]
        float16, bfloat16 or float32. With four axes each row has a cache of its own.
    x : Array, [heads, D] or [rows, heads, D]
        Of the dtype of `cache`; two axes only into a cache of three.
    position : Array, [1] or [rows]
        int32, on the device. A position outside 0..capacity-1 writes nothing. Where several rows have one position, it
        is not defined which of them is kept.

    Returns
    -------
    Array
        `cache`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, or an array is not contiguous.
    """
    stream = stream or current_stream()
    launch_of(cache, x, position, target_of(stream))(stream, x=x, position=position, cache=cache)
    return cache


@Planned
def launch_of(cache: Form, x: Form, position: Form, target: Target) -> Launch:
    """Check the operands and return the launch."""
    op = "kv_write"
    floating(op, "cache", cache)
    if cache.ndim not in (3, 4):
        raise ValueError(f"{op}: cache has shape {cache.shape}; 3 or 4 axes are needed")
    same(op, "x", x, "cache", cache)
    heads, capacity, width = cache.shape[-3:]
    rows = x.shape[0] if x.ndim == 3 else 1
    fits = x.shape[-2:] == (heads, width) and x.ndim in ((2, 3) if cache.ndim == 3 else (3,))
    if not fits or (cache.ndim == 4 and rows != cache.shape[0]) or max(heads, rows) > LARGEST_GRID_YZ:
        raise ValueError(f"{op}: x has shape {x.shape} and cache {cache.shape}; rows, heads and D must be the same")
    buffer(op, "position", position, INT32, (rows,))
    if target.takes_loops:
        grid, threads = (min(heads, 1), 1, rows), 1
    else:
        grid, threads = (-(-width // THREADS), heads, rows), THREADS
    sizes = {"heads": heads, "capacity": capacity, "width": width}
    cache_rows = heads * capacity if cache.ndim == 4 else 0
    return Launch(KERNEL, grid, (threads, 1, 1), {"T": cache.dtype}, cache_rows=cache_rows, **sizes)
