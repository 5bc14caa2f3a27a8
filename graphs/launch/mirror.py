"""The mirror: copies on the host of device memory, from which a verified launch puts memory back.

Most of what a step reaches are weights, which nobody changes. The mirror knows by its fingerprint that a piece is as it
was when it was copied, so that each launch copies only what was written since the launch before.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hiprt import core
from hiprt.graphs.launch.pieces import Pieces, Sums

__all__ = ["Mirror", "mirror"]

HOST_TO_DEVICE, DEVICE_TO_HOST = core.lib.hipMemcpyHostToDevice, core.lib.hipMemcpyDeviceToHost
LARGEST = 1 << 26  # bytes of one copy; the pieces of one begin between two multiples of it

Indices = NDArray[np.intp]


def half_of_memory() -> int:
    """Return half of the memory that the host has free."""
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") // 2


class Mirror:
    """Copies of pieces of device memory.

    Recordings that have the same piece share its row in the arrays that tell what is held. The rows of a recording's
    pieces are looked up once, so that a launch compares arrays, and Python has work with what is copied alone.

    Attributes
    ----------
    table : dict
        A piece's first address and one past its last, to its row.
    rows : mapping
        The rows of `Pieces`, as long as those live.
    sums : array of uint64
        By row: the fingerprint of what is held.
    is_held : array of bool
        By row: whether anything is.
    places : array of uint64
        By row: the host's address of the copy; 0 where there is no memory for one yet.
    blocks : list of array of uint8
        The memory of the copies.
    limit : int
        The most bytes of copies that are only good to have.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[int, int], int] = {}
        self.rows: WeakKeyDictionary[Pieces, Indices] = WeakKeyDictionary()
        self.sums, self.places = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        self.is_held = np.zeros(0, np.bool_)
        self.blocks: list[NDArray[np.uint8]] = []
        self.limit = half_of_memory()
        self.lock = threading.Lock()

    def hold(self, pieces: Pieces, sums: Sums, needed: NDArray[np.bool_]) -> None:
        """Copy the pieces whose content is not held already.

        Parameters
        ----------
        pieces : Pieces
        sums : array of uint64
            Their fingerprints now.
        needed : array of bool
            The pieces that must be held, whatever the limit is.

        Raises
        ------
        HipError
            A copy failed.
        MemoryError
            The host has no memory for what must be held.
        """
        with self.lock:
            rows = self.rows_of(pieces)
            missing = np.flatnonzero(~self.is_held[rows] | (self.sums[rows] != sums))
            # A copy that fails leaves neither what was held nor what is.
            self.is_held[rows[missing]] = False
            self.make_room(pieces, missing, needed)
            rows = self.rows_of(pieces)
            copied = missing[self.places[rows[missing]] != 0]
            places = self.places[rows]
            for run in runs(pieces, copied, places):
                start, nbytes = extent_of(pieces, run)
                pieces.stream.copy(int(places[run[0]]), start, nbytes, DEVICE_TO_HOST)
            pieces.stream.synchronize()
            self.sums[rows[copied]] = sums[copied]
            self.is_held[rows[copied]] = True

    def restore(self, pieces: Pieces, sums: Sums, which: Indices) -> Indices:
        """Put pieces back, and return those of which no copy is held.

        Parameters
        ----------
        pieces : Pieces
        sums : array of uint64
            The fingerprints of the content that is put back.
        which : array of int
            The pieces, ascending.
        """
        with self.lock:
            rows = self.rows_of(pieces)
            is_good = self.is_held[rows[which]] & (self.sums[rows[which]] == sums[which])
            places = self.places[rows]
            for run in runs(pieces, which[is_good], places):
                start, nbytes = extent_of(pieces, run)
                pieces.stream.copy(start, int(places[run[0]]), nbytes, HOST_TO_DEVICE)
            pieces.stream.synchronize()
            lost: Indices = which[~is_good]
        return lost

    def rows_of(self, pieces: Pieces) -> Indices:
        """Return the rows of pieces, which are made where they are new."""
        rows = self.rows.get(pieces)
        if rows is None:
            table, keys = self.table, zip(pieces.starts.tolist(), pieces.ends.tolist())
            rows = np.array([table.setdefault(key, len(table)) for key in keys], np.intp)
            self.sums, self.places = (
                np.append(each, np.zeros(len(table) - len(each), np.uint64)) for each in (self.sums, self.places)
            )
            self.is_held = np.append(self.is_held, np.zeros(len(table) - len(self.is_held), np.bool_))
            self.rows[pieces] = rows
        return rows

    def make_room(self, pieces: Pieces, missing: Indices, needed: NDArray[np.bool_]) -> None:
        """Give pieces whose content is not held places for it, those that are not needed as far as the limit allows."""
        sizes = (pieces.ends - pieces.starts).astype(np.int64)
        new = self.without_place(pieces, missing)
        if not len(new):
            return
        if self.nbytes + sizes[new].sum() > self.limit:
            is_tight = self.nbytes + sizes[new[needed[new]]].sum() > self.limit
            self.drop(pieces, missing[~needed[missing] & is_tight])
            new = self.without_place(pieces, missing)
        is_needed = needed[new]
        room = self.limit - self.nbytes - sizes[new[is_needed]].sum()
        taken = new[is_needed | (np.cumsum(np.where(is_needed, 0, sizes[new])) <= room)]
        rows = self.rows_of(pieces)
        for run in runs(pieces, taken):
            start, nbytes = extent_of(pieces, run)
            block = np.empty(nbytes, np.uint8)
            self.blocks.append(block)
            self.places[rows[run]] = int(block.ctypes.data) + (pieces.starts[run] - start)

    def without_place(self, pieces: Pieces, which: Indices) -> Indices:
        """Return those of some pieces whose copies have no place."""
        found: Indices = which[self.places[self.rows_of(pieces)[which]] == 0]
        return found

    @property
    def nbytes(self) -> int:
        """The size of all copies."""
        return sum(block.nbytes for block in self.blocks)

    def drop(self, pieces: Pieces, stale: Indices) -> None:
        """Drop what only other recordings reach, and of these pieces the copies that are stale."""
        rows = self.rows_of(pieces)
        if len(self.table) == len(rows) and not self.places[rows[stale]].any():
            return
        self.places[rows[stale]] = 0
        self.sums, self.is_held, self.places = self.sums[rows], self.is_held[rows], self.places[rows]
        self.table = {key: row for row, key in enumerate(zip(pieces.starts.tolist(), pieces.ends.tolist()))}
        self.rows.clear()
        own = np.sort(self.places)
        begins = np.array([block.ctypes.data for block in self.blocks], np.uint64)
        ends = begins + np.array([block.nbytes for block in self.blocks], np.uint64)
        is_used = np.searchsorted(own, begins) < np.searchsorted(own, ends)
        self.blocks = [block for block, used in zip(self.blocks, is_used) if used]


def extent_of(pieces: Pieces, run: Indices) -> tuple[int, int]:
    """Return the first address of neighbouring pieces, and their size."""
    start = int(pieces.starts[run[0]])
    return start, int(pieces.ends[run[-1]]) - start


def runs(pieces: Pieces, which: Indices, places: Sums | None = None) -> list[Indices]:
    """Return neighbouring pieces together, as far as one copy takes them; `places`: where the copies of all are."""
    if not len(which):
        return []
    before, after = which[:-1], which[1:]
    is_cut = (before + 1 != after) | (pieces.owners[before] != pieces.owners[after])
    is_cut |= pieces.starts[before] // LARGEST != pieces.starts[after] // LARGEST
    if places is not None:
        is_cut |= places[before] + (pieces.ends[before] - pieces.starts[before]) != places[after]
    return np.split(which, np.flatnonzero(is_cut) + 1)


mirror = Mirror()
