"""Blocks: the memory of keys and values that texts of different lengths share, and which text has which of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from hiprt import Array, Stream, array, kernels
from hiprt.kernels.ops.paged_cache.block_table import check_block_rows

__all__ = ["Blocks", "PoolError", "check_blocks"]

NONE = -1  # what the table has where a text has no block


class PoolError(ValueError):
    """A pool has fewer free blocks than texts need; nothing of it was taken, so that they can go on once it has."""


class Blocks:
    """The blocks of a pool, of which each text takes as many as it has tokens for.

    Each layer has a pool of its own, and what one of them says of a text holds in all: so one table serves every layer.
    It lies on the device, where a recorded step reads it anew each time.

    Parameters
    ----------
    rows : int
        The tokens of a block: a power of two from 16 to 4,096.
    count : int
        The blocks of a pool.
    batch : int
        How many texts share them.
    capacity : int
        The most tokens of a text.
    chunk : int
        The most rows that a step takes of a prompt.

    Attributes
    ----------
    table : Array of int32, shape (batch, blocks of a text)
        The block of the pool that has each run of tokens of a text; below 0 where there is none.
    slots : Array of int32, shape (rows of a step,)
        Where in a pool the keys and values of each row of a step go, as `locate` says.
    free : list of int
        The blocks that no text has.
    taken : list of (list of int)
        Those of each text, in the order of its tokens.

    Raises
    ------
    ValueError
        The tokens of a block are no such power of two, or there is no block.
    """

    def __init__(self, rows: int, count: int, batch: int, capacity: int, chunk: int) -> None:
        check_blocks(rows)
        if count < 1:
            raise ValueError(f"a pool of {count} blocks: at least one is needed")
        self.rows, self.count = rows, count
        self.table = array(np.full((batch, -(-capacity // rows)), NONE, np.int32))
        self.slots = array(np.full(max(batch, chunk), NONE, np.int32))
        self.free = [*reversed(range(count))]
        self.taken: list[list[int]] = [[] for _ in range(batch)]

    def reserve(self, tokens: Mapping[int, int], stream: Stream, ended: Collection[int] = ()) -> None:
        """Give texts the blocks for so many tokens each, those that they have among them.

        Parameters
        ----------
        tokens : mapping of int to int
            The tokens of each text, by its number.
        stream : Stream
            The stream on which steps read the table.
        ended : collection of int
            Texts that end with this, so that their blocks are among the free ones.

        Raises
        ------
        PoolError
            Fewer blocks are free. No text has got any, and none has ended.
        """
        held = [0 if each in ended else len(own) for each, own in enumerate(self.taken)]
        needs = {each: -(-count // self.rows) - held[each] for each, count in tokens.items()}
        needs = {each: need for each, need in needs.items() if need > 0}
        needed, free = sum(needs.values()), self.count - sum(held)
        if needed > free:
            raise PoolError(
                f"{needed} more blocks of {self.rows} tokens are needed, and {free} of {self.count} are free:"
                " release a text that has ended, or make a decoder whose kv_pool is larger"
            )
        for each in ended:
            self.release(each, stream)
        for each, need in needs.items():
            own = self.taken[each]
            begin = len(own)
            own.extend(self.free.pop() for _ in range(need))
            self.table[each, begin : len(own)].set(own[begin:], stream)

    def release(self, sequence: int, stream: Stream) -> None:
        """Take back the blocks of a text, which steps on the stream that are launched from now on do not find."""
        own = self.taken[sequence]
        if own:
            self.table[sequence].set(np.full(self.table.shape[1], NONE), stream)
            self.free.extend(reversed(own))
            own.clear()

    def locate(self, position: Array, sequence: int | None = None) -> None:
        """Launch what finds the slots of a step's rows: of one sequence, or of a row of each."""
        table = self.table if sequence is None else self.table[sequence]
        kernels.block_slots(table, position, self.rows, out=self.slots[: len(position)])


def check_blocks(rows: int) -> None:
    """Raise ValueError where caches cannot be kept in blocks of so many tokens."""
    check_block_rows("kv_blocks", rows)
