"""Driver memory: where the device's pool takes its chunks from, hipMalloc or hipMallocAsync.

hipMalloc and hipFree wait for the device. hipMallocAsync does not, but its pools have defects on ROCm: a small request
gets a large free block, a block that another stream still uses, or a fault instead of an error; what is kept is given
back whenever the driver likes. So nothing is left for it to decide: chunks are taken and given back on a stream that
does nothing else, what goes back is idle, and the driver's pool keeps nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hiprt import core, library
from hiprt.buffer import Buffer, hip_malloc, relaxed
from hiprt.device import Device
from hiprt.errors import HipError, OutOfMemoryError, check
from hiprt.flags import flags
from hiprt.stream import Stream

__all__ = ["Memory", "async_malloc", "device_memory", "probe"]

OK = "ok"
PROBE_BYTES, FILLS = 4 << 20, 12  # large enough that some are still to be done when the memory is freed
DEVICE_TO_HOST = 2


class Memory:
    """One piece of memory from hipMallocAsync.

    Attributes
    ----------
    device : int
    is_idle : bool
        No work uses it any more; otherwise freeing it waits for the device.
    """

    def __init__(self, pointer: Any, device: int) -> None:
        self.pointer = pointer
        self.device = device
        self.is_idle = False

    def free(self) -> None:
        """Give it back to the device."""
        hip, line = library.hip(), line_of(self.device)
        with relaxed():
            check(hip.hipSetDevice(self.device), "hipSetDevice")
            if not self.is_idle:
                check(hip.hipDeviceSynchronize(), "hipDeviceSynchronize")
            check(hip.hipFreeAsync(self.pointer, line.stream), "hipFreeAsync")
            check(hip.hipStreamSynchronize(line.stream), "hipStreamSynchronize")
            if line.pool is not None:
                check(hip.hipMemPoolTrimTo(line.pool, 0), "hipMemPoolTrimTo")


class Line:
    """A device's stream for memory alone, and the driver's pool behind it; None: the device's default pool.

    Parameters
    ----------
    device : int
    """

    def __init__(self, device: int) -> None:
        hip = library.hip()
        with relaxed():
            check(hip.hipSetDevice(device), "hipSetDevice")
            self.stream = check(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking), "hipStreamCreateWithFlags")
            self.pool: Any = None
            try:
                self.pool = check(hip.hipMemPoolCreate(properties(device)), "hipMemPoolCreate")
            except RuntimeError:
                pass  # a library or a driver without pools to create has the device's own

    def allocate(self, nbytes: int) -> Any:
        """Return a pointer that every stream may use."""
        hip = library.hip()
        if self.pool is not None:
            made = check(hip.hipMallocFromPoolAsync(nbytes, self.pool, self.stream), f"hipMallocAsync({nbytes} bytes)")
        else:
            made = check(hip.hipMallocAsync(nbytes, self.stream), f"hipMallocAsync({nbytes} bytes)")
        check(hip.hipStreamSynchronize(self.stream), "hipStreamSynchronize")
        return made


@cache
def line_of(device: int) -> Line:
    """Return a device's line, made at the first request."""
    return Line(device)


def properties(device: int) -> Any:
    """Return what the driver's pool is created with."""
    hip = library.hip()
    made = hip.hipMemPoolProps()
    made.allocType = hip.hipMemAllocationType.hipMemAllocationTypePinned
    made.location.type = hip.hipMemLocationType.hipMemLocationTypeDevice
    made.location.id = device
    return made


def async_malloc(nbytes: int, stream: Stream) -> Buffer:
    """Allocate with hipMallocAsync."""
    hip, index = library.hip(), stream.device.index
    with relaxed():
        check(hip.hipSetDevice(index), "hipSetDevice")
        # Some drivers fault where they should say that there is no memory left.
        if check(hip.hipMemGetInfo(), "hipMemGetInfo")[0] < nbytes:
            raise OutOfMemoryError(2, "hipErrorOutOfMemory", f"hipMallocAsync({nbytes} bytes)")
        memory = Memory(line_of(index).allocate(max(nbytes, 1)), index)
    return Buffer(int(memory.pointer), nbytes, index, memory.free, owner=memory)


def device_memory(nbytes: int, stream: Stream) -> Buffer:
    """Allocate as ``HIPRT_ALLOC_ASYNC`` says."""
    wanted = flags.alloc_async
    is_async = wanted == "1" or (wanted == "auto" and probe(stream.device) == OK)
    return (async_malloc if is_async else hip_malloc)(nbytes, stream)


@cache
def probe(device: Device) -> str:
    """Say whether hipMallocAsync can be used on a device: ``ok``, or what is wrong.

    Parameters
    ----------
    device : Device
    """
    hip = library.hip()
    try:
        supported = hip.hipDeviceAttribute_t.hipDeviceAttributeMemoryPoolsSupported
        if not check(hip.hipDeviceGetAttribute(supported, device.index), "hipDeviceGetAttribute"):
            return "the device says that it has no pools"
    except HipError as error:
        return str(error)
    except RuntimeError:
        pass  # the library does not have the question
    try:
        with relaxed(), Stream(device) as one, Stream(device) as two:
            return hand_over(one, two)
    except RuntimeError as error:
        return str(error)


def hand_over(one: Stream, two: Stream) -> str:
    """Free memory that one stream still writes, and see whether another stream's new memory suffers."""
    hip = library.hip()
    for value in (1, 2, 3):
        first = check(hip.hipMallocAsync(PROBE_BYTES, one.hip_stream), "hipMallocAsync")
        for _ in range(FILLS):
            one.submit(core.lib.hiprt_fill, int(first), 0, 1, PROBE_BYTES)
        check(hip.hipFreeAsync(first, one.hip_stream), "hipFreeAsync")
        second = check(hip.hipMallocAsync(PROBE_BYTES, two.hip_stream), "hipMallocAsync")
        two.submit(core.lib.hiprt_fill, int(second), value, 1, PROBE_BYTES)
        one.synchronize()
        seen = np.empty(PROBE_BYTES, np.uint8)
        two.submit(core.lib.hiprt_copy, int(seen.ctypes.data), int(second), PROBE_BYTES, DEVICE_TO_HOST)
        two.synchronize()
        check(hip.hipFreeAsync(second, two.hip_stream), "hipFreeAsync")
        if not (seen == value).all():
            return "memory that one stream had freed was given to another too early"
    return OK
