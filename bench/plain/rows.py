"""Rows of matrices, as matrices of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hiprt import Array, array, kernels
from hiprt.bench.engine.models.linear import Linear

__all__ = ["rows_of"]


def rows_of(matrix: Linear, rows: range | NDArray[np.intp]) -> Linear:
    """Return some rows of a matrix, or of each matrix of a stack, in memory of their own."""

    def taken(part: Array | None) -> Array | None:
        if part is None:
            return None
        if isinstance(rows, range):
            return kernels.copy(part[..., rows.start : rows.stop, :])
        return kernels.take(part, array(rows.astype(np.int32)), axis=-2)

    weight = taken(matrix.weight)
    assert weight is not None
    return replace(matrix, weight=weight, scales=taken(matrix.scales), biases=taken(matrix.biases))
