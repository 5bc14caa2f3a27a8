"""Rotary position embedding at a position that lives on the device."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from hiprt.array import Array, array
from hiprt.device import Device
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, buffer, floating, made
from hiprt.stream import Stream, current_stream, new_stream

__all__ = ["frequencies_of", "rope"]

THREADS = 64
LARGEST_GRID = 65535  # in y and z
KERNEL = Kernel(
    "attention/rope",
    inputs={"x": "T", "position": "int", "frequencies": "ulong"},
    outputs={"out": "T"},
    scalars={"heads": "uint", "width": "uint", "dims": "uint"},
    template={"T": "dtype", "TRADITIONAL": "bool"},
    headers=("attention/rotation.h",),
    aliasing={"out": ("x",)},
    instances=each(TRADITIONAL=(False, True)),
)

tables: dict[tuple[int, float, int], Array] = {}
lock = threading.Lock()


def rope(
    x: Array,
    position: Array,
    *,
    base: float,
    dims: int | None = None,
    traditional: bool = False,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Rotate pair i of the first `dims` elements of each head by ``position * base**(-2i / dims)`` radians.

    Parameters
    ----------
    x : Array, [heads, D] or [rows, heads, D]
        float16, bfloat16 or float32.
    position : Array, [1] or [rows]
        int32, on the device: one for all heads of a row.
    base : float
        Positive.
    dims : int, optional
        Even, at most D; D by default. The elements after them are copied.
    traditional : bool
        Pair (2i, 2i + 1) instead of (i, i + dims / 2).
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result; may be `x`.

    Returns
    -------
    Array, of the shape of `x`
        The dtype of `x`: ``a cos - b sin`` and ``b cos + a sin``, computed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, `dims` is odd or too large, `base` is not positive, or `out` overlaps an input in part.

    Notes
    -----
    Su et al., "RoFormer", 2021. The fraction of a turn is exact to 2**-53 of the frequency at any position, and the
    same float32 operations follow on every target. Implementations that multiply in float32 are off by up to
    ``position * 6e-8`` radians.
    """
    floating("rope", "x", x)
    if x.ndim not in (2, 3):
        raise ValueError(f"rope: x has shape {x.shape}; 2 or 3 axes are needed")
    rows, heads, width = (1, *x.shape)[-3:]
    buffer("rope", "position", position, INT32, (rows,))
    dims = width if dims is None else dims
    if dims % 2 or not 0 <= dims <= width:
        raise ValueError(f"rope: dims={dims} is not an even number of at most {width}")
    if not base > 0:
        raise ValueError(f"rope: base={base} is not positive")
    if max(rows, heads) > LARGEST_GRID:
        raise ValueError(f"rope: x has shape {x.shape}; at most {LARGEST_GRID} rows and heads fit a launch")
    stream = stream or current_stream()
    out = made("rope", out, x.shape, x.dtype, stream, (x,), aliasing=True)
    table = tables.get((stream.device.index, base, dims))
    if table is None:
        table = upload(stream.device, base, dims)
    loops = uses_loops(stream)
    grid = (min(heads, 1), 1, rows) if loops else (-(-(width - dims // 2) // THREADS), heads, rows)
    template = (x.dtype, bool(traditional))
    KERNEL(stream, grid, (1 if loops else THREADS, 1, 1), template, x, position, table, out, heads, width, dims)
    return out


def frequencies_of(base: float, dims: int) -> NDArray[np.uint64]:
    """Return ``base**(-2i / dims)`` in units of 2**-64 turns for each position, modulo whole turns."""
    turns = np.power(np.float64(base), -np.arange(0, dims, 2, dtype=np.float64) / max(dims, 1)) / (2 * np.pi)
    upper = np.floor((turns % 1.0) * 2.0**32)
    lower = np.rint(((turns % 1.0) * 2.0**32 - upper) * 2.0**32)
    return (upper.astype(np.uint64) << np.uint64(32)) + lower.astype(np.uint64)


def upload(device: Device, base: float, dims: int) -> Array:
    """Put the frequencies on a device, for the life of the process."""
    with lock:
        key = (device.index, base, dims)
        if key not in tables:
            # A stream of its own: the caller's may be recording, and a recording must not own the table's memory.
            with new_stream(device) as stream:
                tables[key] = array(frequencies_of(base, dims), stream=stream)
        return tables[key]
