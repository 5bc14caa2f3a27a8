"""Random bits in numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["random_bits"]

TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: NDArray[np.uint32], a: NDArray[np.uint32], b: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], ...]:
    """Return the two words that Threefry 2x32 makes of each pair of counters."""
    ks = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = a + ks[0], b + ks[1]
    for i in range(5):
        for by in TURNS[i % 2]:
            a = a + b
            b = ((b << np.uint32(by)) | (b >> np.uint32(32 - by))) ^ a
        a = a + ks[(i + 1) % 3]
        b = b + ks[(i + 2) % 3] + np.uint32(i + 1)
    return a, b


def random_bits(key: NDArray[np.uint32], shape: Sequence[int]) -> NDArray[np.uint32]:
    """Return random words of a shape."""
    size = math.prod(shape)
    half, odd = divmod(size, 2)
    first = np.arange(half + odd, dtype=np.uint32)
    second = first + np.uint32(half + odd)
    if odd:
        second[-1] = 0
    with np.errstate(over="ignore"):
        a, b = threefry(key, first, second)
    return np.concatenate([a, b[:half]]).reshape(shape)
