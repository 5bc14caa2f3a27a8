"""Writing a step's keys or values into their cache, at a position that lives on the device."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, buffer, floating, same
from hiprt.stream import Stream, current_stream

__all__ = ["kv_write"]

THREADS = 64
LARGEST_GRID = 65535  # in y and z
KERNEL = Kernel(
    "attention/kv_write",
    inputs={"x": "T", "position": "int"},
    updates={"cache": "T"},
    scalars={"heads": "uint", "capacity": "uint", "width": "uint", "apart": "uint"},
    template={"T": "dtype"},
    instances=each(),
)


def kv_write(cache: Array, x: Array, position: Array, *, stream: Stream | None = None) -> Array:
    """Set ``cache[:, position] = x`` in place: of one row, of several into one cache, or of one a cache.

    Parameters
    ----------
    cache : Array, [heads, capacity, D] or [rows, heads, capacity, D]
        float16, bfloat16 or float32. With four axes each row has a cache of its own.
    x : Array, [heads, D] or [rows, heads, D]
        Of the dtype of `cache`; two axes only into a cache of three.
    position : Array, [1] or [rows]
        int32, on the device. A position outside 0..capacity-1 writes nothing; which of several rows of one position
        is kept is not defined.
    stream : Stream, optional
        This thread's by default.

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
    floating("kv_write", "cache", cache)
    if cache.ndim not in (3, 4):
        raise ValueError(f"kv_write: cache has shape {cache.shape}; 3 or 4 axes are needed")
    same("kv_write", "x", x, "cache", cache)
    heads, capacity, width = cache.shape[-3:]
    rows = x.shape[0] if x.ndim == 3 else 1
    fits = x.shape[-2:] == (heads, width) and x.ndim in ((2, 3) if cache.ndim == 3 else (3,))
    if not fits or (cache.ndim == 4 and rows != cache.shape[0]) or max(heads, rows) > LARGEST_GRID:
        raise ValueError(f"kv_write: x has shape {x.shape} and cache {cache.shape}; rows, heads and D must be the same")
    buffer("kv_write", "position", position, INT32, (rows,))
    stream = stream or current_stream()
    loops = uses_loops(stream)
    grid = (min(heads, 1), 1, rows) if loops else (-(-width // THREADS), heads, rows)
    threads = 1 if loops else THREADS
    apart = heads * capacity if cache.ndim == 4 else 0
    KERNEL(stream, grid, (threads, 1, 1), (cache.dtype,), x, position, cache, heads, capacity, width, apart)
    return cache
