"""Matrices on the host, quantised or plain: reordered, and put together without loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hiprt.kernels.reference.quantize import dequantize, dequantize_floating, pack, unpack

__all__ = [
    "Joined",
    "Matrix",
    "Quantized",
    "Rows",
    "blocks",
    "cut",
    "cut_part",
    "join",
    "lifted",
    "reordered",
    "stacked",
]


class Joined:
    """Arrays behind each other along an axis, which are put together only where they are read.

    Parameters
    ----------
    parts : sequence of Rows
        At least one; all have the same dtype, and the same shape but for the axis.
    axis : int
        The axis, counted from the first.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    def __init__(self, parts: Sequence[Rows], axis: int) -> None:
        self.parts, self.axis = parts, axis
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: np.dtype[Any] = parts[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> Rows:
        """Return one of the arrays along the first axis."""
        if self.axis:
            return Joined([part[index] for part in self.parts], self.axis - 1)
        for part in self.parts:
            if index < len(part):
                return part[index]
            index -= len(part)
        raise IndexError(f"there are {len(self)} arrays along the first axis")

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole as one array, a new one."""
        whole: NDArray[Any] = np.concatenate([block.reshape(-1) for block in blocks(self)]).reshape(self.shape)
        return whole if dtype is None else whole.astype(dtype, copy=False)


Rows = NDArray[Any] | Joined


def blocks(rows: Rows) -> Iterator[NDArray[Any]]:
    """Return arrays without gaps that hold the same elements in the same order: views, wherever there can be."""
    if isinstance(rows, Joined):
        for part in (rows[i] for i in range(len(rows))) if rows.axis else rows.parts:
            yield from blocks(part)
    elif rows.flags.c_contiguous or rows.ndim == 1:
        yield np.ascontiguousarray(rows)
    else:
        for part in rows:
            yield from blocks(part)


@dataclass(frozen=True)
class Quantized:
    """A matrix, or a stack of them, as codes with a scale for each group of a row, and a bias where codes are integers.

    Attributes
    ----------
    weight : Rows of uint32, shape (..., rows, columns * bits / 32)
    scales : Rows, shape (..., rows, columns / group_size)
        They are uint8 for floating codes.
    biases : Rows, shape (..., rows, columns / group_size), or None
        None for floating codes.
    group_size, bits : int
    mode : str
        ``affine`` for integer codes, or the kind of floating codes: ``mxfp4``, ``mxfp8`` or ``nvfp4``.
    """

    weight: Rows
    scales: Rows
    biases: Rows | None
    group_size: int
    bits: int
    mode: str = "affine"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the plain matrix: (..., rows, columns)."""
        *rows, groups = self.scales.shape
        return (*rows, groups * self.group_size)

    @property
    def parts(self) -> tuple[Rows, ...]:
        """The weight, the scales and, for integer codes, the biases."""
        found = self.weight, self.scales, self.biases
        return tuple(part for part in found if part is not None)

    def changed(self, change: Callable[[Rows], Rows]) -> Quantized:
        """Return the matrix with each of its parts changed."""
        return self.made_of([change(part) for part in self.parts])

    def made_of(self, parts: Sequence[Rows]) -> Quantized:
        """Return a matrix of the same format with other parts."""
        weight, scales, *biases = parts
        return replace(self, weight=weight, scales=scales, biases=biases[0] if biases else None)

    def widened(self, group_size: int, bits: int) -> Quantized:
        """Return the values of integer codes with more bits in a code and smaller groups; nothing is lost."""
        if (group_size, bits) == (self.group_size, self.bits):
            return self
        weight = self.weight if bits == self.bits else pack(unpack(np.asarray(self.weight), self.bits), bits)
        parts = map(np.asarray, self.parts[1:])
        scales, biases = (np.repeat(part, self.group_size // group_size, axis=-1) for part in parts)
        return Quantized(weight, scales, biases, group_size, bits)

    def plain(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return the values as a plain matrix; `dtype` is what floating codes become."""
        weight, scales, *biases = map(np.asarray, self.parts)
        if not biases:
            return dequantize_floating(weight, scales, self.mode).astype(dtype)
        return dequantize(weight, scales, biases[0], self.group_size, self.bits)


Matrix = Quantized | Rows


def reordered(matrix: Matrix, order: NDArray[np.intp]) -> Matrix:
    """Return a matrix whose row i is row ``order[i]`` of the one given."""
    if isinstance(matrix, Quantized):
        return matrix.changed(lambda part: np.asarray(part)[..., order, :])
    return np.asarray(matrix)[..., order, :]


def cut(matrix: Matrix, rows: slice, columns: slice) -> Matrix:
    """Return some rows and columns of a matrix, or of each of a stack; columns in whole groups."""
    width = matrix.shape[-1]
    if isinstance(matrix, Quantized):
        return matrix.changed(lambda part: np.ascontiguousarray(cut_part(np.asarray(part), rows, columns, width)))
    return np.ascontiguousarray(cut_part(np.asarray(matrix), rows, columns, width))


def cut_part(part: Any, rows: slice, columns: slice, width: int) -> Any:
    """Return a view of some rows and columns of codes, scales or values of a matrix with so many columns."""
    size = part.shape[-1]
    return part[..., rows, columns.start * size // width : columns.stop * size // width]


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
    axis %= len(matrices[0].shape)
    coded = [matrix for matrix in matrices if isinstance(matrix, Quantized)]
    if len(coded) < len(matrices) or len({matrix.mode for matrix in coded}) > 1:
        # Floating codes take the dtype of the others: that of plain weights, or of the scales of integer codes.
        floats = [m.scales if isinstance(m, Quantized) else m for m in matrices]
        dtype = next(values.dtype for values in floats if values.dtype != np.uint8)
        return Joined([m.plain(dtype) if isinstance(m, Quantized) else m for m in matrices], axis)
    if coded[0].biases is not None:
        group_size, bits = min(m.group_size for m in coded), max(m.bits for m in coded)
        coded = [matrix.widened(group_size, bits) for matrix in coded]
    return coded[0].made_of([Joined(parts, axis) for parts in zip(*(matrix.parts for matrix in coded))])


def stacked(matrices: Sequence[Matrix]) -> Matrix:
    """Return a stack of matrices."""
    return join([lifted(matrix) for matrix in matrices], 0)


def lifted(matrix: Matrix) -> Matrix:
    """Return a stack of one matrix."""
    if isinstance(matrix, Quantized):
        return matrix.changed(lifted_rows)
    return lifted_rows(matrix)


def lifted_rows(rows: Rows) -> Rows:
    """Return the rows with an axis of size 1 in front."""
    if isinstance(rows, Joined):
        return Joined([lifted_rows(part) for part in rows.parts], rows.axis + 1)
    return rows[None]
