"""Promotion: the dtypes that kernels have, and the dtype that operands of several are promoted to, by MLX's rules."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from hiprt.array import Array, Form, bfloat16
from hiprt.kernels.lang.operands import LARGEST

__all__ = [
    "BOOL",
    "INT32",
    "WORDS",
    "as_number",
    "at_least_float",
    "is_complex",
    "is_float",
    "is_integer",
    "promote",
    "strided",
    "weak",
]

DType = np.dtype[Any]
BOOL = np.dtype(np.bool_)
COMPLEX64 = np.dtype(np.complex64)
FLOAT16, FLOAT32, INT32 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.int32)
# The dialect's word for each dtype of an array; float64 has no kernels.
WORDS: dict[DType, str] = {
    BOOL: "bool",
    np.dtype(np.uint8): "uchar",
    np.dtype(np.uint16): "ushort",
    np.dtype(np.uint32): "uint",
    np.dtype(np.uint64): "ulong",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.int16): "short",
    INT32: "int",
    np.dtype(np.int64): "long",
    FLOAT16: "half",
    bfloat16: "bfloat16_t",
    FLOAT32: "float",
    COMPLEX64: "complex64_t",
}
SIGNED = {np.dtype(kind).itemsize: np.dtype(kind) for kind in (np.int8, np.int16, np.int32, np.int64)}


def is_float(dtype: DType) -> bool:
    """Whether a dtype is float16, bfloat16 or float32."""
    return dtype in (FLOAT16, bfloat16, FLOAT32)


def is_complex(dtype: DType) -> bool:
    """Whether a dtype is complex64."""
    return dtype.kind == "c"


def is_integer(dtype: DType) -> bool:
    """Whether a dtype is an integer; bool is not."""
    return dtype.kind in "iu"


def promote(*dtypes: DType) -> DType:
    """Return the dtype that `dtypes` are promoted to.

    A floating dtype wins over integers of any width. float16 with bfloat16 gives float32. An unsigned integer with a
    signed one of no more bits gives the next wider signed one, and float32 where there is none. complex64 wins over
    all.
    """
    return reduce(promote_two, dtypes)


def promote_two(a: DType, b: DType) -> DType:
    """Return the dtype that two are promoted to."""
    if a == b or b == BOOL:
        return a
    if a == BOOL:
        return b
    if is_complex(a) or is_complex(b):
        return COMPLEX64
    if is_float(a) or is_float(b):
        return FLOAT32 if is_float(a) and is_float(b) else a if is_float(a) else b
    if a.kind == b.kind:
        return max(a, b, key=lambda dtype: dtype.itemsize)
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return SIGNED.get(max(signed.itemsize, 2 * unsigned.itemsize), FLOAT32)


def at_least_float(dtype: DType) -> DType:
    """Return a floating dtype or complex64 unchanged, and float32 for every other."""
    return dtype if is_float(dtype) or is_complex(dtype) else FLOAT32


def as_number(value: Any) -> Any:
    """Return the Python number that a scalar of numpy's counts as; every other value as it is."""
    if isinstance(value, np.generic) and (value.dtype.kind in "biuf" or value.dtype == bfloat16):
        return value.item()
    return value


def weak(number: float, dtype: DType) -> DType:
    """Return the dtype of an op on an array of `dtype` and a Python number, which takes the array's dtype if it can."""
    if isinstance(number, float):
        return at_least_float(dtype)
    return INT32 if dtype == BOOL and not isinstance(number, bool) else dtype


def strided(op: str, name: str, value: Any) -> Any:
    """Return an array or its form after checking that kernels have its dtype and can index its size.

    Raises
    ------
    TypeError
        The value is not an array, or its dtype has no kernels.
    ValueError
        The array is too large.
    """
    if not isinstance(value, (Array, Form)):
        raise TypeError(f"{op}: {name} is a {type(value).__name__}, not a hiprt.Array")
    form = value if isinstance(value, Form) else value.form
    if value.dtype not in WORDS:
        raise TypeError(f"{op}: {name} is {value.dtype}, which no kernel supports")
    if form.span > LARGEST or form.size > LARGEST:
        raise ValueError(f"{op}: {name} reaches over more than {LARGEST} elements")
    return value
