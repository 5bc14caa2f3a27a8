"""Hazards: why a node waits for another one, by buffer and byte range."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hiprt.module import READ, WRITE

__all__ = ["Access", "Hazard", "hazards"]


class Access(NamedTuple):
    """Memory that a node declares.

    Attributes
    ----------
    buffer : str
        The name that the kernel has for it.
    start, end : int
        The first address and one past the last.
    access : int
        ``module.READ``, ``WRITE`` or ``READ_WRITE``.
    """

    buffer: str
    start: int
    end: int
    access: int


class Hazard(NamedTuple):
    """Bytes for which one node must come behind another.

    Attributes
    ----------
    kind : str
        ``RAW``: the later node reads what the earlier one wrote. ``WAR``: it overwrites what the earlier one read.
        ``WAW``: it overwrites what the earlier one wrote, unread.
    before, after : str
        What the earlier and the later node call the buffer.
    start, end : int
        The first address and one past the last.
    """

    kind: str
    before: str
    after: str
    start: int
    end: int


class Piece:
    """A piece of memory with the node that wrote it last and those that have read it since, and their buffers."""

    __slots__ = ("end", "readers", "start", "writer")

    def __init__(
        self, start: int, end: int, writer: tuple[int, str] | None, readers: tuple[tuple[int, str], ...]
    ) -> None:
        self.start, self.end, self.writer, self.readers = start, end, writer, readers


class Memory:
    """All memory that was touched so far, as disjoint pieces in the order of their addresses."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.pieces: list[Piece] = []

    def cut(self, at: int) -> int:
        """Let a piece begin at an address inside of it; return the place of the first that begins there or later."""
        place = bisect.bisect_left(self.starts, at)
        if place and self.pieces[place - 1].end > at:
            piece = self.pieces[place - 1]
            self.pieces.insert(place, Piece(at, piece.end, piece.writer, piece.readers))
            self.starts.insert(place, at)
            piece.end = at
        return place

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Return where the pieces of [start, end) begin and end in the list, none of which reaches beyond."""
        first = self.cut(start)
        return first, self.cut(end)

    def read(self, node: int, access: Access) -> None:
        """Note that a node reads."""
        first, last = self.within(access.start, access.end)
        at, made = access.start, []
        for piece in self.pieces[first:last]:
            if at < piece.start:
                made.append(Piece(at, piece.start, None, ((node, access.buffer),)))
            piece.readers = (*piece.readers, (node, access.buffer))
            made.append(piece)
            at = piece.end
        if at < access.end:
            made.append(Piece(at, access.end, None, ((node, access.buffer),)))
        self.replace(first, last, made)

    def write(self, node: int, access: Access) -> None:
        """Note that a node writes."""
        first, last = self.within(access.start, access.end)
        self.replace(first, last, [Piece(access.start, access.end, (node, access.buffer), ())])

    def replace(self, first: int, last: int, made: list[Piece]) -> None:
        """Put pieces in the place of others."""
        self.pieces[first:last] = made
        self.starts[first:last] = [piece.start for piece in made]

    def found(self, access: Access) -> Iterator[tuple[int, Hazard]]:
        """Yield the earlier nodes that an access must come behind, with the reason."""
        first, last = self.within(access.start, access.end)
        for piece in self.pieces[first:last]:
            if piece.writer is not None:
                kind = "RAW" if access.access & READ else "WAW"
                if kind == "RAW" or not piece.readers:
                    yield piece.writer[0], Hazard(kind, piece.writer[1], access.buffer, piece.start, piece.end)
            if access.access & WRITE:
                for reader, buffer in piece.readers:
                    yield reader, Hazard("WAR", buffer, access.buffer, piece.start, piece.end)


def hazards(nodes: Iterable[Sequence[Access]]) -> list[dict[int, list[Hazard]]]:
    """Find why nodes must come behind earlier ones.

    Parameters
    ----------
    nodes : iterable of sequences of Access
        What each node touches, in program order.

    Returns
    -------
    list of dict
        For each node, the earlier nodes that it must come behind, with the hazards between the two. A node that only
        follows from others, through what was written or read in between, is none of them.
    """
    memory, found = Memory(), []
    for index, accesses in enumerate(nodes):
        mine: dict[int, list[Hazard]] = {}
        for access in accesses:
            for before, hazard in memory.found(access):
                if before != index:
                    join(mine.setdefault(before, []), hazard)
        # Reads come first: what a node reads and writes, it waits for as a reader.
        for access in accesses:
            if access.access == READ and access.start < access.end:
                memory.read(index, access)
        for access in accesses:
            if access.access & WRITE and access.start < access.end:
                memory.write(index, access)
        found.append(mine)
    return found


def join(known: list[Hazard], hazard: Hazard) -> None:
    """Add a hazard to others, as a part of the one before it if it continues that."""
    if known and known[-1][:3] == hazard[:3] and known[-1].end == hazard.start:
        known[-1] = known[-1]._replace(end=hazard.end)
    else:
        known.append(hazard)
