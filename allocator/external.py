"""External memory: what somebody else owns, whose owner is kept alive until the work that uses it is done.

A pool that nobody allocates from keeps the books: a buffer that is dropped retires behind an event on its stream, and
its owner is let go at the first call that finds the event has happened.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hiprt import core
from hiprt.allocator.pool import Pool
from hiprt.buffer import Buffer
from hiprt.flags import flags
from hiprt.stream import Stream

__all__ = ["adopt", "external"]


def refuse(nbytes: int, stream: Stream) -> Buffer:
    """Refuse to allocate: the pool has no source."""
    raise MemoryError("nothing is allocated from the pool of external memory")


external = Pool(refuse, "external", is_guarded=False)


def adopt(address: int, nbytes: int, owner: Any, stream: Stream) -> Buffer:
    """Return memory that somebody else owns as a buffer.

    Parameters
    ----------
    address, nbytes : int
    owner : object
        Kept alive until the buffer is gone and what was launched on `stream` by then has run.
    stream : Stream
        The stream that uses the memory. Work on other streams must come before later work of this one, as with any
        array.

    Returns
    -------
    Buffer
    """
    lane, index = external.lane(stream), stream.device.index
    core.call(core.lib.hiprt_books_reserve(external.core, nbytes, 0))
    block = external.add(Buffer(address, nbytes, index, owner=owner), nbytes, lane, needs_idle=True)
    return Buffer(address, nbytes, index, partial(retire, block), pool=external)


def retire(block: Any) -> None:
    """Give a block back, and let owners go whose memory is idle by now; wait for that if too much retires (G9)."""
    core.lib.hiprt_books_give(external.core, block)
    external.settle(wait=False)
    most = flags.alloc_defer_max_mb << 20
    if most and core.lib.hiprt_books_retiring(external.core, core.ffi.NULL) > most:
        external.drains += 1
        external.settle()
    external.give_back()  # last: work may have ended since it was asked for
