"""Result dtypes: rules for the dtype that an elementwise op computes in, and the dtype of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hiprt.kernels.ops.promotion import BOOL, COMPLEX64, FLOAT32, at_least_float, is_complex

__all__ = ["DType", "Rule", "floating", "magnitude", "number", "part", "real_floating", "real_number", "test", "truth"]

DType = np.dtype[Any]
# A rule takes the dtype that the operands are promoted to, and returns the dtype to compute in and the result's.
Rule = Callable[[DType], tuple[DType, DType]]


def number(dtype: DType) -> tuple[DType, DType]:
    """Any dtype gives itself."""
    return dtype, dtype


def real_number(dtype: DType) -> tuple[DType, DType]:
    """Any dtype but complex64 gives itself."""
    return (real(dtype),) * 2


def floating(dtype: DType) -> tuple[DType, DType]:
    """Floating dtypes and complex64 give themselves, the others float32."""
    return (at_least_float(dtype),) * 2


def real_floating(dtype: DType) -> tuple[DType, DType]:
    """Floating dtypes give themselves, the others float32; complex64 is not taken."""
    return (at_least_float(real(dtype)),) * 2


def real(dtype: DType) -> DType:
    """Return a dtype that is not complex64."""
    if is_complex(dtype):
        raise TypeError("Not supported for complex64")
    return dtype


def magnitude(dtype: DType) -> tuple[DType, DType]:
    """Any dtype gives itself, but complex64 gives float32."""
    return dtype, FLOAT32 if is_complex(dtype) else dtype


def part(_: DType) -> tuple[DType, DType]:
    """Any dtype is converted to complex64, and the result is float32."""
    return COMPLEX64, FLOAT32


def test(dtype: DType) -> tuple[DType, DType]:
    """Any dtype gives bool."""
    return dtype, BOOL


def truth(_: DType) -> tuple[DType, DType]:
    """Any dtype is converted to bool, and the result is bool."""
    return BOOL, BOOL
