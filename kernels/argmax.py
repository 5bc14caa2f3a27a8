"""The place of the largest value, and of the smallest."""

from __future__ import annotations

from functools import cache

from hiprt.array import Array
from hiprt.kernels.checks import FLOATS, INT32, made
from hiprt.kernels.copies import axis_of, contiguous
from hiprt.kernels.dtypes import WORDS, strided
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.kernels.rows import grid_of
from hiprt.stream import Stream, current_stream

__all__ = ["argmax", "argmin", "threads_of"]

KERNEL = Kernel(
    "argmax",
    inputs={"x": "T"},
    outputs={"out": "int"},
    scalars={"width": "uint"},
    template={"T": "dtype", "RUN": "int"},
    headers=("largest.h",),
    threads=1024,
)
THREADS = 1024


# Any dtype: keys as for sorting, the largest and of equal ones the first.
BODY = """
threadgroup long keys[256];
threadgroup uint places[256];
const uint index = thread_index_in_threadgroup;
const size_t base = size_t(threadgroup_position_in_grid.x) * width;
long best = 0;
uint place = 0xffffffffu;
for (uint i = index; i < width; i += threads_per_threadgroup.x) {{
  long key = {key}(x[base + i]);
  if (place == 0xffffffffu || key > best) {{
    best = key;
    place = i;
  }}
}}
keys[index] = best;
places[index] = place;
threadgroup_barrier(mem_flags::mem_threadgroup);
if (index != 0) return;
for (uint i = 1; i < threads_per_threadgroup.x && i < width; i++) {{
  if (keys[i] > best || (keys[i] == best && places[i] < place)) {{
    best = keys[i];
    place = places[i];
  }}
}}
out[threadgroup_position_in_grid.x] = int(place);
"""


@cache
def kernel_of(name: str, key: str, word: str) -> Kernel:
    """Return the kernel for a dtype."""
    return Kernel(
        f"{name}_{word}",
        inputs={"x": word},
        outputs={"out": "int"},
        scalars={"width": "uint"},
        headers=("largest.h", "order.h"),
        source=BODY.format(key=key),
    )


def argmax(
    x: Array, axis: int | None = -1, keepdims: bool = False, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return the index of the largest value along an axis.

    Of equal values (0 and -0 are equal) the lowest index wins; the first NaN wins over every number, as in numpy.

    Parameters
    ----------
    x : Array
        Of any strides and dtype; not empty along the axis.
    axis : int, optional
        The last by default; None takes `x` as one row.
    keepdims : bool
        Whether the axis stays, with size 1.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array
        int32, which is what a step block holds (MLX returns uint32).

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        There is no such axis, it is empty, or `out` overlaps `x`.
    """
    return place_of("argmax", x, axis, keepdims, stream, out)


def argmin(
    x: Array, axis: int | None = -1, keepdims: bool = False, *, stream: Stream | None = None, out: Array | None = None
) -> Array:
    """Return the index of the smallest value along an axis; arguments and rules are those of `argmax`."""
    return place_of("argmin", x, axis, keepdims, stream, out)


def place_of(op: str, x: Array, axis: int | None, keepdims: bool, stream: Stream | None, out: Array | None) -> Array:
    """Check, put the axis last, and launch."""
    strided(op, "x", x)
    whole = x.ndim
    stream = stream or current_stream()
    if axis is None:
        x, axis = contiguous(x, stream=stream).reshape(x.size), 0
        shape = (1,) * whole if keepdims else ()
    else:
        axis = axis_of(op, axis, x.ndim)
        shape = (*x.shape[:axis], *((1,) if keepdims else ()), *x.shape[axis + 1 :])
    width = x.shape[axis]
    if not width:
        raise ValueError(f"{op}: x has shape {x.shape}; axis {axis} must not be empty")
    if axis < x.ndim - 1:
        x = x.transpose(*(each for each in range(x.ndim) if each != axis), axis)
    x = contiguous(x, stream=stream)
    out = made(op, out, shape, INT32, stream, (x,))
    if op == "argmax" and x.dtype in FLOATS:
        threads, run = threads_of(stream, x, width)
        KERNEL(stream, (x.size // width, 1, 1), (threads, 1, 1), (x.dtype, run), x, out, width)
        return out
    key = "sort_key" if op == "argmax" else "falling_key"
    kernel_of(op, key, WORDS[x.dtype])(stream, *grid_of(stream, out.size, width), (), x, out, width)
    return out


def threads_of(stream: Stream, x: Array, width: int) -> tuple[int, int]:
    """Return how many threads share a row of floats, and how many neighbours one reads at once."""
    if uses_loops(stream):
        return 1, 1
    run = 16 // x.dtype.itemsize
    if width % run or x.address % 16:
        run = 1
    return min(THREADS, -(-width // (32 * run)) * 32), run
