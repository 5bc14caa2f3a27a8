"""Elementwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hiprt import kernels
from hiprt.metal_compat.mlx.array import INT32, array, as_array
from hiprt.metal_compat.mlx.dtypes import Dtype, given
from hiprt.metal_compat.mlx.lazy import apply

UNARY = (
    "abs", "ceil", "cos", "erf", "erfinv", "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logical_not", "negative", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square",
    "tanh",
)  # fmt: skip
BINARY = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "greater", "greater_equal",
    "left_shift", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "maximum", "minimum", "multiply",
    "not_equal", "power", "remainder", "right_shift", "subtract",
)  # fmt: skip
__all__ = [*UNARY, *BINARY, "astype", "bitwise_invert", "clip", "round", "stop_gradient", "where"]


def unary(name: str) -> Callable[..., array]:
    """Return the op of one array that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, /, *, stream: Any = None) -> array:
        made: array = apply(op, as_array(a))
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


def operand(x: Any, other: Any) -> Any:
    """Return an operand as ops take it: arrays, and Python numbers, which take the dtype of the other one."""
    if type(x) is array:
        return x
    if isinstance(x, (bool, int, float)) and isinstance(other, array):
        if not isinstance(x, float) and x not in INT32:
            return as_array(x, other.dtype if other.dtype.numpy.kind in "iu" else None)
        return x
    return as_array(x)


def binary(name: str) -> Callable[..., array]:
    """Return the op of two arrays that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, b: Any, stream: Any = None) -> array:
        left = operand(a, b)
        right = operand(b, left)
        made: array = apply(op, left if isinstance(left, array) else operand(left, right), right)
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


globals().update({name: unary(name) for name in UNARY})
globals().update({name: binary(name) for name in BINARY})


def bitwise_invert(a: Any, /, *, stream: Any = None) -> array:
    """Return all bits turned over."""
    made: array = apply(kernels.bitwise_invert, as_array(a))
    return made


def astype(a: array, dtype: Dtype, stream: Any = None) -> array:
    """Return an array in another dtype."""
    made: array = a if a.dtype is dtype else apply(kernels.astype, a, given(dtype))
    return made


def clip(a: Any, /, a_min: Any = None, a_max: Any = None, *, stream: Any = None) -> array:
    """Return values held between two bounds, of which one may be None."""
    if a_min is None and a_max is None:
        raise ValueError("At most one of a_min and a_max may be None")
    made = as_array(a)
    if a_min is not None:
        made = binary("maximum")(made, a_min)
    return made if a_max is None else binary("minimum")(made, a_max)


def round(a: Any, /, decimals: int = 0, *, stream: Any = None) -> array:  # noqa: A001
    """Return values rounded to decimals, the even neighbour of two."""
    made = as_array(a)
    if not decimals:
        rounded: array = apply(kernels.round, made)
        return rounded
    scale = 10.0**decimals
    shifted: array = apply(lambda x: kernels.divide(kernels.round(kernels.multiply(x, scale)), scale), made)
    return shifted


def where(condition: Any, x: Any, y: Any, /, *, stream: Any = None) -> array:
    """Return `x` where a condition holds, `y` elsewhere."""
    x, y = operand(x, y), operand(y, x)
    if not isinstance(x, array) and not isinstance(y, array):
        x = as_array(x)
    made: array = apply(kernels.where, as_array(condition), x, y)
    return made


def stop_gradient(x: array, stream: Any = None) -> array:
    """Return the array: there are no gradients."""
    return x
