"""Reach: the memory that the nodes of a recording read and write, in pieces, which launches of one exec share."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from hiprt import core
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.pieces import Pieces
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.extents import Extent, coalesce
from hiprt.graphs.record.recording import Recording
from hiprt.module import READ, WRITE
from hiprt.stream import Stream

__all__ = ["Reach", "addresses_of", "reach_of"]


class Reach:
    """What the nodes of a recording reach: what they declare, and the rest of the buffers that it lies in.

    Parameters
    ----------
    recording : Recording
    stream : Stream
        Fingerprints of the pieces are taken in its order.

    Attributes
    ----------
    addresses : list
        All that the rest follows from; see `addresses_of`.
    touched : list of list of Piece
        What each node declares, without what is empty.
    pieces : Pieces
        No node declares a part of one.
    is_declared, is_written : array of bool
        Which pieces any node declares, and which any node declares to write.
    is_honest : bool
        Whether all nodes were seen to write nothing but what they declare.
    """

    def __init__(self, recording: Recording, stream: Stream) -> None:
        self.addresses = addresses_of(recording)
        self.touched = [
            [(start, end, access) for start, end, access in declared(recording, i) if start < end]
            for i in range(len(recording))
        ]
        everything = [(start, end) for each in self.touched for start, end, _ in each]
        buffers = [(buffer.address, buffer.address + buffer.nbytes) for buffer in recording.keep if buffer.nbytes]
        written = coalesce(extent for i in range(len(recording)) for extent in self.writes(i))
        cuts = (address for extent in [*everything, *buffers] for address in extent)
        self.pieces = Pieces(coalesce([*everything, *buffers]), cuts, stream, written)
        self.is_declared = self.pieces.within(everything)
        self.is_written = self.pieces.within(written)
        self.is_honest = False

    def writes(self, index: int) -> list[Extent]:
        """Return the memory that a node declares to write."""
        return [(start, end) for start, end, access in self.touched[index] if access & WRITE]

    def reads(self, index: int) -> list[Extent]:
        """Return the memory that a node declares to read."""
        return [(start, end) for start, end, access in self.touched[index] if access & READ]


def addresses_of(recording: Recording) -> list[Any]:
    """Return what nodes declare as bytes, and where the buffers of a recording lie.

    They are compared before each launch: a recording that is patched or moved reaches other memory than before.
    """
    found: list[Any] = [(buffer.address, buffer.nbytes) for buffer in recording.keep]
    size, buffer = core.ffi.sizeof("hiprt_range"), core.ffi.buffer
    for index in range(len(recording)):
        raw = recording.raw(index)
        if raw.n_ranges:
            found += index, buffer(raw.ranges, size * raw.n_ranges)[:], buffer(raw.access, raw.n_ranges)[:]
    return found


# Nodes of an exec launch the same kernels with the same dimensions whatever it carries (G3), so that what was seen of
# them stays true as long as they reach the same memory.
reaches: WeakKeyDictionary[Exec, Reach] = WeakKeyDictionary()


def reach_of(exec_: Exec, stream: Stream) -> Reach:
    """Return what the nodes that an exec carries reach: the same object as long as that is the same."""
    reach = reaches.get(exec_)
    if reach is None or reach.pieces.stream is not stream or reach.addresses != addresses_of(exec_.recording):
        reach = reaches[exec_] = Reach(exec_.recording, stream)
    return reach
