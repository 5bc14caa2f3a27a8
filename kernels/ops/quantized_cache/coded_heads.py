"""Coded heads: a cache of codes of 8 bits, with a scale for each group of a head, as the ops take it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hiprt.array import Form
from hiprt.kernels.lang.operands import FLOAT32, aligned, buffer

__all__ = ["GROUP_SIZE", "INT8", "WIDTHS", "values_of"]

GROUP_SIZE = 64  # elements of a head that share a scale
WIDTHS = (64, 128, 256)  # elements of a head: whole groups, which the lanes of a simdgroup share evenly
INT8 = np.dtype(np.int8)


def values_of(op: str, name: str, codes: Form, scales: Form, dtype: np.dtype[Any]) -> Form:
    """Check the codes and the scales of a cache, and return the form of a cache of the values they stand for.

    Parameters
    ----------
    op, name : str
        The op's name and the cache's, used in messages.
    codes : Form, [..., capacity, width]
    scales : Form, [..., capacity, width / 64]
    dtype : numpy.dtype
        That of the values.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous, or the codes do not start at a multiple of 16 bytes.
    """
    buffer(op, name, codes, INT8)
    width = codes.shape[-1] if codes.ndim else 0
    if width not in WIDTHS:
        raise ValueError(f"{op}: heads of {width} elements in {name}; 64, 128 or 256 are supported")
    buffer(op, f"{name}' scales", scales, FLOAT32, (*codes.shape[:-1], width // GROUP_SIZE))
    aligned(op, name, codes)
    return replace(codes, dtype=dtype)
