"""Numbers that change from call to call, such as positions, as arrays, and the parts of caches that they end."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from hiprt.array import array as on_device
from hiprt.metal_compat.mlx.array import array, held

__all__ = ["counted", "prefix"]


@lru_cache(4096)
def counted(n: int) -> array:
    """Return an integer as an int32 array of one element, the same one each time.

    A graph that is given the number so, and not as a constant of its ops, is the same graph for another number.
    """
    return held(on_device(np.asarray([n], np.int32)))


def prefix(a: array) -> tuple[array, int]:
    """Return the array that has a part's memory, and how many places of its last axis but one the part has.

    An array that is not the beginning of another one along that axis is returned itself.
    """
    value = a.value
    maker = value.primitive
    if maker.op is None or maker.op.name != "getitem" or value.ndim < 2:
        return a, value.shape[-2]
    base, index = maker.arguments
    if not isinstance(index, tuple) or len(index) != base.ndim or base.ndim != value.ndim:
        return a, value.shape[-2]
    whole = slice(None)
    part = index[-2]
    others = (*index[:-2], index[-1])
    is_front = isinstance(part, slice) and part.start in (None, 0) and part.step in (None, 1)
    if not is_front or any(each != whole for each in others) or base.shape[-2] == 0:
        return a, value.shape[-2]
    return array.around(base), value.shape[-2]
