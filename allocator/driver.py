"""Driver memory: hipMalloc or hipMallocAsync, from which the device's pool takes its chunks.

hipMalloc and hipFree wait for the device. hipMallocAsync does not, but its pools have defects on ROCm: a small request
gets a large free block, a block that another stream still uses, or a fault instead of an error, and the driver gives
back what it keeps whenever it likes. So it is left nothing to decide: chunks are taken and given back on a stream that
does nothing else, what goes back is idle, and the driver's pool keeps nothing.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from hiprt import core
from hiprt.buffer import Buffer, hip_malloc, relaxed
from hiprt.device import Device
from hiprt.errors import HipError, OutOfMemoryError
from hiprt.flags import flags
from hiprt.hip import call, handle, lib, result
from hiprt.stream import Stream

__all__ = ["Memory", "async_malloc", "device_memory", "probe"]

OK = "ok"
PROBE_BYTES, FILLS = 4 << 20, 12  # large enough that some are still to be done when the memory is freed


class Memory:
    """One piece of memory from hipMallocAsync.

    Attributes
    ----------
    address : int
    device : int
    is_idle : bool
        Whether no work uses it any more. If not, freeing it waits for the device.
    """

    def __init__(self, address: int, device: int) -> None:
        self.address = address
        self.device = device
        self.is_idle = False

    def free(self) -> None:
        """Give it back to the device."""
        line = line_of(self.device)
        with relaxed():
            call(lib.hipSetDevice(self.device))
            if not self.is_idle:
                call(lib.hipDeviceSynchronize())
            call(lib.hipFreeAsync(self.address, line.stream))
            call(lib.hipStreamSynchronize(line.stream))
            if line.pool:
                call(lib.hipMemPoolTrimTo(line.pool, 0))


class Line:
    """A line is a stream of a device that does nothing but allocate and free, with the driver's pool behind it.

    Parameters
    ----------
    device : int

    Attributes
    ----------
    stream, pool : int
        Handles of both; a pool of 0 stands for the device's default pool.
    """

    def __init__(self, device: int) -> None:
        with relaxed():
            call(lib.hipSetDevice(device))
            self.stream = handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking)
            try:
                self.pool = handle(lib.hipMemPoolCreate, properties(device))
            except HipError:
                self.pool = 0  # some libraries and drivers cannot create pools

    def allocate(self, nbytes: int) -> int:
        """Return the address of memory that every stream may use."""
        if self.pool:
            made = handle(lib.hipMallocFromPoolAsync, nbytes, self.pool, self.stream, detail=f"{nbytes} bytes")
        else:
            made = handle(lib.hipMallocAsync, nbytes, self.stream, detail=f"{nbytes} bytes")
        call(lib.hipStreamSynchronize(self.stream))
        return made


@cache
def line_of(device: int) -> Line:
    """Return a device's line, which is made at the first request."""
    return Line(device)


def properties(device: int) -> Any:
    """Return what the driver's pool is created with."""
    made = core.ffi.new("hipMemPoolProps *")
    made.allocType = lib.hipMemAllocationTypePinned
    made.location.type = lib.hipMemLocationTypeDevice
    made.location.id = device
    return made


def async_malloc(nbytes: int, stream: Stream) -> Buffer:
    """Allocate with hipMallocAsync."""
    index = stream.device.index
    with relaxed():
        call(lib.hipSetDevice(index))
        # Some drivers fault instead of saying that there is no memory left.
        if available() < nbytes:
            raise OutOfMemoryError(2, "hipErrorOutOfMemory", "hipMallocAsync", f"{nbytes} bytes")
        memory = Memory(line_of(index).allocate(max(nbytes, 1)), index)
    return Buffer(memory.address, nbytes, index, memory.free, owner=memory)


def available() -> int:
    """Return the bytes that this thread's device has free."""
    free, total = core.ffi.new("size_t *"), core.ffi.new("size_t *")
    call(lib.hipMemGetInfo(free, total))
    return int(free[0])


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
    try:
        if not result("int", lib.hipDeviceGetAttribute, lib.hipDeviceAttributeMemoryPoolsSupported, device.index):
            return "the device says that it has no pools"
    except HipError as error:
        if error.code != lib.HIPRT_E_LIBRARY:  # the library lacks hipDeviceGetAttribute
            return str(error)
    try:
        with relaxed(), Stream(device) as one, Stream(device) as two:
            return hand_over(one, two)
    except HipError as error:
        return str(error)


def hand_over(one: Stream, two: Stream) -> str:
    """Free memory that one stream still writes, and see whether another stream's new memory suffers."""
    for value in (1, 2, 3):
        first = handle(lib.hipMallocAsync, PROBE_BYTES, one.handle)
        for _ in range(FILLS):
            one.fill(first, 0, 1, PROBE_BYTES)
        call(lib.hipFreeAsync(first, one.handle))
        second = handle(lib.hipMallocAsync, PROBE_BYTES, two.handle)
        two.fill(second, value, 1, PROBE_BYTES)
        one.synchronize()
        seen = np.empty(PROBE_BYTES, np.uint8)
        two.copy(int(seen.ctypes.data), second, PROBE_BYTES, lib.hipMemcpyDeviceToHost)
        two.synchronize()
        call(lib.hipFreeAsync(second, two.handle))
        if not (seen == value).all():
            return "memory that one stream had freed was given to another too early"
    return OK
