"""Result dtypes: rules for the dtype that an elementwise op computes in, and the dtype of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hiprt.kernels.ops.promotion import BOOL, at_least_float

__all__ = ["DType", "Rule", "floating", "number", "test", "truth"]

DType = np.dtype[Any]
# A rule takes the dtype that the operands are promoted to, and returns the dtype to compute in and the result's.
Rule = Callable[[DType], tuple[DType, DType]]


def number(dtype: DType) -> tuple[DType, DType]:
    """Any dtype gives itself."""
    return dtype, dtype


def floating(dtype: DType) -> tuple[DType, DType]:
    """Floating dtypes give themselves, the others float32."""
    return (at_least_float(dtype),) * 2


def test(dtype: DType) -> tuple[DType, DType]:
    """Any dtype gives bool."""
    return dtype, BOOL


def truth(_: DType) -> tuple[DType, DType]:
    """Any dtype is converted to bool, and the result is bool."""
    return BOOL, BOOL
