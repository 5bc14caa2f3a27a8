"""Weights: where a model's arrays come from, under the names of checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hiprt import Array
from hiprt.bench.engine.models.linear import Linear

__all__ = ["ROUTER_BITS", "Part", "Weights", "group_of"]

ROUTER_BITS = 8  # a wrong choice of experts costs more than the bytes do


@dataclass(frozen=True)
class Part:
    """Rows of a matrix that become part of a larger one.

    Attributes
    ----------
    module : str
    rows : int
        That the module has.
    order : ndarray of int, optional
        The rows that are taken; all, as they stand, by default.
    """

    module: str
    rows: int
    order: NDArray[np.intp] | None = None

    @property
    def taken(self) -> int:
        """How many rows are taken."""
        return self.rows if self.order is None else len(self.order)


class Weights(Protocol):
    """A source of arrays on the device; names leave out what stands before ``layers``.

    Attributes
    ----------
    dtype : numpy.dtype
        Of everything that is not a code.
    """

    dtype: np.dtype[Any]

    def has(self, module: str) -> bool:
        """Whether there is a module of this name."""

    def norm(self, name: str, size: int) -> Array:
        """Return the weight of a root-mean-square norm."""

    def vector(self, name: str, size: int, dtype: np.dtype[Any] | None = None) -> Array:
        """Return a vector, converted to a dtype."""

    def conv(self, name: str, channels: int, taps: int) -> Array:
        """Return the weight of a depthwise convolution: shape (channels, taps)."""

    def matrix(self, parts: Sequence[Part], columns: int, bits: int | None = None) -> Linear:
        """Return one matrix of several parts' rows; `bits` is for plain weights that are quantised on the way."""

    def experts(self, at: str, names: Sequence[str], count: int, rows: int, columns: int, is_shared: bool) -> Linear:
        """Return a stack of the experts' matrices, the rows of the named ones in turn, with the shared one last."""


def group_of(columns: int, wanted: int) -> int:
    """Return the group size for a row, the wanted one where it fits; 0: none does."""
    return next((size for size in (wanted, 64, 32) if columns % size == 0), 0)
