"""Matrices on the host, quantised or plain: reordered, and put together without loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.quantize import dequantize, pack, unpack

__all__ = ["Matrix", "Quantized", "join", "lifted", "reordered", "stacked"]


@dataclass(frozen=True)
class Quantized:
    """A matrix, or a stack of them, as codes with a scale and a bias for each group of a row.

    Attributes
    ----------
    weight : ndarray of uint32, shape (..., rows, columns * bits / 32)
    scales, biases : ndarray, shape (..., rows, columns / group_size)
    group_size, bits : int
    """

    weight: NDArray[np.uint32]
    scales: NDArray[Any]
    biases: NDArray[Any]
    group_size: int
    bits: int

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """The weight, the scales and the biases."""
        return self.weight, self.scales, self.biases

    def widened(self, group_size: int, bits: int) -> Quantized:
        """Return the same values with more bits in a code and smaller groups; nothing is lost."""
        if (group_size, bits) == (self.group_size, self.bits):
            return self
        weight = self.weight if bits == self.bits else pack(unpack(self.weight, self.bits), bits)
        scales, biases = (np.repeat(part, self.group_size // group_size, axis=-1) for part in self.parts[1:])
        return Quantized(weight, scales, biases, group_size, bits)

    def plain(self) -> NDArray[Any]:
        """Return the values as a plain matrix."""
        return dequantize(self.weight, self.scales, self.biases, self.group_size, self.bits)


Matrix = Quantized | NDArray[Any]


def reordered(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """Return a matrix whose row i is row ``order[i]`` of the one given."""
    if not isinstance(matrix, Quantized):
        return matrix[..., order, :]
    weight, scales, biases = (part[..., order, :] for part in matrix.parts)
    return replace(matrix, weight=weight, scales=scales, biases=biases)


def join(matrices: Sequence[Matrix], axis: int = -2) -> Matrix:
    """Return one matrix of several, whose formats become the widest of them; with a plain one among them it is plain.

    Parameters
    ----------
    matrices : sequence of Matrix
    axis : int
        -2 puts rows below rows, 0 puts stacks behind stacks.
    """
    if len(matrices) == 1:
        return matrices[0]
    coded = [matrix for matrix in matrices if isinstance(matrix, Quantized)]
    if len(coded) < len(matrices):
        return np.concatenate([m.plain() if isinstance(m, Quantized) else m for m in matrices], axis)
    group_size, bits = min(m.group_size for m in coded), max(m.bits for m in coded)
    columns = zip(*(m.widened(group_size, bits).parts for m in coded))
    weight, scales, biases = (np.concatenate(parts, axis) for parts in columns)
    return Quantized(weight, scales, biases, group_size, bits)


def stacked(matrices: Sequence[Matrix]) -> Matrix:
    """Return a stack of matrices."""
    return join([lifted(matrix) for matrix in matrices], 0)


def lifted(matrix: Matrix) -> Matrix:
    """Return a stack of one matrix."""
    if not isinstance(matrix, Quantized):
        return matrix[None]
    return replace(matrix, weight=matrix.weight[None], scales=matrix.scales[None], biases=matrix.biases[None])
