"""Linear: a matrix on the device, quantised or plain, or a stack of such matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, TypedDict

import numpy as np

from hiprt import Array, array, kernels
from hiprt.bench.engine.matrix import Matrix, Quantized, Rows, cut_part
from hiprt.distributed import Communicator
from hiprt.kernels.ops.quantized.formats import Format
from hiprt.kernels.ops.quantized.gather_mlp import gather_mlp
from hiprt.kernels.ops.quantized.product import product, rows_alike

__all__ = ["Linear", "gated", "joined", "split"]


class Form(TypedDict):
    """The format of integer codes, as keywords of ops."""

    group_size: int
    bits: int


@dataclass(frozen=True)
class Linear:
    """A matrix that multiplies rows of activations.

    Attributes
    ----------
    weight : Array
        The codes of a quantised matrix: uint32 of shape (..., rows, columns * bits / 32). A plain one has shape
        (..., rows, columns).
    scales, biases : Array, shape (..., rows, columns / group_size), or None
        None where the matrix is plain. Floating codes have no biases, and scales of uint8.
    group_size, bits : int
        0 where the matrix is plain.
    mode : str
        ``affine`` for integer codes, or the kind of floating codes: ``mxfp4``, ``mxfp8`` or ``nvfp4``.
    ranks : Communicator or None
        The ranks that have the other columns, over which products are summed up.
    """

    weight: Array
    scales: Array | None = None
    biases: Array | None = None
    group_size: int = 0
    bits: int = 0
    mode: str = "affine"
    ranks: Communicator | None = None

    @classmethod
    def upload(cls, matrix: Matrix, copy: Callable[[Rows], Array] = array) -> Linear:
        """Copy a matrix to the device, each of its parts by `copy`."""
        if not isinstance(matrix, Quantized):
            return cls(copy(matrix))
        biases = None if matrix.biases is None else copy(matrix.biases)
        return cls(copy(matrix.weight), copy(matrix.scales), biases, matrix.group_size, matrix.bits, matrix.mode)

    def quantized(self, form: Format) -> Linear:
        """Quantise a plain matrix on the device."""
        weight, *shared = kernels.quantize(self.weight, form.group_size, form.bits, form.mode)
        return Linear(weight, shared[0], shared[1] if form.is_affine else None, form.group_size, form.bits, form.mode)

    @property
    def codes(self) -> tuple[Array, Array, Array]:
        """The weight, scales and biases of a matrix of integer codes."""
        assert self.scales is not None
        assert self.biases is not None
        return self.weight, self.scales, self.biases

    @property
    def form(self) -> Form:
        """The group size and bits."""
        return {"group_size": self.group_size, "bits": self.bits}

    @property
    def is_fusable(self) -> bool:
        """Whether the fused kernels read this format: integer codes."""
        return self.biases is not None

    def __call__(self, x: Array) -> Array:
        """Multiply vectors of shape (n, columns) with the transposed matrix: shape (n, rows)."""
        if self.scales is None:
            return kernels.matmul(x, self.weight.T)
        return kernels.quantized_matmul(x, self.weight, self.scales, self.biases, **self.form, mode=self.mode)

    def project(
        self,
        x: Array,
        *,
        norm: Array | None = None,
        eps: float = 1e-6,
        residual: Array | None = None,
        is_gate: bool = False,
        fused: bool = False,
    ) -> Array:
        """Multiply, with what a layer does before and after the product.

        Parameters
        ----------
        x : Array, shape (n, columns)
        norm : Array, optional
            The weight of a root-mean-square norm that `x` goes through first.
        eps : float
            What the norm adds to the mean of squares.
        residual : Array, shape (n, rows), optional
            What is added to the product.
        is_gate : bool
            Whether the first half of the rows gates the second: ``silu(first) * second``.
        fused : bool
            Whether one kernel does all of it, where there is one for the format and for so few vectors; see `product`.

        Returns
        -------
        Array, shape (n, rows), or (n, rows / 2) for a gate
        """
        if fused and self.is_fusable:
            added = residual if self.ranks is None else None
            y = product(x, *self.codes, **self.form, norm=norm, eps=eps, residual=added, swiglu=is_gate)
            return y if self.ranks is None else self.ranks.all_reduce(y, residual=residual)
        y = self(x if norm is None else kernels.rms_norm(x, norm, eps))
        if is_gate:
            y = gated(y)
        return self.added(y, residual)

    def rows_alike(self, dtype: np.dtype[Any], *, is_gate: bool = False, fused: bool = False) -> int:
        """Return how many rows of this dtype `project` takes on a GPU, each with the bits that it has by itself."""
        if not fused or not self.is_fusable or self.ranks is not None:
            return 1
        return rows_alike(self.weight, dtype, **self.form, swiglu=is_gate)

    def added(self, product: Array, residual: Array | None) -> Array:
        """Return a product of this matrix, summed up over the ranks that share it, with what is added to it."""
        if self.ranks is not None:
            return self.ranks.all_reduce(product, residual=residual)
        return product if residual is None else kernels.add(residual, product)

    def gather_mlp(self, down: Linear, x: Array, indices: Array) -> Array:
        """Do what `gather` does for many rows of a prompt, whose answers another stack then takes likewise.

        Parameters
        ----------
        down : Linear
            It takes ``silu(first) * second`` of the halves of an answer.
        x : Array, shape (n, 1, columns)
        indices : Array of int32, shape (n, k)

        Returns
        -------
        Array, shape (n, k, rows of `down`)
        """
        if self.is_fusable and down.is_fusable:
            return gather_mlp(
                x,
                *self.codes,
                *down.codes,
                indices,
                **self.form,
                down_group_size=down.group_size,
                down_bits=down.bits,
            )
        return down.gather(gated(self.gather(x, indices)), indices)

    def gather(self, x: Array, indices: Array) -> Array:
        """Multiply the vectors of each token with the matrices that the token has chosen from a stack.

        Parameters
        ----------
        x : Array, shape (n, k, columns) or (n, 1, columns)
            One vector for each choice, or one for all choices.
        indices : Array of int32, shape (n, k)

        Returns
        -------
        Array, shape (n, k, rows)
        """
        n, k = indices.shape
        rows = self.weight.shape[-2]
        if self.scales is None:
            chosen = kernels.take(self.weight, indices, axis=0).transpose(0, 1, 3, 2)
            return kernels.matmul(x[:, :, None], chosen).reshape(n, k, rows)
        wide = x.reshape(*x.shape[:2], 1, x.shape[2])
        operands = wide, self.weight, self.scales, self.biases
        answers = kernels.gather_qmm(*operands, None, indices, **self.form, mode=self.mode)
        return answers.reshape(n, k, rows)

    def cut(self, rows: slice, columns: slice) -> Linear:
        """Return a copy of some rows and columns, or of those of each matrix of a stack; columns in whole groups."""
        width = self.weight.shape[-1] if self.scales is None else self.scales.shape[-1] * self.group_size
        scales, biases = (
            None if part is None else kernels.copy(cut_part(part, rows, columns, width))
            for part in (self.scales, self.biases)
        )
        return replace(
            self, weight=kernels.copy(cut_part(self.weight, rows, columns, width)), scales=scales, biases=biases
        )

    def member(self, index: int) -> Linear:
        """Return one matrix of a stack."""
        if self.scales is None:
            return replace(self, weight=self.weight[index])
        biases = None if self.biases is None else self.biases[index]
        return replace(self, weight=self.weight[index], scales=self.scales[index], biases=biases)

    def rows(self, ids: Array, dtype: np.dtype[Any]) -> Array:
        """Return the rows that these int32 indices name: shape (n, columns). Floating codes become the dtype."""
        if self.scales is None:
            return kernels.take(self.weight, ids, axis=0)
        operands = ids, self.weight, self.scales, self.biases
        return kernels.quantized_embedding(*operands, **self.form, mode=self.mode, dtype=dtype)


def joined(parts: Sequence[Linear]) -> Linear:
    """Return a matrix with the rows of several of one format, or a stack of such."""
    if len(parts) == 1:
        return parts[0]
    columns = [[getattr(part, name) for part in parts] for name in ("weight", "scales", "biases")]
    weight, scales, biases = (None if each[0] is None else kernels.concatenate(each, axis=-2) for each in columns)
    assert weight is not None
    return replace(parts[0], weight=weight, scales=scales, biases=biases)


def split(x: Array, *sizes: int) -> list[Array]:
    """Cut the last axis into parts of these sizes; return them as contiguous arrays."""
    ends = list(accumulate(sizes, initial=0))
    return [kernels.contiguous(x[..., start:end]) for start, end in pairwise(ends)]


def gated(y: Array) -> Array:
    """Return ``silu(first) * second`` for the halves of the last axis."""
    half = y.shape[-1] // 2
    gate, up = split(y, half, half)
    return kernels.silu_mul(gate, up)
