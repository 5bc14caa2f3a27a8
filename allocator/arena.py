"""Arenas: the intermediates of a kept step, recorded at provisional addresses and then laid out in one block.

While a step records, each request gets a range of addresses of its own, behind which there is no memory. When the
recording ends, it is known which nodes touch what, and the planner gives each request an offset in one block. The
addresses in the recorded launches are moved there, those that the kernels' declarations name and no others, and so are
the arrays that are still alive, the step's results. Sharing memory this way adds no edge to the graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import eq, not_

from hiprt import core
from hiprt.allocator.holder import Holder, PoolStats
from hiprt.allocator.planner import ALIGNMENT, InPlace, Interference, Outline, Plan, Request, plan
from hiprt.allocator.requests import Requests
from hiprt.buffer import Allocate, Buffer
from hiprt.errors import OutOfMemoryError
from hiprt.stream import Move, Stream

__all__ = ["Arena"]

Extent = tuple[int, int]
Outlined = tuple[bytes, Callable[[], Outline]]
# Provisional addresses lie above every address of 57 bits, so that a stray access faults.
PROVISIONAL = 1 << 58
SPACING = 256
WINDOW = 8192  # nodes planned at a time; a plan keeps as many bits for each of them
MOST_KNOWN = 64  # that are remembered


class Arena(Requests, Holder):
    """Memory of one step's intermediates.

    It cannot overflow: when its block is asked for, every request is known. If there is no memory for the block, the
    step raises and nothing of it is launched.

    Parameters
    ----------
    source : callable
        Where the blocks come from: a pool's `allocate`.
    name : str, optional
        Shown in reports.

    Attributes
    ----------
    chunks : dict
        Number to block; there is one for each part of the step that was recorded.
    plans : list of Plan
        How each block is shared.
    settled : sequence of Move
        What `settle` returned last.
    """

    def __init__(self, source: Allocate, name: str = "") -> None:
        super().__init__(source, name)
        self.shared = core.address(self.uses)
        self.plans: list[Plan] = []
        self.settled: Sequence[Move] = ()
        self.open(Buffer, self.shared, PROVISIONAL, SPACING)

    def settle(
        self,
        stream: Stream,
        outline: Callable[[Sequence[Extent]], Outlined],
    ) -> Sequence[Move]:
        """Lay out the requests since the last time in one block, and move the arrays that are alive.

        Parameters
        ----------
        stream : Stream
            The stream that the step is launched on.
        outline : callable
            Returns, for the (start, end) of the requests, what the nodes do with them: as bytes, the same for steps
            that differ in sizes only, and a function that returns the `Outline` that these stand for.

        Returns
        -------
        sequence of Move
            Where each request's addresses are now, ascending.

        Raises
        ------
        OutOfMemoryError
            There is no memory for the block; nothing has moved.
        """
        found, sizes, alive = self.found()
        if not sizes:
            return ()
        made = layout(sizes, outline(core.ffi.from_buffer("hiprt_range[]", found)), [i for i, _ in alive])
        block = self.source(max(made.nbytes, 1), stream)
        block.share(self.shared)
        self.plans.append(made)
        self.chunks[len(self.chunks)] = block
        self.settled = core.ffi.from_buffer("hiprt_move[]", self.moves(made.offsets, block.address))
        self.clear()
        for i, buffer in alive:
            buffer.rebase(block.address + made.offsets[i], block)
        return self.settled

    def abandon(self, stream: Stream) -> None:
        """Give the arrays that are alive memory of their own, though what they were to hold was never computed."""
        _, _, alive = self.found()
        self.clear()
        for _, buffer in alive:
            # Without memory the array keeps its provisional address, at which any access faults.
            with suppress(OutOfMemoryError):
                block = self.source(max(buffer.nbytes, 1), stream)
                buffer.rebase(block.address, block)

    def stats(self) -> PoolStats:
        """Return the arena's sizes."""
        nbytes = sum(block.nbytes for block in self.chunks.values())
        return PoolStats(nbytes, nbytes, nbytes)


def layout(sizes: Sequence[int], outlined: Outlined, results: Sequence[int]) -> Plan:
    """Plan the intermediates of one window of nodes at a time.

    Intermediates of different windows share nothing, and those that nodes of several windows use share with nobody.

    Parameters
    ----------
    sizes : sequence of int
        Bytes of each intermediate.
    outlined : (bytes, callable)
        As `Arena.settle` is given it.
    results : sequence of int
        The intermediates that are read after the step.
    """
    key, read = outlined
    known = known_steps.get((key, tuple(results)))
    if known is not None and known.fits(sizes):
        return known.interference.plan(sizes)
    outline = read()
    users, edges = list(outline.users), outline.dependencies or [[]]
    for i in results:
        # Whoever uses a result later comes behind the last node.
        users[i] = users[i] or (len(edges) - 1,)
    kept = set(results)
    requests = [Request(size, each, i in kept) for i, (size, each) in enumerate(zip(sizes, users))]
    if len(edges) > WINDOW:
        return by_windows(requests, outline)
    interference = Interference(requests, edges, outline.in_place)
    known_steps[key, tuple(results)] = Known(interference, requests, outline.in_place)
    for old in list(known_steps)[:-MOST_KNOWN]:
        known_steps.pop(old, None)
    return interference.plan(sizes)


class Known:
    """The interference of steps that differ in sizes only.

    Parameters
    ----------
    interference : Interference
    requests : sequence of Request
        The intermediates of the first of them.
    in_place : sequence of InPlace
        What may be written in place.
    """

    def __init__(self, interference: Interference, requests: Sequence[Request], in_place: Sequence[InPlace]) -> None:
        self.interference = interference
        self.sources = [source for _, source, _ in in_place]
        self.targets = [target for _, _, target in in_place]
        self.form = self.form_of([request.nbytes for request in requests])

    def form_of(self, sizes: Sequence[int]) -> tuple[list[bool], list[bool]]:
        """Return what the interference depends on of the sizes: which are zero, and which pairs in place are equal."""
        empty = list(map(not_, sizes)) if 0 in sizes else []
        size_of = sizes.__getitem__
        return empty, list(map(eq, map(size_of, self.sources), map(size_of, self.targets)))

    def fits(self, sizes: Sequence[int]) -> bool:
        """Whether the interference is that of intermediates of these sizes."""
        return len(sizes) == len(self.interference.uses) and self.form_of(sizes) == self.form


# By what `Arena.settle` is given, and the results.
known_steps: dict[tuple[bytes, tuple[int, ...]], Known] = {}


def by_windows(requests: Sequence[Request], outline: Outline) -> Plan:
    """Plan one window of nodes after the other."""
    edges, written = outline.dependencies, outline.in_place
    windows: defaultdict[int, list[int]] = defaultdict(list)
    offsets, heads, nbytes, bound = [0] * len(requests), list(range(len(requests))), 0, 0
    for i, request in enumerate(requests):
        if request.users and request.users[0] // WINDOW == request.users[-1] // WINDOW:
            windows[request.users[0] // WINDOW].append(i)
        else:
            offsets[i] = nbytes
            nbytes += -(-request.nbytes // ALIGNMENT) * ALIGNMENT
    for window, group in windows.items():
        begin, place = window * WINDOW, {i: k for k, i in enumerate(group)}
        near = [[k - begin for k in each if k >= begin] for each in edges[begin : begin + WINDOW]]
        moved = [requests[i]._replace(users=tuple([k - begin for k in requests[i].users])) for i in group]
        inside = [w for w in written if w.source in place and w.target in place]
        part = plan(moved, near, [InPlace(w.node - begin, place[w.source], place[w.target]) for w in inside])
        for i, offset, head in zip(group, part.offsets, part.heads):
            offsets[i], heads[i] = nbytes + offset, group[head]
        nbytes += part.nbytes
        bound = max(bound, part.lower_bound)
    sizes, uses = [request.nbytes for request in requests], [(request.users, request.is_result) for request in requests]
    return Plan(tuple(offsets), nbytes, bound, tuple(sizes), tuple(uses), tuple(heads))
