"""Linear: a quantised matrix on the device."""

from __future__ import annotations

from dataclasses import dataclass

from hiprt import Array, array, kernels
from hiprt.bench.checkpoint import Quantized

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear:
    """A matrix of codes, scales and biases.

    Attributes
    ----------
    weight : Array of uint32, shape (rows, columns * bits / 32)
    scales, biases : Array, shape (rows, columns / group_size)
    group_size, bits : int
    """

    weight: Array
    scales: Array
    biases: Array
    group_size: int
    bits: int

    @classmethod
    def upload(cls, matrix: Quantized) -> Linear:
        """Copy a matrix to the device."""
        return cls(array(matrix.weight), array(matrix.scales), array(matrix.biases), matrix.group_size, matrix.bits)

    def __call__(self, x: Array) -> Array:
        """Multiply vectors of shape (n, columns) with the transposed matrix: shape (n, rows)."""
        return kernels.quantized_matmul(
            x, self.weight, self.scales, self.biases, group_size=self.group_size, bits=self.bits
        )

    def rows(self, ids: Array) -> Array:
        """Return the dequantised rows that these int32 indices name: shape (n, columns)."""
        return kernels.quantized_embedding(
            ids, self.weight, self.scales, self.biases, group_size=self.group_size, bits=self.bits
        )
