"""Reductions in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["argmax", "logsumexp"]


def argmax(x: Host) -> NDArray[np.int32]:
    """Return the first place of the largest value, or of the first NaN, along the last axis."""
    return np.asarray(np.argmax(double(x), axis=-1), np.int32)


def logsumexp(x: Host, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Floats:
    """Return ``log(sum(exp(x)))``."""
    join: Any = np.logaddexp.reduce
    return np.asarray(join(double(x), axis=axis, keepdims=keepdims))
