"""Elementwise ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, zeros as zeros_of
from hiprt.graphs.trace.integer import Integer
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.dtypes import Dtype, complex64, finfo, given, iinfo
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.places import counted

UNARY = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "cos", "cosh", "erf", "erfinv",
    "exp", "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not",
    "negative", "reciprocal", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
BINARY = (
    "add", "arctan2", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "greater",
    "greater_equal", "left_shift", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "maximum",
    "minimum", "multiply", "not_equal", "power", "remainder", "right_shift", "subtract",
)  # fmt: skip
# Second names of the same functions.
SAME = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2",
    "atanh": "arctanh", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip
# Ops by which programs come from a position to others: they are given numbers as arrays; see `counted`.
COUNTING = {"add", "subtract", "greater", "greater_equal", "less", "less_equal"}
COUNTS = np.dtype(np.int32)
WHOLE = (int, Integer)
__all__ = [
    *UNARY, *BINARY, *SAME, "astype", "bitwise_invert", "clip", "conj", "conjugate", "degrees", "divmod", "imag",
    "isneginf", "isposinf", "logical_xor", "nan_to_num", "positive", "radians", "real", "round", "stop_gradient",
    "trunc", "where",
]  # fmt: skip


def unary(name: str) -> Callable[..., array]:
    """Return the op of one array that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, /, *, stream: Any = None) -> array:
        a = as_array(a)
        try:
            made: array = apply(op, a)
        except TypeError as error:
            raise refused(name, error) from None
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


def refused(name: str, error: TypeError) -> ValueError:
    """Return the error that MLX raises for a dtype that an op does not take."""
    return ValueError(f"[{name}] {error}.")


def whole_number(x: int, dtype: Dtype) -> array:
    """Return an integer, which ops do not take as it is, as an array of an integer dtype that has it."""
    if dtype.numpy.kind not in "iu":
        return as_array(x)
    limits = iinfo(dtype)
    if not limits.min <= x <= limits.max:
        raise ValueError(f"Converting {x} to {dtype.name} would result in overflow.")
    return as_array(x, dtype)


def operand(x: Any, other: Any) -> Any:
    """Return an operand as ops take it: arrays, and Python numbers, which take the dtype of the other one."""
    if type(x) is array:
        return x
    if isinstance(x, (bool, int, float)) and isinstance(other, array):
        if not isinstance(x, float) and not -(2**31) <= x < 2**31:
            return whole_number(x, other.dtype)
        return x
    return as_array(x)


def binary(name: str) -> Callable[..., array]:
    """Return the op of two arrays that the catalogue has under a name."""
    op = getattr(kernels, name)

    def applied(a: Any, b: Any, stream: Any = None) -> array:
        left = operand(a, b)
        right = operand(b, left)
        if type(right) in WHOLE and name in COUNTING and left.value.dtype is COUNTS and left.value.ndim:
            right = counted(right)
        try:
            made: array = apply(op, left if isinstance(left, array) else operand(left, right), right)
        except TypeError as error:
            raise refused(name, error) from None
        except OverflowError as error:
            raise ValueError(str(error)) from None
        return made

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = op.__doc__
    return applied


globals().update({name: unary(name) for name in UNARY})
globals().update({name: binary(name) for name in BINARY})
globals().update({name: globals()[first] for name, first in SAME.items()})


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
    if not is_floating(made) and decimals > 0:
        return made
    scale = 10.0**decimals
    shifted: array = apply(lambda x: kernels.divide(kernels.round(kernels.multiply(x, scale)), scale), made)
    return shifted if is_floating(made) else shifted.astype(made.dtype)


def is_floating(a: array) -> bool:
    """Whether an array's numbers are floating."""
    return a.dtype.numpy.kind not in "biu"


def trunc(a: Any, /, *, stream: Any = None) -> array:
    """Return values without what stands behind the point."""
    made = as_array(a)
    if not is_floating(made):
        return made
    cut: array = apply(lambda x: kernels.where(kernels.less(x, 0.0), kernels.ceil(x), kernels.floor(x)), made)
    return cut


def divmod(a: Any, b: Any, stream: Any = None) -> tuple[array, array]:  # noqa: A001
    """Return quotients rounded down, and what they leave."""
    return binary("floor_divide")(a, b), binary("remainder")(a, b)


def logical_xor(a: Any, b: Any, /, *, stream: Any = None) -> array:
    """Return whether one of two is not zero, but not both."""
    made: array = apply(lambda x, y: kernels.not_equal(*map(kernels.logical_not, (x, y))), as_array(a), as_array(b))
    return made


def isposinf(a: Any, stream: Any = None) -> array:
    """Return whether values are the positive infinity."""
    return binary("equal")(as_array(a), float("inf"))


def isneginf(a: Any, stream: Any = None) -> array:
    """Return whether values are the negative infinity."""
    return binary("equal")(as_array(a), float("-inf"))


def nan_to_num(
    a: Any, nan: float = 0, posinf: float | None = None, neginf: float | None = None, *, stream: Any = None
) -> array:
    """Return values with numbers in the place of NaN and of infinities, by default the dtype's farthest ones."""
    made = as_array(a)
    if not is_floating(made):
        return made
    limits = finfo(made.dtype)
    top, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf

    def numbers(x: Array) -> Array:
        x = kernels.where(kernels.isnan(x), float(nan), x)
        x = kernels.where(kernels.equal(x, float("inf")), float(top), x)
        return kernels.where(kernels.equal(x, float("-inf")), float(low), x)

    replaced: array = apply(numbers, made)
    return replaced


def scaled(a: Any, by: float) -> array:
    """Return floating values times a number."""
    made: array = apply(lambda x: kernels.multiply(x, by), as_array(a))
    return made


def degrees(a: Any, /, *, stream: Any = None) -> array:
    """Return angles in degrees."""
    return scaled(a, 180.0 / math.pi)


def radians(a: Any, /, *, stream: Any = None) -> array:
    """Return angles in radians."""
    return scaled(a, math.pi / 180.0)


def positive(a: Any, /, *, stream: Any = None) -> array:
    """Return the array."""
    return as_array(a)


def real(a: Any, /, *, stream: Any = None) -> array:
    """Return the real parts; an array of real numbers as it is."""
    found = as_array(a)
    made: array = apply(kernels.real, found) if found.dtype is complex64 else found
    return made


def imag(a: Any, /, *, stream: Any = None) -> array:
    """Return the imaginary parts; zeros of an array of real numbers."""
    found = as_array(a)
    if found.dtype is complex64:
        made: array = apply(kernels.imag, found)
        return made
    zeros: array = apply(zeros_of, found.shape, found.dtype.numpy)
    return zeros


def conjugate(a: Any, stream: Any = None) -> array:
    """Return the conjugates; an array of real numbers as it is."""
    found = as_array(a)
    made: array = apply(kernels.conjugate, found) if found.dtype is complex64 else found
    return made


conj = conjugate


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
