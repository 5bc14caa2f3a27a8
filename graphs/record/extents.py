"""Extents: pieces of device memory as (first address, one past the last), read and restored for verification."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hiprt import core
from hiprt.stream import Stream

__all__ = ["Extent", "Snapshot", "coalesce", "subtract"]

Extent = tuple[int, int]
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def coalesce(extents: Iterable[Extent]) -> list[Extent]:
    """Return disjoint sorted extents that cover the same bytes.

    Neighbours stay apart: they may be two allocations, and a copy must not span those.
    """
    merged: list[Extent] = []
    for start, end in sorted(extents):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def subtract(extents: Iterable[Extent], others: Iterable[Extent]) -> list[Extent]:
    """Return what of `extents` no other covers."""
    left = coalesce(extents)
    for low, high in coalesce(others):
        cut: list[Extent] = []
        for start, end in left:
            cut += [(a, b) for a, b in ((start, min(end, low)), (max(start, high), end)) if a < b]
        left = cut
    return left


class Snapshot:
    """A copy on the host of what device memory held, after everything launched on a stream.

    Parameters
    ----------
    extents : list of Extent
        Disjoint and sorted.
    stream : Stream
    """

    def __init__(self, extents: list[Extent], stream: Stream) -> None:
        self.extents = extents
        self.stream = stream
        self.values: list[NDArray[np.uint8]] = []
        for start, end in extents:
            value = np.empty(end - start, np.uint8)
            stream.submit(core.lib.hiprt_copy, int(value.ctypes.data), start, value.nbytes, DEVICE_TO_HOST)
            self.values.append(value)
        stream.synchronize()

    def restore(self) -> None:
        """Write the copy back."""
        for (start, _), value in zip(self.extents, self.values):
            self.stream.submit(core.lib.hiprt_copy, start, int(value.ctypes.data), value.nbytes, HOST_TO_DEVICE)
        self.stream.synchronize()

    def read(self, extent: Extent) -> NDArray[np.uint8]:
        """Return the bytes of an extent that lies within one of the snapshot's."""
        for (start, end), value in zip(self.extents, self.values):
            if start <= extent[0] and extent[1] <= end:
                return value[extent[0] - start : extent[1] - start]
        raise KeyError(extent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and all(map(np.array_equal, self.values, other.values))

    __hash__ = None  # type: ignore[assignment]
