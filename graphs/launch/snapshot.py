"""Snapshots: device memory copied to the host, to be compared and written back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt import core
from hiprt.graphs.record.extents import Extent
from hiprt.stream import Stream

__all__ = ["Snapshot"]

HOST_TO_DEVICE, DEVICE_TO_HOST = core.lib.hipMemcpyHostToDevice, core.lib.hipMemcpyDeviceToHost


class Snapshot:
    """A copy on the host of what device memory holds after everything that was launched on a stream.

    Parameters
    ----------
    extents : list of Extent
        The memory; disjoint and sorted.
    stream : Stream
        The stream that the copies wait for.
    """

    def __init__(self, extents: list[Extent], stream: Stream) -> None:
        self.extents = extents
        self.stream = stream
        self.values: list[NDArray[np.uint8]] = []
        for start, end in extents:
            value = np.empty(end - start, np.uint8)
            stream.copy(int(value.ctypes.data), start, value.nbytes, DEVICE_TO_HOST)
            self.values.append(value)
        stream.synchronize()

    def restore(self) -> None:
        """Write the copy back."""
        for (start, _), value in zip(self.extents, self.values):
            self.stream.copy(start, int(value.ctypes.data), value.nbytes, HOST_TO_DEVICE)
        self.stream.synchronize()

    def read(self, extent: Extent) -> NDArray[np.uint8]:
        """Return the bytes of an extent that lies within one of the snapshot's extents."""
        for (start, end), value in zip(self.extents, self.values):
            if start <= extent[0] and extent[1] <= end:
                return value[extent[0] - start : extent[1] - start]
        raise KeyError(extent)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and all(map(np.array_equal, self.values, other.values))

    __hash__ = None  # type: ignore[assignment]
