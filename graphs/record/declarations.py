"""Declarations: the memory that the nodes of a recording say they read and write."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hiprt import core, module
from hiprt.graphs.record.extents import Extent

if TYPE_CHECKING:
    from hiprt.graphs.record.recording import Recording

__all__ = ["Piece", "declared", "extents", "in_place", "reachable", "why_once"]

Piece = tuple[int, int, int]  # first address, one past the last, and module.READ, WRITE or READ_WRITE
ADDRESS = struct.Struct("<Q")


def declared(recording: Recording, index: int) -> list[Piece]:
    """Return the memory that a node declares."""
    raw = recording.raw(index)
    return [(raw.ranges[k].start, raw.ranges[k].end, raw.access[k]) for k in range(raw.n_ranges)]


def reachable(recording: Recording, index: int) -> list[Piece]:
    """Return the memory that a node declares, and the bytes that other addresses among its arguments point to."""
    raw, pieces = recording.raw(index), declared(recording, index)
    for k in range(raw.n_addresses):
        (address,) = ADDRESS.unpack_from(core.ffi.buffer(raw.payload, raw.payload_size), raw.addresses[k])
        pieces.append((address, address + 1, module.READ_WRITE))
    return pieces


def why_once(recording: Recording) -> str:
    """Return why the nodes of a recording must not run once more than the step does; empty where they may."""
    for index in range(len(recording)):
        raw = recording.raw(index)
        node = recording.node(index) if raw.is_barrier else None
        if node is not None and node.kind == "kernel":
            who = "is work of other code, and step.capture does not say" if node.is_foreign else "does not declare"
            return f"node {index} ({node.name}) {who} what it writes, so that cannot be put back"
    return ""


def extents(recording: Recording) -> set[Extent]:
    """Return the memory that all nodes declare, each piece once."""
    return {(start, end) for index in range(len(recording)) for start, end, _ in declared(recording, index)}


def in_place(recording: Recording) -> Iterator[tuple[int, Extent, Extent]]:
    """Yield what nodes may write where they read, as their kernels declare it.

    Yields
    ------
    tuple of int, Extent and Extent
        The node, what it reads, and what it writes.
    """
    for index in range(len(recording)):
        raw = recording.raw(index)
        function = module.functions.get(core.address(raw.kernel)) if raw.kernel else None
        if function is not None and function.in_place:
            pieces = declared(recording, index)
            for target, sources in function.in_place:
                for extent in {pieces[source][:2]: None for source in sources}:
                    if is_apart(pieces, extent, sources, target):
                        yield index, extent, pieces[target][:2]


def is_apart(pieces: Sequence[Piece], extent: Extent, sources: Sequence[int], target: int) -> bool:
    """Whether a node touches an extent through its sources alone, and what it writes through the target alone.

    Parameters
    ----------
    pieces : sequence of Piece
        What the node declares, an entry a buffer.
    extent : Extent
        What the sources show.
    sources : sequence of int
        The buffers, among those, that the output may lie over.
    target : int
        The output.
    """
    low, high = extent
    first, last, _ = pieces[target]
    for k, (start, end, _) in enumerate(pieces):
        if k != target and start < last and first < end:
            return False
        if start < high and low < end and ((start, end) != extent or k not in sources):
            return False
    return low < high
