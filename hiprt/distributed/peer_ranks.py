"""The ranks of a host, whose kernels reach each other's memory and wait for each other there."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from hiprt.array import Array, array, zeros
from hiprt.buffer import Buffer
from hiprt.device import Device
from hiprt.distributed.exchange import CHUNKED, FEW, PIECES, PLACES, SEND
from hiprt.distributed.peers import Peers
from hiprt.distributed.rendezvous import Rendezvous
from hiprt.errors import RankError
from hiprt.hip import call, handle, lib
from hiprt.kernels.lang.kernel import Kernel
from hiprt.stream import Stream, current_stream

__all__ = ["PeerRanks"]

MOST_BLOCKS = 128  # each has 1 KiB of numbers on their way at a time; it takes that many to keep a link busy
WORD, PIECE = 8, 16  # bytes


class PeerRanks:
    """The ranks of a host, connected by kernels of our own.

    Every rank makes it at the same place of its program.

    Parameters
    ----------
    rendezvous : Rendezvous
    device : Device
        This rank's device.
    turns : Array
        What all collectives are declared to write, so that they come in the order of the program.

    Attributes
    ----------
    rounds, chunk_rounds : Array of uint32
        How many rounds of collectives each block has done by words, and by chunks.

    Raises
    ------
    RankError
        The ranks do not reach each other's memory.
    """

    def __init__(self, rendezvous: Rendezvous, device: Device, turns: Array) -> None:
        self.place, self.turns = rendezvous.place, turns
        ranks = self.place.ranks
        # Blocks of one launch wait for blocks of others: they must run side by side, which the CPU device's need not.
        blocks = 1 if device.provider.takes_loops else min(MOST_BLOCKS, device.compute_units)
        self.blocks = min(rendezvous.all_gather(blocks))
        # Two turns of words for collectives, messages and the answers to these, and of words and pieces of chunks; and
        # whether a rank is gone. See words.hip.
        words = 3 * PLACES * WORD + WORD + PIECES * PLACES * PIECE
        self.memory = Peers(rendezvous, 2 * ranks * self.blocks * words + WORD, device)
        self.places = array(np.array(self.memory.addresses, np.uint64))
        self.rounds, self.chunk_rounds = zeros(self.blocks, np.uint32), zeros(self.blocks, np.uint32)
        self.sent, self.received = (zeros((ranks, self.blocks), np.uint32) for _ in range(2))
        word = handle(lib.hipHostMalloc, 4, 0)
        # It goes with the last recording that reads it; hipHostFree waits for the device.
        buffer = Buffer(word, 4, device.index, lambda: call(lib.hipHostFree(word)))
        self.is_gone = Array(buffer, (1,), np.dtype(np.uint32), word)
        self.gone = ctypes.c_uint32.from_address(word)
        self.gone.value = 0
        rendezvous.on_loss(self.stop_waiting)

    def stop_waiting(self, _error: RankError | None = None) -> None:
        """Let the kernels that wait for a rank end; what they leave is not a result."""
        self.gone.value = 1

    def launch(self, kernel: Kernel, x: Array, out: Array, stream: Stream | None, **given: Any) -> None:
        """Launch a collective: by words of 4 bytes, or by chunks where these would need several rounds."""
        n = min(x.size, out.size)  # of reduce_scatter that is the part; of all_gather as well
        nbytes = n * x.dtype.itemsize
        template = {"T": x.dtype, "RANKS": self.place.ranks} | ({"S": given.pop("S")} if "S" in given else {})
        rounds, lanes = self.rounds, -(-nbytes // 4)
        # All ranks must choose alike, so this depends on nothing else.
        if kernel in CHUNKED and lanes > self.blocks * PLACES and nbytes % PIECE == 0:
            kernel, rounds, lanes = CHUNKED[kernel], self.chunk_rounds, nbytes // PIECE
            template["ALIGNED"] = x.address % PIECE == out.address % PIECE == 0
        if n:
            kernel(*self.shape(lanes, stream), template, x=x, out=out, rounds=rounds, n=n, **self.shared, **given)

    def pass_message(self, kernel: Kernel, words: Array, peer: int, stream: Stream | None) -> None:
        """Launch one half of a message: a kernel that sends words to a rank, or one that takes them from there."""
        is_sent, count = kernel is SEND, -(-words.nbytes // 4)
        if count:
            kernel(
                *self.shape(count, stream), {"T": words.dtype, "RANKS": self.place.ranks},
                rounds=(self.sent if is_sent else self.received)[peer], n=words.size, peer=peer, **self.shared,
                **{"x" if is_sent else "out": words},
            )  # fmt: skip

    def shape(self, lanes: int, stream: Stream | None) -> tuple[Stream, tuple[int, int, int], tuple[int, int, int]]:
        """Return the stream, grid and block of a launch that so many threads could do at once."""
        threads = FEW if lanes <= self.blocks * FEW else PLACES
        return stream or current_stream(), (min(self.blocks, -(-lanes // threads)), 1, 1), (threads, 1, 1)

    @property
    def shared(self) -> dict[str, Any]:
        """What all kernels are given."""
        place = {"places": self.places, "gone": self.is_gone, "rank": self.place.rank, "blocks": self.blocks}
        return {**place, "turns": self.turns}

    def close(self) -> None:
        """Give the memory back, once no rank uses it any more; every rank calls this.

        Raises
        ------
        RankError
            A rank is gone or late. The memory is given back.
        """
        self.memory.close()
