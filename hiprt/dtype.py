"""Dtypes: numpy's, and the bfloat16 that numpy lacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

__all__ = ["bfloat16", "dtype_of"]

bfloat16 = np.dtype(ml_dtypes.bfloat16)


def dtype_of(value: DTypeLike) -> np.dtype[Any]:
    """Return a numpy dtype; ``"bfloat16"`` names the type that numpy itself lacks."""
    return bfloat16 if isinstance(value, str) and value == "bfloat16" else np.dtype(value)
