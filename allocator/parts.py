"""Parts: what the CPU device's checks know of a pool's blocks, so that each buffer has bounds of its own.

While kernels are checked (``HIPRT_CPU_CHECK``), nothing of a pool's memory may be touched but the buffers that it gave
out, each with a gap behind it. Both ends of a buffer's life are points in its stream's work, as they are for the pool.
The memory of a step is one buffer: graphs use its blocks again after they were freed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from hiprt import core, library
from hiprt.allocator.holder import Holder
from hiprt.buffer import Buffer
from hiprt.caller import caller
from hiprt.stream import Stream

__all__ = ["allocate", "are_checked", "divide", "with_gap"]

GAP = 256  # bytes behind a buffer that belong to nobody
LARGEST = (1 << 64) - 1  # size that a pool can be asked for


@cache
def device() -> Any:
    """Return the CPU device's functions for parts."""
    functions = ctypes.CDLL(str(library.current().hip))
    functions.hiprt_cpu_divide.argtypes = [ctypes.c_void_p]
    functions.hiprt_cpu_take_part.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p]
    functions.hiprt_cpu_give_part_back.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
    return functions


@cache
def are_checked() -> bool:
    """Whether the device is the CPU device and checks kernels."""
    return library.current().provider.is_host and bool(device().hiprt_cpu_is_checking())


def with_gap(nbytes: int) -> int:
    """Return what a pool of device memory is asked for, for a buffer of this size."""
    return min(nbytes + GAP, LARGEST) if are_checked() else nbytes


def divide(chunk: Buffer) -> None:
    """Let nothing of a pool's chunk be touched but the buffers in it."""
    device().hiprt_cpu_divide(chunk.address)


def allocate(pool: Holder, take: Callable[[int, Stream], Buffer], nbytes: int, stream: Stream) -> Buffer:
    """Return memory of a pool that the checks know.

    Parameters
    ----------
    pool : Holder
    take : callable
        Returns memory of the pool that they do not know.
    nbytes : int
        Size in bytes.
    stream : Stream
        The stream that may use the memory.

    Raises
    ------
    OutOfMemoryError
        The pool has no memory left, as `Pool.allocate` says it.
    """
    inner = take(with_gap(nbytes), stream)
    address = inner.address
    if nbytes:
        device().hiprt_cpu_take_part(address, nbytes, stream.raw, line())
    buffer = Buffer(address, nbytes, inner.device, partial(free, [inner], stream), pool=pool)
    buffer.share(inner.uses)
    buffer.belong(stream)
    # Another stream's work comes behind the note too; where streams are captured, nothing can be put behind it.
    if not core.lib.hiprt_captures():
        stream.wait_for(buffer, core.lib.HIPRT_WRITE)
    return buffer


def line() -> bytes:
    """Return the program's line, as reports have it."""
    return str(caller() or "a thread of the library").encode()


def free(inner: list[Buffer], stream: Stream) -> None:
    """Note the end of a buffer and give its block back."""
    block = inner.pop()
    if stream.is_open:
        device().hiprt_cpu_give_part_back(block.address, stream.raw, line())
