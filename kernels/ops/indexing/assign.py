"""Assignment to a part of an array that Python's indices name."""

from __future__ import annotations

from typing import Any

from hiprt.array import Array
from hiprt.kernels.ops.elementwise.copies import copy, copyto
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["assign"]


@op
def assign(a: Array, index: Any, update: Array, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return `a` with a part replaced, as ``a[index] = update`` leaves it.

    Parameters
    ----------
    a : Array
        An array of any dtype, and of any strides unless it is `out`.
    index : tuple
        Integers, slices, None and ``...``, as views of arrays take them.
    update : Array
        It is converted to the dtype of `a` and broadcast to the part's shape.
    out : Array, optional
        `a` itself, of which only the part is then written.

    Returns
    -------
    Array
        The shape and dtype of `a`.

    Raises
    ------
    IndexError
        There is no such part.
    ValueError
        The shape of `update` does not fit, or `out` is another array than `a`.
    """
    if out is not None and out is not a:
        raise ValueError("assign: out is a itself, or is left out")
    stream = stream or current_stream()
    into = a if out is a else copy(a, stream=stream)
    copyto(into[index], update, stream=stream)
    return into
