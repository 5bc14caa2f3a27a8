"""The collector of circles, which is paused while many objects are made that need no look: most go by themselves."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from hiprt import fork

__all__ = ["paused"]

lock = fork.rlock()


class Pauses:
    """How many blocks of `paused` are open in all threads, and whether the collector ran before the first."""

    count = 0
    was_enabled = False


@contextmanager
def paused() -> Iterator[None]:
    """Let Python's collector not run within the block, which makes as many objects as a program has.

    A collection looks at every object of the process, which costs a tenth of a second where a model's packages are
    loaded. Objects that are gone at the block's end are no reason for one.
    """
    with lock:
        if not Pauses.count:
            Pauses.was_enabled = gc.isenabled()
            gc.disable()
        Pauses.count += 1
    try:
        yield
    finally:
        with lock:
            Pauses.count -= 1
            if not Pauses.count and Pauses.was_enabled:
                gc.enable()
