"""Captured work: what other code puts on the stream of a step while that records, taken in by HIP's stream capture.

A library of its own, such as hipBLAS or torch, launches on the ``hipStream_t`` that it was given. While a step records
there, that work is captured, and becomes nodes at its place between the step's own. Who says what the work reads and
writes, by `capture`, gives it edges; else nothing runs beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array
from hiprt.module import READ, WRITE
from hiprt.stream import current_stream

__all__ = ["Claims", "capture", "extent_of"]

REMEDY = (
    "do it before the step, or in `with stream.outside(reason):`, which splits the step around it; within "
    "`with step.capture(reads=…, writes=…):` all arrays have their addresses"
)


class Claims(NamedTuple):
    """What the program says that captured work touches.

    Attributes
    ----------
    objects : list
        The arrays, which live as long as the recording.
    extents : list of (int, int)
        Their memory: first address, one past the last.
    accesses : list of int
        ``module.READ`` or ``WRITE`` for each.
    """

    objects: list[Any]
    extents: list[tuple[int, int]]
    accesses: list[int]


def claims_of(reads: Iterable[Any], writes: Iterable[Any]) -> Claims:
    """Return what arrays that are read and arrays that are written claim."""
    pairs = [(each, READ) for each in reads] + [(each, WRITE) for each in writes]
    return Claims([each for each, _ in pairs], [extent_of(each) for each, _ in pairs], [access for _, access in pairs])


def extent_of(memory: Any) -> tuple[int, int]:
    """Return the first address of some memory, and one past its last.

    Parameters
    ----------
    memory : Array, or (int, int), or an object with ``__cuda_array_interface__``
        An array of ours; an address with a number of bytes; or an array of torch, CuPy or Numba.

    Raises
    ------
    TypeError
        It is something else.
    """
    if isinstance(memory, Array):
        return memory.settled_extent()
    if isinstance(memory, tuple) and len(memory) == 2:
        return int(memory[0]), int(memory[0]) + int(memory[1])
    shown = getattr(memory, "__cuda_array_interface__", None)
    if shown is None:
        raise TypeError(f"{memory!r} is neither an array on the device nor an address with a number of bytes")
    shape, item = shown["shape"], np.dtype(shown["typestr"]).itemsize
    steps = shown.get("strides") or [item * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    reach = [(n - 1) * step for n, step in zip(shape, steps)] if math.prod(shape) else []
    first = int(shown["data"][0])
    last = first + sum(r for r in reach if r > 0) + (item if math.prod(shape) else 0)
    return first + sum(r for r in reach if r < 0), last


@contextmanager
def capture(reads: Iterable[Any] = (), writes: Iterable[Any] = ()) -> Iterator[None]:
    """Take what other code launches on the current stream within the block into the step that records there.

    The work becomes nodes of the step's graph, in its own order. It waits for earlier nodes that write what it reads,
    or touch what it writes, and later ones wait for it. Without reads and writes it waits for everything before it,
    and everything after it waits for it. Where no step records, the block does nothing, and the work runs at once.

    `Step.capture` and that of the block's object in ``with step(…) as object`` are this function.

    Parameters
    ----------
    reads, writes : iterable
        What the work reads, and what it writes: arrays, pairs of an address and a number of bytes, or arrays of other
        libraries with ``__cuda_array_interface__``. They are kept alive with the step. Memory that is read and written
        is given in both.

    Raises
    ------
    HipError
        Some of the work cannot be part of a graph, such as a function of the host, a copy from or to the host, or an
        allocation: then nothing of the step is launched. Such work belongs in `Stream.outside`.
    RuntimeError
        The stream records, but for no step.
    """
    stream = current_stream()
    if not stream.recording:
        yield
        return
    if stream.session is None:
        raise RuntimeError("capture: the stream records, but for no step")
    with stream.session.capture(list(reads), list(writes)):
        yield
