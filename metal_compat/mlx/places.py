"""Numbers that change from call to call, such as positions, as arrays, and the parts of caches that they end."""

from __future__ import annotations

from functools import lru_cache

from hiprt.graphs.trace import prefixes
from hiprt.graphs.trace.integer import is_recorded
from hiprt.metal_compat.mlx.array import array

__all__ = ["counted", "prefix"]


def counted(n: int) -> array:
    """Return an integer as an int32 array of one element; see `prefixes.counted`."""
    return array.around(prefixes.counted(n)) if is_recorded(n) else plain(n)


@lru_cache(4096)
def plain(n: int) -> array:
    """Return a number as an array, the same one each time."""
    return array.around(prefixes.counted(n))


def prefix(a: array) -> tuple[array, int]:
    """Return the array that has a part's memory, and how many places of its last axis but one the part has.

    An array that is not the beginning of another one along that axis is returned itself.
    """
    value = a.value
    maker = value.primitive
    if maker.prefix and maker.prefix == value.ndim - 1:
        return array.around(maker.arguments[0]), value.shape[-2]
    return a, value.shape[-2]
