"""Copies that make a kernel's inputs contiguous, and fills that give its outputs a first value, in stream order."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array, array, empty
from hiprt.kernels import Kernel
from hiprt.kernels.lang.metal_body import Body, Form, Operand
from hiprt.metal_compat.options import DEFAULT_MODE
from hiprt.metal_compat.program_cache import ProgramCache
from hiprt.stream import Stream

__all__ = ["from_host", "initialise", "row_contiguous"]

WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}
THREADS = (256, 1, 1)
COPY = ProgramCache(
    Body(
        "row_contiguous",
        ("x",),
        ("out",),
        "long i = thread_position_in_grid.x + long(thread_position_in_grid.y) * threads_per_grid.x;\n"
        "long from = 0, left = i;\n"
        "for (int axis = x_ndim - 1; axis >= 0; axis--) {\n"
        "  from += left % x_shape[axis] * x_strides[axis];\n"
        "  left /= x_shape[axis];\n"
        "}\n"
        "out[i] = x[from];",
    ),
    DEFAULT_MODE,
)
FILL = Kernel(
    "fill_words",
    outputs={"out": "ulong"},
    scalars={"low": "uint", "high": "uint", "size": "uint"},
    source="uint i = thread_position_in_grid.x;\nif (i < size) out[i] = ulong(high) << 32 | low;",
)


def row_contiguous(x: Array, stream: Stream) -> Array:
    """Return `x` if its rows lie without gaps, else a copy that does."""
    if x.is_contiguous:
        return x
    word = WORDS[x.dtype.itemsize]
    made = empty(x.shape, x.dtype, stream)
    form = Form((Operand(word, x.ndim, False),), (word,))
    rows = x.shape[0]
    COPY.launch(stream, form, (x.size // rows, rows, 1), THREADS, (x,), (made,))
    return made


def from_host(value: np.ndarray[Any, Any], stream: Stream) -> Array:
    """Copy an input to the device. A single element is filled in, so that a recorded step is not divided by a copy."""
    if value.size != 1:
        return array(value, stream=stream)
    made = empty(value.shape, value.dtype, stream)
    fill(made, value.reshape(()), stream)
    return made


def initialise(out: Array, value: float, stream: Stream) -> None:
    """Set every element to a number, converted as C++ converts a float32."""
    with np.errstate(invalid="ignore", over="ignore"):
        fill(out, np.asarray(np.float32(value)).astype(out.dtype), stream)


def fill(out: Array, element: np.ndarray[Any, Any], stream: Stream) -> None:
    """Set every element to one element that the host has."""
    if not out.size:
        return
    item = out.dtype.itemsize
    bits = int.from_bytes(element.tobytes(), "little")
    width = min(item, 4)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    if item == 8 and low != high:
        groups = -(-out.size // THREADS[0])
        FILL(stream, (groups, 1, 1), THREADS, out=out.view(WORDS[8]), low=low, high=high, size=out.size)
        return
    stream.fill(out.address, low, width, out.nbytes // width, to=out.buffer)
