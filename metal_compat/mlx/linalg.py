"""``mx.linalg``: the norm; decompositions are not part of a decode runtime."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.kernels.ops.promotion import is_complex
from hiprt.metal_compat.mlx.absent import absent
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.reductions import axes_of, floats
from hiprt.metal_compat.mlx.shapes import flatten

NAMES = (
    "cholesky", "cholesky_inv", "cross", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "lu_factor", "pinv", "qr",
    "solve", "solve_triangular", "svd", "tri_inv",
)  # fmt: skip
__all__ = [*NAMES, "norm"]

globals().update({name: absent(f"linalg.{name}") for name in NAMES})


def norm(
    a: Any,
    /,
    ord: Any = None,  # noqa: A002
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    stream: Any = None,
) -> array:
    """Return the norm of vectors, or the Frobenius norm of matrices.

    Raises
    ------
    ValueError
        `ord` is a norm of matrices that needs singular values.
    """
    a = floats(a)
    if ord is None and axis is None:
        a, axes = (a, tuple(range(a.ndim))) if keepdims else (flatten(a), (0,))
    else:
        found = axes_of(axis)
        axes = tuple(range(a.ndim)) if found is None else (found,) if isinstance(found, int) else found
    if len(axes) > 1 and ord not in (None, "f", "fro"):
        raise ValueError(f"[linalg.norm] ord={ord!r} of matrices is not part of a decode runtime")
    order = 2 if ord in (None, "f", "fro") else ord

    def measured(x: Array) -> Array:
        size = kernels.abs(x)
        if order == math.inf:
            return kernels.max(size, axes, keepdims)
        if order == -math.inf:
            return kernels.min(size, axes, keepdims)
        if order == 0:
            return kernels.sum(kernels.astype(kernels.not_equal(x, 0), size.dtype), axes, keepdims)
        if order == 1:
            return kernels.sum(size, axes, keepdims)
        if order == 2:
            return kernels.sqrt(kernels.sum(kernels.square(size if is_complex(x.dtype) else x), axes, keepdims))
        return kernels.power(kernels.sum(kernels.power(size, float(order)), axes, keepdims), 1.0 / order)

    made: array = apply(measured, a)
    return made
