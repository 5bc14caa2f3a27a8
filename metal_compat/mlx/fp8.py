"""Floating codes of 8 bits, E4M3: `to_fp8` and `from_fp8`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.metal_compat.mlx.array import array, as_array
from hiprt.metal_compat.mlx.dtypes import bfloat16, given, uint8
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import viewed

__all__ = ["from_fp8", "to_fp8"]

UINT32, FLOAT32 = np.dtype(np.uint32), np.dtype(np.float32)
SMALLEST_NORMAL, LARGEST = 121 << 23, 0x43E00000  # 2**-6 and 448 as words of float32


def to_fp8(x: Any, *, stream: Any = None) -> array:
    """Return the nearest codes as uint8, ties to even; what is larger than 448, or NaN, becomes 448."""
    made: array = apply(coded, as_array(x))
    return made


def from_fp8(x: Any, dtype: Any = bfloat16, *, stream: Any = None) -> array:
    """Return the values of codes in a dtype."""
    codes = as_array(x)
    if codes.dtype is not uint8:
        raise ValueError(f"[from_fp8] Input must have type uint8 but x has type {codes.dtype.name}.")
    made: array = apply(decoded, codes, given(dtype))
    return made


def coded(x: Array) -> Array:
    """Return values as codes: the word of a float32 rounded to 3 bits of mantissa; below 2**-6, multiples of 2**-9."""
    values = kernels.contiguous(kernels.astype(x, FLOAT32))
    words = viewed(values, UINT32)
    size = kernels.bitwise_and(words, 0x7FFFFFFF)
    odd = kernels.bitwise_and(kernels.right_shift(size, 20), 1)
    near = kernels.right_shift(kernels.add(kernels.subtract(size, (120 << 23) - 0x7FFFF), odd), 20)
    small = kernels.where(kernels.less(size, SMALLEST_NORMAL), kernels.abs(values), 0.0)
    steps = kernels.astype(kernels.round(kernels.multiply(small, 512.0)), UINT32)
    codes = kernels.where(kernels.less(size, SMALLEST_NORMAL), steps, near)
    codes = kernels.where(kernels.less(size, LARGEST), codes, 126)
    sign = kernels.bitwise_and(kernels.right_shift(words, 24), 128)
    return kernels.astype(kernels.bitwise_or(codes, sign), np.uint8)


def decoded(codes: Array, dtype: np.dtype[Any]) -> Array:
    """Return the values of codes: their bits as those of a float32, whose exponent is 120 too small."""
    wide = kernels.astype(codes, UINT32)
    size = kernels.left_shift(kernels.bitwise_and(wide, 127), 20)
    words = kernels.bitwise_or(size, kernels.left_shift(kernels.bitwise_and(wide, 128), 24))
    values = kernels.multiply(viewed(kernels.contiguous(words), FLOAT32), 2.0**120)
    return kernels.astype(kernels.where(kernels.equal(size, 127 << 20), math.nan, values), dtype)
