"""Host arrays in float64, in which references compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Host", "double"]

Host = NDArray[Any]
Floats = NDArray[np.float64]


def double(x: Host) -> Floats:
    """Return the values in float64; bfloat16 converts too."""
    return x.astype(np.float64)
