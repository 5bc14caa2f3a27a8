"""Elementwise ops in numpy: floating results have float64's precision, integers and bool are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["BINARY", "UNARY", "add", "arange", "silu_mul", "values"]


def values(x: Host, dtype: np.dtype[Any]) -> Host:
    """Return an operand after converting it to `dtype` as the op does, and to float64 if that is floating."""
    with np.errstate(all="ignore"):
        converted = x.astype(dtype)
        return converted if dtype.kind in "biu" else converted.astype(np.float64)


def add(a: Host, b: Host) -> Floats:
    """Return ``a + b`` of floating operands."""
    return double(a) + double(b)


def silu_mul(gate: Host, up: Host) -> Floats:
    """Return ``gate * sigmoid(gate) * up``."""
    with np.errstate(over="ignore"):
        return double(gate) / (1.0 + np.exp(-double(gate))) * double(up)


def arange(start: int, stop: int | None = None, step: int = 1) -> NDArray[np.int32]:
    """Return integers from `start` up to, but without, `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    return np.arange(first, last, step).astype(np.int32)


def integer_power(a: Host, b: Host) -> Host:
    """Return powers of integers by squaring, which wraps as the dtype does. Negative exponents give 0."""
    if a.dtype.kind == "f":
        return np.asarray(np.power(a, b))
    if a.dtype == np.bool_:
        return a | ~b
    result, rest, base = np.ones_like(a), b.copy(), a.copy()
    while (rest > 0).any():
        result = np.where((rest > 0) & (rest & 1 == 1), result * base, result)
        base = base * base
        rest = np.where(rest > 0, rest >> 1, 0).astype(a.dtype)
    return np.where(b < 0, np.zeros_like(a), result)


def floor_divide(a: Host, b: Host) -> Host:
    """Return quotients rounded down. Integers divided by zero give 0."""
    if a.dtype == np.bool_:
        return a & b
    return np.where(b == 0, np.zeros_like(a), a // np.where(b == 0, 1, b)) if a.dtype.kind in "iu" else np.floor(a / b)


def remainder(a: Host, b: Host) -> Host:
    """Return the remainder of the division. Integers divided by zero give 0."""
    if a.dtype == np.bool_:
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), np.bool_)
    if a.dtype.kind in "iu":
        return np.where(b == 0, np.zeros_like(a), np.remainder(a, np.where(b == 0, 1, b).astype(a.dtype)))
    return np.asarray(np.remainder(a, b))


def sign(a: Host) -> Host:
    """Return -1, 0 or 1."""
    return a if a.dtype == np.bool_ else np.sign(a)


def sigmoid(a: Host) -> Host:
    """Return ``1 / (1 + exp(-a))``."""
    return np.asarray(1 / (1 + np.exp(-a)))


def multiply(a: Host, b: Host) -> Host:
    """Return ``a * b``."""
    return np.asarray(a * b)


def gelu_approx(a: Host) -> Host:
    """Return ``a * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a**3))) / 2``."""
    return np.asarray(a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3))) / 2)


erf = np.vectorize(math.erf, otypes=[np.float64])


def erfinv_of(a: float) -> float:
    """Return the number whose erf is `a`: by the normal distribution, then by a step of Newton's."""
    size = abs(a)
    if not size < 1:
        return math.copysign(math.inf, a) if size == 1 else math.nan
    x = -NormalDist().inv_cdf((1 - size) / 2) / math.sqrt(2)
    error = math.erf(x) - size if size < 0.5 else (1 - size) - math.erfc(x)
    return math.copysign(x - error * math.sqrt(math.pi) / 2 * math.exp(x * x), a)


erfinv = np.vectorize(erfinv_of, otypes=[np.float64])

UNARY: dict[str, Callable[[Host], Host]] = {
    "abs": np.abs,
    "arccos": np.arccos,
    "arccosh": np.arccosh,
    "arcsin": np.arcsin,
    "arcsinh": np.arcsinh,
    "arctan": np.arctan,
    "arctanh": np.arctanh,
    "bitwise_invert": np.invert,
    "ceil": lambda a: a if a.dtype.kind in "biu" else np.ceil(a),
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": erf,
    "erfinv": erfinv,
    "exp": np.exp,
    "expm1": np.expm1,
    "floor": lambda a: a if a.dtype.kind in "biu" else np.floor(a),
    "gelu": lambda a: np.asarray(a * (1 + erf(a / np.sqrt(2))) / 2),
    "gelu_approx": gelu_approx,
    "gelu_fast_approx": lambda a: np.asarray(a * sigmoid(1.702 * a)),
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "logical_not": np.logical_not,
    "negative": np.negative,
    "reciprocal": lambda a: np.asarray(1 / a),
    "round": lambda a: a if a.dtype.kind in "biu" else np.rint(a),
    "rsqrt": lambda a: np.asarray(1 / np.sqrt(a)),
    "sigmoid": sigmoid,
    "sign": sign,
    "silu": lambda a: np.asarray(a * sigmoid(a)),
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda a: np.asarray(np.logaddexp(a, 0)),
    "sqrt": np.sqrt,
    "square": lambda a: np.asarray(a * a),
    "tan": np.tan,
    "tanh": np.tanh,
}
BINARY: dict[str, Callable[[Host, Host], Host]] = {
    "add": lambda a, b: np.asarray(a + b),
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "divide": lambda a, b: np.asarray(a / b),
    "equal": np.equal,
    "floor_divide": floor_divide,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "left_shift": np.left_shift,
    "less": np.less,
    "less_equal": np.less_equal,
    "arctan2": np.arctan2,
    "logaddexp": np.logaddexp,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": multiply,
    "not_equal": np.not_equal,
    "power": integer_power,
    "remainder": remainder,
    "right_shift": np.right_shift,
    "subtract": lambda a, b: np.asarray(a ^ b if a.dtype == np.bool_ else a - b),
}
