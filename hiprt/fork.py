"""Forks: locks that are free in a child process, whatever thread of its parent held them.

A child that was forked from a process that has used a device cannot use one: the C core refuses every call there
(`hiprt/native/library.h`). What is in the host's memory stays readable, and the child ends like any other.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

__all__ = ["lock", "rlock"]

locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """Return a new lock."""
    made = threading.Lock()
    locks.add(made)
    return made


def rlock() -> Any:
    """Return a new lock that its holder may take again."""
    made = threading.RLock()
    locks.add(made)
    return made


def free() -> None:
    """Make every lock new: the threads that may have held them are not in this process."""
    for each in list(locks):
        each._at_fork_reinit()


os.register_at_fork(after_in_child=free)
