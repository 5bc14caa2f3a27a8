"""Dtypes: numpy's, and the bfloat16 that numpy lacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

__all__ = ["bfloat16", "dtype_of"]

bfloat16 = np.dtype(ml_dtypes.bfloat16)


def dtype_of(value: DTypeLike) -> np.dtype[Any]:
    """Return a numpy dtype in the byte order of the machine; ``"bfloat16"`` names the type that numpy itself lacks.

    Raises
    ------
    TypeError
        Device memory cannot hold such elements: Python objects, text, dates.
    """
    dtype: np.dtype[Any] = bfloat16 if isinstance(value, str) and value == "bfloat16" else np.dtype(value)
    if dtype.hasobject or dtype.kind in "SUMmT":
        raise TypeError(f"{dtype}: device memory holds numbers")
    native: np.dtype[Any] = dtype if dtype.isnative else dtype.newbyteorder("=")
    return native
