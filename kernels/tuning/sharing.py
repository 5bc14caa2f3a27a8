"""Sharings: how the kernel that every GPU has shares out the rows and the width of a matrix among simdgroups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from hiprt.kernels.tuning.tiling import Product

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["SIMDGROUPS", "UNSHARED", "Sharing", "sharing_of", "sharings", "simdgroups_of"]

SIMDGROUPS = 4  # simdgroups of a threadgroup, unless more share a row
LANES = 32


class Sharing(NamedTuple):
    """How the rows and the width of a matrix are shared out.

    Attributes
    ----------
    rows : int
        The rows that a simdgroup takes at a time. A gate needs an even number.
    split : int
        The simdgroups of a threadgroup among which the width of these rows is divided.
    """

    rows: int
    split: int

    @property
    def simdgroups(self) -> int:
        """The simdgroups of a threadgroup."""
        return max(SIMDGROUPS, self.split)


UNSHARED = Sharing(4, 1)
# From the least work for a byte of weights to the most simdgroups. A split costs one sum at the end; fewer rows repeat
# the reading of x, its norm and its conversion for each.
ORDER = ((4, 1), (4, 2), (4, 4), (2, 1), (2, 2), (2, 4), (2, 8), (1, 2), (1, 4), (1, 8))


def sharings(product: Product, most_rows: int = UNSHARED.rows) -> Iterator[Sharing]:
    """Yield the sharings that fit a product of one vector, those that do the least work first.

    Parameters
    ----------
    product : Product
    most_rows : int
        The most rows of a simdgroup.
    """
    turns = -(-product.width * product.bits // (LANES * 128))  # of a simdgroup that has a row for itself
    for sharing in (Sharing(*each) for each in ORDER):
        is_pair = not product.is_gated or sharing.rows > 1
        if is_pair and sharing.rows <= most_rows and sharing.split <= max(1, turns):
            yield sharing


def simdgroups_of(product: Product, sharing: Sharing) -> int:
    """Return the number of simdgroups that a product of one vector is launched with, for whole threadgroups."""
    each = sharing.rows * sharing.simdgroups // sharing.split
    return -(-product.rows // each) * sharing.simdgroups


def sharing_of(product: Product, target: Target) -> Sharing:
    """Return the sharing of a product with the least work that gives every compute unit enough simdgroups.

    Where none does, it is the one with the most simdgroups. A product of several vectors has simdgroups enough.
    """
    if not target.table.simdgroups_each or product.batch > 1:
        return UNSHARED
    wanted = target.compute_units * target.table.simdgroups_each
    fitting = list(sharings(product, target.table.product_rows))
    enough = (sharing for sharing in fitting if simdgroups_of(product, sharing) >= wanted)
    return next(enough, max(fitting, key=lambda sharing: simdgroups_of(product, sharing)))
