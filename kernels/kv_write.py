"""Writing a step's keys or values into their cache, at a position that lives on the device."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import INT32, buffer, floating, same
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["kv_write"]

KERNEL = Kernel(
    "kv_write",
    inputs={"x": "T", "position": "int"},
    updates={"cache": "T"},
    scalars={"heads": "uint", "capacity": "uint", "width": "uint"},
    template={"T": "dtype"},
)
THREADS = 64
LARGEST_GRID_Y = 65535


def kv_write(cache: Array, x: Array, position: Array, *, stream: Stream | None = None) -> Array:
    """Set ``cache[:, position] = x`` in place.

    Parameters
    ----------
    cache : Array, [heads, capacity, D]
        float16, bfloat16 or float32.
    x : Array, [heads, D]
        Of the dtype of `cache`.
    position : Array, [1]
        int32, on the device. A position outside 0..capacity-1 writes nothing.
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
    floating("kv_write", "cache", cache, 3)
    heads, capacity, width = cache.shape
    same("kv_write", "x", x, "cache", cache)
    if x.shape != (heads, width) or heads > LARGEST_GRID_Y:
        raise ValueError(f"kv_write: x has shape {x.shape} and cache {cache.shape}; [heads, D] must be the same")
    buffer("kv_write", "position", position, INT32, (1,))
    stream = stream or current_stream()
    loops = uses_loops(stream)
    grid = (min(heads, 1), 1, 1) if loops else (-(-width // THREADS), heads, 1)
    threads = 1 if loops else THREADS
    KERNEL(stream, grid, (threads, 1, 1), (cache.dtype,), x, position, cache, heads, capacity, width)
    return cache
