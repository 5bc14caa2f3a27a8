"""Matrices on the host, quantised or plain: reordered, and put together without loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.reference.quantize import dequantize, dequantize_floating, pack, unpack

__all__ = ["Matrix", "Quantized", "join", "lifted", "reordered", "stacked"]


@dataclass(frozen=True)
class Quantized:
    """A matrix, or a stack of them, as codes with a scale for each group of a row, and a bias where codes are integers.

    Attributes
    ----------
    weight : ndarray of uint32, shape (..., rows, columns * bits / 32)
    scales : ndarray, shape (..., rows, columns / group_size)
        They are uint8 for floating codes.
    biases : ndarray, shape (..., rows, columns / group_size), or None
        None for floating codes.
    group_size, bits : int
    mode : str
        ``affine`` for integer codes, or the kind of floating codes: ``mxfp4``, ``mxfp8`` or ``nvfp4``.
    """

    weight: NDArray[np.uint32]
    scales: NDArray[Any]
    biases: NDArray[Any] | None
    group_size: int
    bits: int
    mode: str = "affine"

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """The weight, the scales and, for integer codes, the biases."""
        found = self.weight, self.scales, self.biases
        return tuple(part for part in found if part is not None)

    def changed(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Quantized:
        """Return the matrix with each of its parts changed."""
        return self.made_of([change(part) for part in self.parts])

    def made_of(self, parts: Sequence[NDArray[Any]]) -> Quantized:
        """Return a matrix of the same format with other parts."""
        weight, scales, *biases = parts
        return replace(self, weight=weight, scales=scales, biases=biases[0] if biases else None)

    def widened(self, group_size: int, bits: int) -> Quantized:
        """Return the values of integer codes with more bits in a code and smaller groups; nothing is lost."""
        if (group_size, bits) == (self.group_size, self.bits):
            return self
        weight = self.weight if bits == self.bits else pack(unpack(self.weight, self.bits), bits)
        scales, biases = (np.repeat(part, self.group_size // group_size, axis=-1) for part in self.parts[1:])
        return Quantized(weight, scales, biases, group_size, bits)

    def plain(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the values as a plain matrix; `dtype` is what floating codes become."""
        if self.biases is None:
            return dequantize_floating(self.weight, self.scales, self.mode).astype(dtype)
        return dequantize(self.weight, self.scales, self.biases, self.group_size, self.bits)


Matrix = Quantized | NDArray[Any]


def reordered(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """Return a matrix whose row i is row ``order[i]`` of the one given."""
    if not isinstance(matrix, Quantized):
        return matrix[..., order, :]
    return matrix.changed(lambda part: part[..., order, :])


def join(matrices: Sequence[Matrix], axis: int = -2) -> Matrix:
    """Return one matrix of several.

    Formats of integer codes become the widest of them. Where a plain matrix is among them, or codes of other kinds, the
    result is plain.

    Parameters
    ----------
    matrices : sequence of Matrix
    axis : int
        -2 puts rows below rows, 0 puts stacks behind stacks.
    """
    if len(matrices) == 1:
        return matrices[0]
    coded = [matrix for matrix in matrices if isinstance(matrix, Quantized)]
    if len(coded) < len(matrices) or len({matrix.mode for matrix in coded}) > 1:
        # Floating codes take the dtype of the others: that of plain weights, or of the scales of integer codes.
        floats = [m.scales if isinstance(m, Quantized) else m for m in matrices]
        dtype = next(values.dtype for values in floats if values.dtype != np.uint8)
        return np.concatenate([m.plain(dtype) if isinstance(m, Quantized) else m for m in matrices], axis)
    if coded[0].biases is not None:
        group_size, bits = min(m.group_size for m in coded), max(m.bits for m in coded)
        coded = [matrix.widened(group_size, bits) for matrix in coded]
    return coded[0].made_of([np.concatenate(parts, axis) for parts in zip(*(matrix.parts for matrix in coded))])


def stacked(matrices: Sequence[Matrix]) -> Matrix:
    """Return a stack of matrices."""
    return join([lifted(matrix) for matrix in matrices], 0)


def lifted(matrix: Matrix) -> Matrix:
    """Return a stack of one matrix."""
    if not isinstance(matrix, Quantized):
        return matrix[None]
    return matrix.changed(lambda part: part[None])
