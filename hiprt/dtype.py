"""Dtypes: numpy's, and the bfloat16 that numpy lacks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

__all__ = ["SAFETENSORS", "bfloat16", "dtype_of"]

bfloat16 = np.dtype(ml_dtypes.bfloat16)
# The words of the file format safetensors.
SAFETENSORS: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype(np.uint8),
    "I8": np.dtype(np.int8),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "F8_E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "U16": np.dtype(np.uint16),
    "I16": np.dtype(np.int16),
    "F16": np.dtype(np.float16),
    "BF16": bfloat16,
    "U32": np.dtype(np.uint32),
    "I32": np.dtype(np.int32),
    "F32": np.dtype(np.float32),
    "C64": np.dtype(np.complex64),
    "U64": np.dtype(np.uint64),
    "I64": np.dtype(np.int64),
    "F64": np.dtype(np.float64),
}


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
