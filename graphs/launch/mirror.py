"""The mirror: copies on the host of device memory, from which a verified launch puts memory back.

Most of what a step reaches are weights, which nobody changes. The mirror knows by its fingerprint that a piece is as it
was when it was copied, so that each launch copies only what was written since the launch before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hiprt import core
from hiprt.graphs.launch.pieces import Pieces, Sums

__all__ = ["Mirror", "mirror"]

HOST_TO_DEVICE, DEVICE_TO_HOST = core.lib.hipMemcpyHostToDevice, core.lib.hipMemcpyDeviceToHost
LARGEST = 1 << 26  # bytes of one copy


def half_of_memory() -> int:
    """Return half of the memory that the host has free."""
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in os.sysconf_names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") // 2


class Mirror:
    """Copies of pieces of device memory.

    Attributes
    ----------
    copies : dict
        A piece's first address and one past its last, to its fingerprint and content.
    limit : int
        The most bytes of copies that are only good to have.
    """

    def __init__(self) -> None:
        self.copies: dict[tuple[int, int], tuple[int, NDArray[np.uint8]]] = {}
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
            keys = list(zip(pieces.starts.tolist(), pieces.ends.tolist()))
            held = {key: self.copies[key] for key in keys if key in self.copies}
            missing = [i for i, key in enumerate(keys) if key not in held or held[key][0] != int(sums[i])]
            used = sum(end - start for start, end in self.copies)
            if used + sum(keys[i][1] - keys[i][0] for i in missing) > self.limit:
                # What other recordings reach goes first.
                self.copies, used = held, sum(end - start for start, end in held)
            taken = []
            for i in missing:
                used += keys[i][1] - keys[i][0]
                if used <= self.limit or needed[i]:
                    taken.append(i)
                else:
                    self.copies.pop(keys[i], None)
            found = [(run, self.copy(pieces, run)) for run in runs(pieces, taken)]
            pieces.stream.synchronize()
            for run, content in found:
                start = keys[run[0]][0]
                for i in run:
                    self.copies[keys[i]] = int(sums[i]), content[keys[i][0] - start : keys[i][1] - start]

    @staticmethod
    def copy(pieces: Pieces, run: list[int]) -> NDArray[np.uint8]:
        """Begin the copy of neighbouring pieces."""
        start = int(pieces.starts[run[0]])
        content = np.empty(int(pieces.ends[run[-1]]) - start, np.uint8)
        pieces.stream.copy(int(content.ctypes.data), start, content.nbytes, DEVICE_TO_HOST)
        return content

    def restore(self, pieces: Pieces, sums: Sums, which: list[int]) -> list[int]:
        """Put pieces back, and return those of which no copy is held.

        Parameters
        ----------
        pieces : Pieces
        sums : array of uint64
            The fingerprints of the content that is put back.
        which : list of int
            The pieces.
        """
        lost = []
        with self.lock:
            for i in which:
                start, end = int(pieces.starts[i]), int(pieces.ends[i])
                known, content = self.copies.get((start, end), (None, None))
                if content is None or known != int(sums[i]):
                    lost.append(i)
                else:
                    pieces.stream.copy(start, int(content.ctypes.data), end - start, HOST_TO_DEVICE)
            pieces.stream.synchronize()
        return lost


def runs(pieces: Pieces, which: list[int]) -> Iterator[list[int]]:
    """Yield neighbouring pieces together, as far as one copy takes them."""
    run: list[int] = []
    for i in which:
        fits = run and run[-1] + 1 == i and pieces.owners[run[-1]] == pieces.owners[i]
        if not fits or pieces.ends[i] - pieces.starts[run[0]] > LARGEST:
            if run:
                yield run
            run = []
        run.append(i)
    if run:
        yield run


mirror = Mirror()
