"""Room: how many tokens a text may have, now and at most."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Room", "bucket"]

BUCKET = 256


def bucket(length: int) -> int:
    """Return the capacity for a text of some length: the next multiple of 256, so that few graphs are made."""
    return -(-max(length, 1) // BUCKET) * BUCKET


@dataclass
class Room:
    """How many tokens a text may have.

    Attributes
    ----------
    capacity : int
        The tokens for which there is memory now.
    limit : int
        The tokens up to which the memory may grow.
    """

    capacity: int
    limit: int

    def grow(self, needed: int) -> int:
        """Raise the capacity to twice its size at least, as far as the limit allows; return the one before."""
        before, self.capacity = self.capacity, min(self.limit, bucket(max(needed, 2 * self.capacity)))
        return before
