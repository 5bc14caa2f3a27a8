"""Moved arrays: where the arrays of a call lie (their placement), and whether a kept exec can be given others.

Other addresses are patched into the exec without recording again, as long as that cannot change an edge: every array
argument, old or new, lies alone in its memory.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from hiprt import objects
from hiprt.array import Array
from hiprt.graphs.launch.results import arrays_in
from hiprt.graphs.record.declarations import extents
from hiprt.graphs.record.extents import Extent, are_apart, coalesce
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Event

__all__ = ["Move", "Placement", "Placements", "retouch"]

MOST_PLACEMENTS = 32  # engines let a few sets of buffers take turns
NODE_BYTES = struct.calcsize("I")
native = objects.load("hiprt.graphs.native.moved_call")
placed, retouch = native.placed, native.retouch


class Move(NamedTuple):
    """How an exec is given arrays that lie elsewhere, as ``graphs/native/moved_call.c`` reads it.

    Attributes
    ----------
    nodes : bytes
        The nodes that use the arrays, each a ``uint32_t``.
    nbytes : int
        Size of their arguments.
    ranges : bytes
        What moves, each a ``hiprt_move``: first address, one past the last, and the new first address; ascending.
    event : Event
        What statistics are told of it, without the seconds.
    """

    nodes: bytes
    nbytes: int
    ranges: bytes
    event: Event

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes) // NODE_BYTES


class Placement:
    """Where the arrays of a call lie.

    Parameters
    ----------
    arrays : sequence of Array

    Attributes
    ----------
    extents : list of Extent
    is_free : bool or None
        Whether the exec can be given the arrays with the edges that it has; None until that was asked.
    moves : dict
        The move that leads here, by the placement that the exec carries before it.
    """

    __slots__ = ("extents", "is_free", "moves")

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.extents = [array.extent for array in arrays]
        self.is_free: bool | None = None
        self.moves: dict[Placement, Move] = {}


class Placements:
    """The placements that the calls of one signature have had.

    Parameters
    ----------
    arrays : sequence of Array
        The array arguments of the call that was recorded.
    result : object
        What the function returned.
    names : sequence of str
        What the arrays are called in an explanation.
    captured : sequence of Extent
        Memory that the function uses besides its arguments, also where an argument lies there.

    Attributes
    ----------
    here : Placement
        The placement that the exec carries.
    """

    def __init__(
        self, arrays: Sequence[Array], result: Any, names: Sequence[str] = (), captured: Sequence[Extent] = ()
    ) -> None:
        self.arrays = list(arrays)
        self.captured = captured
        self.names = names
        self.result = result
        self.others: list[Extent] | None = None  # what the step uses besides its arguments
        self.is_movable = False
        self.seen: dict[bytes, Placement] = {}  # by the addresses, 64-bit words
        self.here = self.of(arrays)

    def of(self, arrays: Sequence[Array]) -> Placement:
        """Return where the arrays of a call lie: `here`, if the exec carries them."""
        addresses = struct.pack(f"{len(arrays)}Q", *[array.address for array in arrays])
        found = self.seen.get(addresses)
        if found is None:
            if len(self.seen) >= MOST_PLACEMENTS:
                self.seen = {key: each for key, each in self.seen.items() if each is self.here}
                self.here.moves.clear()
            found = self.seen[addresses] = Placement(arrays)
        return found

    def find(self, args: tuple[Any, ...]) -> Placement | None:
        """Return where the arguments of a call lie, if they are arrays of the same forms and have lain there before."""
        addresses = placed(self.arrays, args)
        return None if addresses is None else self.seen.get(addresses)

    def can_move(self, recording: Recording, target: Placement) -> bool:
        """Whether the exec of a recording can be given arguments that lie there with the edges that it has."""
        if self.others is None:
            own = set(self.here.extents)
            used = (extent for extent in extents(recording) if extent not in own)
            self.others = coalesce([*used, *self.captured])
            # Where other code's arguments hold addresses of the arrays is not known.
            self.is_movable = not recording.foreign and self.are_alone()
        if target.is_free is None:
            target.is_free = self.is_movable and are_apart(target.extents) and not self.is_in_use(target.extents)
        return target.is_free

    def are_alone(self) -> bool:
        """Whether the recorded arguments share memory with nothing: no result, no other argument, nothing else."""
        buffers = [array.buffer for array in self.arrays]
        results = arrays_in(self.result)
        if results is None or any(array.buffer in buffers for array in results):
            return False
        return are_apart(self.here.extents) and not self.is_in_use(self.here.extents)

    def is_in_use(self, extents: Sequence[Extent]) -> bool:
        """Whether the step uses any of this memory for something other than its arguments."""
        others = self.others
        assert others is not None
        for start, end in extents:
            at = bisect.bisect_left(others, (end, 0))
            if at and others[at - 1][1] > start:
                return True
        return False

    def move_to(self, recording: Recording, target: Placement, step: str) -> Move:
        """Return how the exec of a recording is given arguments that lie there; `step` is the step's name."""
        move = target.moves.get(self.here)
        if move is None:
            before, after = self.here.extents, target.extents
            moved = [i for i, (mine, its) in enumerate(zip(before, after)) if mine != its]
            nodes = sorted({node for i in moved for node in recording.users(*before[i])})
            nbytes = sum(map(recording.node_bytes, nodes))
            ranges = sorted([(*before[i], after[i][0]) for i in moved])
            reason = f"arrays moved, {len(nodes)} nodes"
            name = self.names[moved[0]] if self.names else f"argument {moved[0]}"
            difference = f"{name}: {before[moved[0]][0]:#x} -> {after[moved[0]][0]:#x}"
            move = Move(
                struct.pack(f"{len(nodes)}I", *nodes),
                nbytes,
                struct.pack(f"{3 * len(ranges)}Q", *chain.from_iterable(ranges)),
                Event(step, "patch", reason, recording.key, difference),
            )
            target.moves[self.here] = move
        return move

    def set_apart(self, recording: Recording) -> None:
        """Let a recording know which of its memory lies in the arguments."""
        for array in self.arrays:
            start, end = array.buffer.address, array.buffer.address + array.buffer.nbytes
            recording.set_apart(array, is_shared=self.is_in_use([(start, end)]))

    def carry(self, arrays: list[Array], target: Placement) -> None:
        """Note that the exec carries these arrays now; the list is nobody else's."""
        self.arrays, self.here = arrays, target
