"""Elementwise ops of three arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.kernels.ops.elementwise.binary import maximum, minimum
from hiprt.kernels.ops.elementwise.expression import Expression, Operand, apply, evaluate, fits, target
from hiprt.kernels.ops.promotion import BOOL, as_number, promote, strided, weak
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["clip", "where"]

CLIP = Expression("clip", "smaller(larger(a, b), c)")
WHERE = Expression("where", "a ? b : c")


@op
def where(condition: Array, x: Operand, y: Operand, *, stream: Stream | None = None, out: Array | None = None) -> Array:
    """Return `x` where a condition holds and `y` elsewhere.

    Parameters
    ----------
    condition : Array
        An array of any dtype. The condition holds where it is not zero.
    x, y : Array or number
        The values, of any dtypes, which are promoted together. The three shapes broadcast.

    Returns
    -------
    Array

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        The shapes do not fit, or `out` overlaps an operand that it is not.
    """
    strided("where", "condition", condition)
    x, y = as_number(x), as_number(y)
    arrays = [strided("where", n, v) for n, v in (("x", x), ("y", y)) if not isinstance(v, (bool, int, float))]
    dtype = promote(*(v.dtype for v in arrays)) if arrays else BOOL
    for value in (x, y):
        if not isinstance(value, Array):
            dtype = weak(value, dtype)
            fits("where", value, dtype)
    stream = stream or current_stream()
    shape = broadcast_shapes("where", condition.shape, *(v.shape for v in arrays))
    out = target("where", out, shape, dtype, stream, [condition, *arrays])
    evaluate(WHERE, (condition, x, y), (BOOL, dtype, dtype), out, stream)
    return out


@op
def clip(
    a: Array,
    a_min: Operand | None,
    a_max: Operand | None,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return `a` held between two bounds.

    Parameters
    ----------
    a : Array
    a_min, a_max : Array or number or None
        The bounds. None means no bound; at least one must be given. The upper bound wins where they cross.

    Returns
    -------
    Array
        The bounded values, of the promoted dtype; NaN stays NaN. `out` may be `a`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        No bound is given, the shapes do not fit, or `out` overlaps an operand that it is not.
    """
    if a_min is None and a_max is None:
        raise ValueError("[clip] At most one of a_min and a_max can be None.")
    if a_max is None:
        return maximum(a, 0 if a_min is None else a_min, stream=stream, out=out)
    if a_min is None:
        return minimum(a, a_max, stream=stream, out=out)
    return apply(CLIP, ("a", "a_min", "a_max"), (a, a_min, a_max), same_dtype, stream, out)


def same_dtype(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the promoted dtype for the computation and for the result."""
    return dtype, dtype
