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

    def larger(self, needed: int) -> int:
        """Return a capacity of at least twice the size, as far as the limit allows."""
        return min(self.limit, bucket(max(needed, 2 * self.capacity)))
