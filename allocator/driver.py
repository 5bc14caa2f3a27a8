"""Driver memory: hipMalloc or hipMallocAsync, from which the device's pool takes its chunks.

hipMalloc and hipFree wait for the device. hipMallocAsync does not, but its pools have defects on ROCm: a small request
gets a large free block, a block that another stream still uses, or a fault instead of an error, and the driver gives
back what it keeps whenever it likes. So it is left nothing to decide: chunks are taken and given back on a stream that
does nothing else, what goes back is idle, and the driver's pool keeps nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

__all__ = ["Memory", "async_malloc", "device_memory", "probe", "taken"]

OK = "ok"
RAISED = "raised "  # stands before an error's text in what `ask` returns
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
        self.is_idle = True  # nobody has it yet

    def free(self) -> None:
        """Give it back to the device, or leave that to the next request if the device cannot be waited for now."""
        line = line_of(self.device)
        with relaxed():
            try:
                call(lib.hipSetDevice(self.device))
                if not self.is_idle:
                    call(lib.hiprt_wait_for_device(self.device))
            except HipError:
                line.late.append(self)
                return
            call(lib.hipFreeAsync(self.address, line.stream))
            line.settle()


class Line:
    """A line is a stream of a device that does nothing but allocate and free, with the driver's pool behind it.

    Parameters
    ----------
    device : int

    Attributes
    ----------
    stream, pool : int
        Handles of both; a pool of 0 stands for the device's default pool.
    late : list of Memory
        What could not be given back when it was freed.
    """

    def __init__(self, device: int) -> None:
        self.late: list[Memory] = []
        with relaxed():
            call(lib.hipSetDevice(device))
            self.stream = handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking)
            try:
                self.pool = handle(lib.hipMemPoolCreate, properties(device))
            except HipError:
                self.pool = 0  # some libraries and drivers cannot create pools

    def request(self, nbytes: int) -> int:
        """Return the address of memory that only the line's stream may use until it has been waited for."""
        for memory in [self.late.pop() for _ in range(len(self.late))]:
            memory.free()
        if self.pool:
            return handle(lib.hipMallocFromPoolAsync, nbytes, self.pool, self.stream, detail=f"{nbytes} bytes")
        return handle(lib.hipMallocAsync, nbytes, self.stream, detail=f"{nbytes} bytes")

    def wait(self) -> None:
        """Wait until what was requested may be used by every stream."""
        call(lib.hipStreamSynchronize(self.stream))

    def settle(self) -> None:
        """Have the driver give back what was freed. Where that fails, it does so at the next free."""
        with suppress(HipError):
            self.wait()
            if self.pool:
                call(lib.hipMemPoolTrimTo(self.pool, 0))


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
        if not is_available(nbytes, index):
            raise OutOfMemoryError(2, "hipErrorOutOfMemory", "hipMallocAsync", f"{nbytes} bytes")
        line = line_of(index)
        memory = Memory(0, index)
        memory.address = line.request(max(nbytes, 1))
        try:
            buffer = Buffer(memory.address, nbytes, index, memory.free, owner=memory)
        except MemoryError:
            memory.free()
            raise
        # From here on the buffer owns the memory, also if the wait fails.
        line.wait()
        memory.is_idle = False
    return buffer


ample: dict[int, int] = {}  # by device: bytes that can be taken before it is asked again
PART = 64  # of the memory that is free, the part that is taken before others may have taken the rest


def is_available(nbytes: int, device: int) -> bool:
    """Whether this thread's device, which has this index, has so many bytes free.

    A driver takes 0.3 ms to say so, and is asked again only when a part of what was free is taken.
    """
    if nbytes > ample.get(device, 0):
        free, total = core.ffi.new("size_t *"), core.ffi.new("size_t *")
        call(lib.hipMemGetInfo(free, total))
        if free[0] < nbytes:
            return False
        ample[device] = free[0] // PART
    ample[device] = max(ample[device] - nbytes, 0)
    return True


def device_memory(nbytes: int, stream: Stream) -> Buffer:
    """Allocate as ``HIPRT_ALLOC_ASYNC`` says."""
    wanted = flags.alloc_async
    is_async = wanted == "1" or (wanted == "auto" and probe(stream.device) == OK)
    return (async_malloc if is_async else hip_malloc)(nbytes, stream)


found: dict[Device, str] = {}
asked: Counter[Device] = Counter()
asking = threading.Lock()  # a thread that comes third waits for the answer to the first


def probe(device: Device) -> str:
    """Say whether hipMallocAsync can be used on a device: ``ok``, or what is wrong.

    An answer is remembered. A call that failed is none: the device is asked again at the second, fourth, eighth call
    and so on, so that one that fails every time costs little.

    Parameters
    ----------
    device : Device
    """
    with asking:
        asked[device] += 1
        if found.get(device, RAISED).startswith(RAISED) and asked[device] & (asked[device] - 1) == 0:
            found[device] = ask(device)
        return found[device]


def ask(device: Device) -> str:
    """Try hipMallocAsync on a device; what begins with `RAISED` is no answer."""
    try:
        if not result("int", lib.hipDeviceGetAttribute, lib.hipDeviceAttributeMemoryPoolsSupported, device.index):
            return "the device says that it has no pools"
    except HipError as error:
        if error.code != lib.HIPRT_E_LIBRARY:  # the library lacks hipDeviceGetAttribute
            return f"{RAISED}{error}"
    try:
        with relaxed(), Stream(device) as one, Stream(device) as two:
            return hand_over(one, two)
    except HipError as error:
        return f"{RAISED}{error}"


def hand_over(one: Stream, two: Stream) -> str:
    """Free memory that one stream still writes, and see whether another stream's new memory suffers."""
    for value in (1, 2, 3):
        with taken(PROBE_BYTES, one) as first:
            for _ in range(FILLS):
                one.fill(first, 0, 1, PROBE_BYTES)
        with taken(PROBE_BYTES, two) as second:
            two.fill(second, value, 1, PROBE_BYTES)
            one.synchronize()
            seen = np.empty(PROBE_BYTES, np.uint8)
            two.copy(int(seen.ctypes.data), second, PROBE_BYTES, lib.hipMemcpyDeviceToHost)
            two.synchronize()
        if not (seen == value).all():
            return "memory that one stream had freed was given to another too early"
    return OK


@contextmanager
def taken(nbytes: int, stream: Stream) -> Iterator[int]:
    """Take memory with hipMallocAsync for the block, and free it behind the block's work on the stream."""
    address = handle(lib.hipMallocAsync, nbytes, stream.raw)
    try:
        yield address
    finally:
        call(lib.hipFreeAsync(address, stream.raw))
