"""Captured pointers: which words of a captured graph's arguments are addresses of memory that may move.

HIP tells where a kernel's arguments lie, and not which of them are addresses. Captures of the same work tell it. Two of
them with the same memory differ where intermediates are; a word of the others that lies in known memory is taken for an
address in it, and is believed once a capture with that memory at another place has the word that follows from it, and
no other word has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import core, objects
from hiprt.graphs.record.recording import Recording

__all__ = ["Pointers"]

pointing = objects.load("hiprt.graphs.native.pointing")

ANYWHERE = (1 << 64) - 1
POINTER = np.dtype([("node", "u4"), ("offset", "u4"), ("memory", "u4"), ("zero", "u4"), ("delta", "u8")])


class Pointers:
    """Where the nodes of a captured graph point into memory that others move.

    Parameters
    ----------
    recording : Recording
        Of the graph.
    is_ours : array of bool
        Which of its `words` are addresses of intermediates, or else differ from capture to capture: see `of_captures`.
    memory : sequence of (int, int)
        The address and the size in bytes of each piece of memory that may move.

    Attributes
    ----------
    pinned : list of int
        The pieces of memory that may not move without another capture, by number.
    puzzles : int
        How many captures had words that do not follow from where memory is.
    """

    def __init__(self, recording: Recording, is_ours: NDArray[np.bool_], memory: Sequence[tuple[int, int]]) -> None:
        self.recording = recording
        self.is_ours = is_ours
        self.starts = [address for address, _ in memory]
        # Where HIP does not tell a kernel's arguments, nothing is known of what they point to.
        self.is_hidden = any(recording.raw(i).kind == core.lib.HIPRT_NODE_OPAQUE for i in range(len(recording)))
        self.places, self.values = words(recording)
        self.merges, alone = merged(memory)
        self.table, self.chosen = self.found(alone)
        self.count = len(self.table)
        words_of_table = core.ffi.cast("hiprt_pointer *", self.table.ctypes.data)
        lib = core.lib
        self.pointers = core.create(
            "hiprt_pointers", lib.hiprt_pointers_release, lib.hiprt_pointers_create,
            len(memory), self.count, words_of_table,
        )  # fmt: skip
        self.address = core.address(self.pointers)
        recording.point(self.pointers, core.ffi.new("uint64_t[]", self.starts))
        self.pin(range(len(self.starts)))
        self.copies: list[Recording] = []
        self.puzzles = 0

    @classmethod
    def of_captures(cls, recording: Recording, again: Recording, memory: Sequence[tuple[int, int]]) -> Pointers:
        """Return what two captures tell of the same work with the same memory, whose intermediates lie elsewhere."""
        return cls(recording, words(recording)[1] != words(again)[1], memory)

    def of_later(self, recording: Recording, again: Recording | None, memory: Sequence[tuple[int, int]]) -> Pointers:
        """Return the pointers of a later capture of the same work, with what was learned where that still holds.

        Words that follow from nothing, such as the room between the fields of a structure, differ now and then.
        Another capture with the same memory, `again`, may show some.
        """
        is_ours = self.is_ours if again is None else self.is_ours | (words(recording)[1] != words(again)[1])
        later = Pointers(recording, is_ours, memory)
        later.puzzles = self.puzzles
        others = {memory for _, _, memory in self.known() ^ later.known()}
        later.pin(sorted({*self.pinned, *others}))
        return later

    def known(self) -> set[tuple[int, int, int]]:
        """Return the words of the table: node, offset, and the piece of memory."""
        return {*zip(*(self.table[name].tolist() for name in ("node", "offset", "memory")))}

    def found(self, alone: dict[int, tuple[int, int]]) -> tuple[NDArray[np.void], NDArray[np.intp]]:
        """List the words that lie in memory which no other piece overlaps, and where they stand among all words."""
        order = sorted(alone, key=lambda i: alone[i][0])
        starts = np.array([alone[i][0] for i in order], np.uint64)
        ends = np.array([alone[i][1] for i in order], np.uint64)
        at = np.searchsorted(starts, self.values, "right") - 1
        is_inside = (at >= 0) & ~self.is_ours
        is_inside[is_inside] = self.values[is_inside] < ends[at[is_inside]]
        chosen = np.flatnonzero(is_inside)
        table = np.zeros(len(chosen), POINTER)
        if len(chosen):
            table["node"], table["offset"] = self.places[chosen].T
            table["memory"] = np.array(order)[at[chosen]]
            table["delta"] = self.values[chosen] - starts[at[chosen]]
        return table, chosen

    def pin(self, pinned: Sequence[int]) -> None:
        """Note which pieces of memory may not move; those that begin where another one does move with it."""
        self.pinned = list(pinned)
        places, beside = [ANYWHERE] * len(self.starts), list(range(len(self.starts)))
        for i in self.pinned:
            places[i] = self.starts[i]
        for i, first in self.merges:
            beside[i] = first
        core.lib.hiprt_pointers_bind(self.pointers, places, beside)

    def may_move(self, words: bytearray) -> bool:
        """Whether a recording for memory at these places is known without another capture.

        Parameters
        ----------
        words : bytearray
            Where each piece of memory is, as 64-bit words.
        """
        return bool(pointing.may_move(self.address, words))

    def learn(self, captured: Recording, starts: Sequence[int]) -> bool:
        """Compare a capture with memory at other places with what is expected of it; whether all that moved may move.

        Parameters
        ----------
        captured : Recording
        starts : sequence of int
            Where each piece of memory was when it was captured.
        """
        if (
            self.is_hidden
            or not captured.same_key(self.recording)
            or any(starts[i] != starts[first] for i, first in self.merges)
        ):
            return False
        expected = self.values.copy()
        if self.count:
            expected[self.chosen] = np.array(starts, np.uint64)[self.table["memory"]] + self.table["delta"]
        if np.any((words(captured)[1] != expected) & ~self.is_ours):
            self.puzzles += 1
            return False
        self.pin([i for i in self.pinned if starts[i] == self.starts[i]])
        return True

    def at(self, starts: Any) -> Recording:
        """Return a recording for memory at these places, which `may_move` there; it is good until the next call.

        Parameters
        ----------
        starts : uint64_t *
            Where each piece of memory is.
        """
        spare = next((copy for copy in self.copies if not copy.is_carried), None)
        if spare is None:
            spare = self.recording.copy()
            self.copies.append(spare)
        spare.point(self.pointers, starts)
        return spare


def merged(memory: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], dict[int, tuple[int, int]]]:
    """Tell which pieces of memory begin where another one does, and which overlap no piece that begins elsewhere.

    Returns
    -------
    merges : list of (int, int)
        The number of a piece, and of the first one that begins there.
    alone : dict
        The number of the first piece at a start, to where the longest of them starts and ends.
    """
    first: dict[int, int] = {}
    merges: list[tuple[int, int]] = []
    ends: dict[int, int] = {}
    for i, (start, size) in enumerate(memory):
        if size and first.setdefault(start, i) != i:
            merges.append((i, first[start]))
        ends[start] = max(ends.get(start, 0), start + size)
    order = sorted(first)
    alone, reach = {}, 0
    for start, following in zip(order, [*order[1:], 1 << 64]):
        if reach <= start and ends[start] <= following:
            alone[first[start]] = (start, ends[start])
        reach = max(reach, ends[start])
    return merges, alone


def words(recording: Recording) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Return node and offset, and the value, of each 8 bytes of a recording's arguments."""
    places, values = [], []
    dims = core.ffi.sizeof("hiprt_dims")
    for index in range(len(recording)):
        raw = recording.raw(index)
        start = dims if raw.kernel else 0
        payload = np.frombuffer(core.ffi.buffer(raw.payload, raw.payload_size), np.uint64, offset=start).copy()
        values.append(payload)
        offsets = np.arange(len(payload), dtype=np.uint32) * 8 + start
        places.append(np.stack([np.full(len(payload), index, np.uint32), offsets.astype(np.uint32)], axis=1))
    if not values:
        return np.zeros((0, 2), np.uint32), np.zeros(0, np.uint64)
    return np.concatenate(places), np.concatenate(values)
