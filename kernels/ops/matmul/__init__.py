"""Products of matrices that are not quantised."""

from hiprt.kernels.ops.matmul.matmul import matmul

__all__ = [
    "matmul",
]
