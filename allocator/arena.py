"""Arenas: the intermediates of a kept step, recorded at provisional addresses and then laid out in one block.

While a step records, each request gets an address range of its own that no memory lies behind. When the recording
ends, the planner knows which nodes touch what: everything moves to an offset in one block, and so do the arrays that
are still alive, the step's results. Sharing memory this way adds no edge to the graph.
"""

from __future__ import annotations

import itertools
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from hiprt.allocator.planner import ALIGNMENT, InPlace, Plan, in_place_of, plan, requests_of
from hiprt.allocator.pool import PoolStats, pools
from hiprt.buffer import Allocate, Buffer
from hiprt.errors import OutOfMemoryError
from hiprt.stream import Stream

__all__ = ["Arena", "Move"]

Move = tuple[int, int, int]
Written = tuple[int, tuple[int, int], tuple[int, int]]
# Above every address that 57 bits reach, so that a stray access faults.
PROVISIONAL = 1 << 58
SPACING = 256
WINDOW = 8192  # nodes; a plan keeps as many bits for each of them
names = itertools.count()


class Arena:
    """Memory of one step's intermediates.

    It cannot overflow: when its block is asked for, every request is known. If there is no memory for the block, the
    step raises and nothing of it is launched.

    Parameters
    ----------
    source : callable
        Where the block comes from: a pool's `allocate`.
    name : str, optional
        For reports.

    Attributes
    ----------
    chunks : dict
        Number to memory, one block per part of the step that was recorded.
    plans : list of Plan
        How each is shared.
    moves : list of Move
        What `settle` returned last.
    """

    def __init__(self, source: Allocate, name: str = "") -> None:
        self.source = source
        self.name = name or f"arena {next(names)}"
        self.parent = getattr(source, "__self__", None)
        self.chunks: dict[int, Buffer] = {}
        self.plans: list[Plan] = []
        self.next = PROVISIONAL
        self.moves: list[Move] = []
        self.extents: list[tuple[int, int]] = []
        self.buffers: list[weakref.ref[Buffer]] = []
        pools.add(self)

    def allocate(self, nbytes: int, stream: Stream) -> Buffer:
        """Return a buffer at a provisional address."""
        address = self.next
        self.next += -(-nbytes // SPACING) * SPACING + SPACING
        buffer = Buffer(address, nbytes, stream.device.index, pool=self)
        buffer.views = []
        self.extents.append((address, address + nbytes))
        self.buffers.append(weakref.ref(buffer))
        return buffer

    def settle(
        self,
        stream: Stream,
        touched: Iterable[Iterable[tuple[int, int, int]]],
        dependencies: Callable[[], Sequence[Sequence[int]]],
        in_place: Callable[[], Iterable[Written]] = tuple,
    ) -> list[Move]:
        """Lay out what was asked for since the last time, and move the arrays that are alive.

        Parameters
        ----------
        stream : Stream
            That the step is launched on.
        touched : iterable
            Per node in program order, the memory it declares: (start, end, access).
        dependencies : callable
            Returns, per node, the earlier nodes that it waits for.
        in_place : callable, optional
            Returns what may be written in place: node, and (start, end) of what it reads and what it writes.

        Returns
        -------
        list of Move
            First address, one past the last, and the new first address, ascending.

        Raises
        ------
        OutOfMemoryError
            There is no memory for the block; nothing has moved.
        """
        extents, buffers = self.extents, [known() for known in self.buffers]
        if not extents:
            return []
        alive = [i for i, buffer in enumerate(buffers) if buffer is not None]
        made = layout(extents, touched, dependencies, alive, in_place)
        block = self.source(max(made.nbytes, 1), stream)
        self.plans.append(made)
        self.chunks[len(self.chunks)] = block
        self.extents, self.buffers = [], []
        self.moves = moves = [
            (start, end + SPACING - 1, block.address + offset) for (start, end), offset in zip(extents, made.offsets)
        ]
        for i in alive:
            settled = buffers[i]
            assert settled is not None
            settled.rebase(moves[i][2], block)
        return moves

    def abandon(self, stream: Stream) -> None:
        """Give the arrays that are alive memory of their own; what they were to hold was never computed."""
        buffers = [buffer for known in self.buffers if (buffer := known()) is not None]
        self.extents, self.buffers = [], []
        for buffer in buffers:
            # Without memory it stays where no memory is: whoever uses it is told so by a fault.
            with suppress(OutOfMemoryError):
                block = self.source(max(buffer.nbytes, 1), stream)
                buffer.rebase(block.address, block)

    def stats(self) -> PoolStats:
        """Return the arena's sizes."""
        nbytes = sum(block.nbytes for block in self.chunks.values())
        return PoolStats(nbytes, nbytes, nbytes)


def layout(
    extents: list[tuple[int, int]],
    touched: Iterable[Iterable[tuple[int, int, int]]],
    dependencies: Callable[[], Sequence[Sequence[int]]],
    results: list[int],
    in_place: Callable[[], Iterable[Written]] = tuple,
) -> Plan:
    """Plan the intermediates of so many nodes at a time; others, and those that more nodes use, share nothing."""
    requests = requests_of(extents, touched, results)
    edges = dependencies() or [[]]
    for i in results:
        # Somebody will use it later: as if the last node did.
        requests[i] = replace(requests[i], users=requests[i].users or (len(edges) - 1,))
    written = in_place_of(extents, in_place())
    if len(edges) <= WINDOW:
        return plan(requests, edges, written)
    windows: defaultdict[int, list[int]] = defaultdict(list)
    offsets, nbytes, bound = [0] * len(requests), 0, 0
    for i, request in enumerate(requests):
        if request.users and request.users[0] // WINDOW == request.users[-1] // WINDOW:
            windows[request.users[0] // WINDOW].append(i)
        else:
            offsets[i] = nbytes
            nbytes += -(-request.nbytes // ALIGNMENT) * ALIGNMENT
    for window, group in windows.items():
        begin, place = window * WINDOW, {i: k for k, i in enumerate(group)}
        near = [[k - begin for k in each if k >= begin] for each in edges[begin : begin + WINDOW]]
        moved = [replace(requests[i], users=tuple([k - begin for k in requests[i].users])) for i in group]
        inside = [w for w in written if w.source in place and w.target in place]
        part = plan(moved, near, [InPlace(w.node - begin, place[w.source], place[w.target]) for w in inside])
        for i, offset in zip(group, part.offsets):
            offsets[i] = nbytes + offset
        nbytes += part.nbytes
        bound = max(bound, part.lower_bound)
    return Plan(tuple(offsets), nbytes, bound)
