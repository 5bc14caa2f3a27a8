"""Weights: a source of a model's arrays, under the names that checkpoints have for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hiprt import Array
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.shard import Shard

__all__ = ["ROUTER_BITS", "Part", "Weights", "group_of"]

ROUTER_BITS = 8  # routers get more bits: a wrong choice of experts costs more than the bytes do


@dataclass(frozen=True)
class Part:
    """Rows of one module that become part of a larger matrix.

    Attributes
    ----------
    module : str
    rows : int
        How many rows the module has.
    order : ndarray of int, optional
        The rows that are taken; by default all of them, in their order.
    """

    module: str
    rows: int
    order: NDArray[np.intp] | None = None

    @property
    def taken(self) -> int:
        """How many rows are taken."""
        return self.rows if self.order is None else len(self.order)


class Weights(Protocol):
    """A source of arrays on the device; names begin with ``layers``, without the prefix that checkpoints have.

    Attributes
    ----------
    dtype : numpy.dtype
        The dtype of everything that is not a code.
    identity : str
        What tells them from the weights of another model.
    shard : Shard
        Which part of a matrix `matrix` and `experts` return; they are asked for whole ones.
    """

    dtype: np.dtype[Any]
    identity: str
    shard: Shard

    def has(self, module: str) -> bool:
        """Whether there is a module of this name."""

    def norm(self, name: str, size: int) -> Array:
        """Return the weight of a root-mean-square norm."""

    def vector(self, name: str, size: int, dtype: np.dtype[Any] | None = None) -> Array:
        """Return a vector, converted to a dtype."""

    def conv(self, name: str, channels: int, taps: int) -> Array:
        """Return the weight of a depthwise convolution: shape (channels, taps)."""

    def matrix(self, parts: Sequence[Part], columns: int, bits: int | None = None) -> Linear:
        """Return one matrix of the rows of several parts.

        Parameters
        ----------
        parts : sequence of Part
        columns : int
        bits : int, optional
            The bits of codes, where plain weights are quantised.
        """

    def experts(self, at: str, names: Sequence[str], count: int, rows: int, columns: int, is_shared: bool) -> Linear:
        """Return a stack with a matrix for each expert.

        Parameters
        ----------
        at : str
            The module that holds the experts.
        names : sequence of str
            The modules of an expert whose rows make up its matrix, in this order.
        count : int
            How many experts there are, the shared one left out.
        rows, columns : int
            The shape of each module.
        is_shared : bool
            Whether the shared expert is the last member.
        """

    def wait(self) -> None:
        """Wait until what fills the arrays is in the stream, so that it may read them."""


def group_of(columns: int, wanted: int) -> int:
    """Return the group size for a row: the wanted one where it divides the row, else 64 or 32; 0 where none does."""
    return next((size for size in (wanted, 64, 32) if columns % size == 0), 0)
