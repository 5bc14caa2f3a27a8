"""Holders: what takes memory from a source and hands it out as buffers, a pool or an arena; reports list them."""

from __future__ import annotations

import itertools
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass

from hiprt import core
from hiprt.buffer import Allocate, Buffer

__all__ = ["Holder", "PoolStats", "holders"]

numbers = itertools.count()
known: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class PoolStats:
    """Sizes in bytes.

    Attributes
    ----------
    allocated : int
        Memory in the hands of users.
    reserved : int
        Memory taken from the source, used or free.
    peak : int
        High-water mark of ``allocated``.
    fragmentation : float
        Part of the free memory that is not in the largest free block: 0 when it is all in one.
    retiring : int
        Free memory that is, as far as is known, still in use on the stream that freed it, which alone may have it.
    drains : int
        How often a request waited because too much was retiring (``HIPRT_ALLOC_DEFER_MAX_MB``).
    """

    allocated: int
    reserved: int
    peak: int
    fragmentation: float = 0.0
    retiring: int = 0
    drains: int = 0


class Holder(ABC):
    """What hands out buffers.

    Parameters
    ----------
    source : callable
        Where new memory comes from: ``hip_malloc``, `device_memory`, or another holder's ``allocate``.
    name : str
        Shown in reports; the kind and a number by default.

    Attributes
    ----------
    parent : Holder or None
        The holder that the source belongs to.
    chunks : dict
        Number to memory taken from the source.
    uses : hiprt_uses *
        Which streams work with the memory of a step, all of which counts as one piece.
    """

    def __init__(self, source: Allocate, name: str) -> None:
        self.source = source
        number = next(numbers)
        self.name = name or f"{type(self).__name__.lower()} {number}"
        parent = getattr(source, "__self__", None)
        self.parent = parent if isinstance(parent, Holder) else None
        self.chunks: dict[int, Buffer] = {}
        self.uses = core.create("hiprt_uses", core.lib.hiprt_uses_release, core.lib.hiprt_uses_create, True)
        known[number] = self

    @abstractmethod
    def stats(self) -> PoolStats:
        """Return the sizes."""


def holders() -> list[Holder]:
    """Return all holders; other threads may make more meanwhile."""
    return [holder for reference in known.valuerefs() if (holder := reference()) is not None]
