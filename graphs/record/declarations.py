"""Declarations: the memory that the nodes of a recording say they read and write."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hiprt import core
from hiprt.allocator import InPlace, Outline
from hiprt.graphs.record.extents import Extent

if TYPE_CHECKING:
    from hiprt.graphs.record.recording import Recording

__all__ = ["Piece", "declared", "extents", "outlined", "why_once"]

Piece = tuple[int, int, int]  # first address, one past the last, and module.READ, WRITE or READ_WRITE


def declared(recording: Recording, index: int) -> list[Piece]:
    """Return the memory that a node declares."""
    raw = recording.raw(index)
    return [(raw.ranges[k].start, raw.ranges[k].end, raw.access[k]) for k in range(raw.n_ranges)]


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


def outlined(recording: Recording, extents: Sequence[Extent]) -> tuple[bytes, Callable[[], Outline]]:
    """Return what the nodes do with memory that is to be laid out, as `hiprt.allocator.Arena.settle` takes it.

    Parameters
    ----------
    recording : Recording
    extents : sequence of Extent
        That memory, ascending and disjoint: ``hiprt_range[]``.
    """
    count, room = 0, 16 * len(recording) + 64
    while True:
        words = core.ffi.new("uint32_t[]", room)
        count = core.lib.hiprt_recorder_outline(recording.core, len(extents), extents, words, room)
        if count <= room:
            break
        room = 2 * count
    key = bytes(core.ffi.buffer(words, 4 * count))
    return key, partial(outline_of, key, len(extents))


def outline_of(key: bytes, count: int) -> Outline:
    """Return the outline that ``hiprt_recorder_outline`` wrote, for so many extents."""
    words = array("I", key)
    users: list[list[int]] = [[] for _ in range(count)]
    dependencies: list[Sequence[int]] = []
    pairs: list[InPlace] = []
    at, node = 0, 0
    while at < len(words):
        end = at + 1 + words[at]
        for extent in words[at + 1 : end]:
            users[extent].append(node)
        at, end = end, end + 1 + words[end]
        dependencies.append(words[at + 1 : end].tolist())
        at, end = end, end + 1 + 2 * words[end]
        pairs += [InPlace(node, *words[k : k + 2]) for k in range(at + 1, end, 2)]
        at, node = end, node + 1
    return Outline([tuple(each) for each in users], dependencies, pairs)
