"""Products of matrices in numpy."""

from __future__ import annotations

import numpy as np

from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = ["matmul"]


def matmul(a: Host, b: Host) -> Floats:
    """Return ``a @ b``."""
    return np.asarray(double(a) @ double(b))
