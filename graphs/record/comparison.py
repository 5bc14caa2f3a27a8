"""Comparison of two recordings of one call: the first node, and the first thing about it, that differ."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from hiprt.allocator import Arena
from hiprt.caller import Caller
from hiprt.graphs.record.extents import Extent
from hiprt.graphs.record.node import Node
from hiprt.graphs.record.recording import Recording

__all__ = ["Change", "Recorded", "first_change"]

ADDRESS = struct.Struct("<Q")
ADDRESSES = ("dst", "src")  # the arguments of copies and fills that are addresses
Place = tuple[str, int, int]


class Recorded(NamedTuple):
    """What one call recorded.

    Attributes
    ----------
    recordings : list of Recording
        Its parts, in order.
    arguments : list of Extent
        Where its array arguments lie.
    """

    recordings: list[Recording]
    arguments: list[Extent]

    def nodes(self) -> Iterator[tuple[Recording, int]]:
        """Yield all nodes: the recording, and the node's index in it."""
        return ((recording, i) for recording in self.recordings for i in range(len(recording)))

    def place(self, recording: Recording, address: int) -> Place:
        """Return what an address in a recording stands for: the same for another recording of the same call.

        Places in the step's own memory are not told apart, since a plan may put a value anywhere.
        """
        for k, (start, end) in enumerate(self.arguments):
            if start <= address < end:
                return "argument", k, address - start
        memory = recording.memory
        for chunk in [] if memory is None else memory.chunks.values():
            if chunk.address <= address < chunk.address + chunk.nbytes:
                return "own", 0, 0
        return "address", 0, address


class Change(NamedTuple):
    """What differs between two recordings.

    Attributes
    ----------
    node : int
        The node's index in the step.
    name : str
        The node's name.
    caller : Caller or None
        The line that launched it, where that is known.
    what : str
        What it was, and what it is.
    """

    node: int
    name: str
    caller: Caller | None
    what: str

    def __str__(self) -> str:
        line = f", launched at {self.caller}" if self.caller else ""
        return f"node {self.node} ({self.name}){line}: {self.what}"


def first_change(before: Recorded, now: Recorded) -> Change | None:
    """Return the first difference between two recordings of calls with the same arguments; None if there is none.

    Intermediates and results may lie elsewhere, and so may the arrays that are passed as arguments.
    """
    # A pool may hand out other memory each time, and that makes other edges. So do flags that cut or wire otherwise.
    forms = [
        [(len(each), each.mode, isinstance(each.memory, Arena)) for each in one.recordings] for one in (before, now)
    ]
    has_edges = forms[0] == forms[1] and all(is_planned for _, _, is_planned in forms[0])
    for index, (old, new) in enumerate(itertools.zip_longest(before.nodes(), now.nodes())):
        what, node = "it was not launched before", new
        if new is None:
            what, node = "it is not launched any more", old
        elif old is not None:
            what = change(before, old, now, new, has_edges=has_edges)
        if what and node is not None:
            recording, i = node
            caller = recording.callers[i] if i < len(recording.callers) else None
            return Change(index, recording.node(i).name, caller, what)
    return None


def change(
    before: Recorded, old: tuple[Recording, int], now: Recorded, new: tuple[Recording, int], *, has_edges: bool
) -> str:
    """Describe the first difference between two nodes; empty if there is none."""
    mine, its = old[0].node(old[1]), new[0].node(new[1])
    if (mine.kind, mine.name) != (its.kind, its.name):
        return f"it was {mine.name}"
    if mine.function is not its.function:
        return "it was another kernel of this name"
    for name in ("grid", "block", "shared"):
        if getattr(mine, name) != getattr(its, name):
            return f"{name} {getattr(mine, name)} -> {getattr(its, name)}"
    for name, value in mine.arguments.items():
        given = its.arguments[name]
        addresses, plain = parts(mine, name, value)
        others, also_plain = parts(its, name, given)
        if plain != also_plain:
            return f"{name}: {shown(value)} -> {shown(given)}"
        for address, other in zip(addresses, others):
            if before.place(old[0], address) != now.place(new[0], other):
                return f"{name}: the memory at {address:#x} -> other memory, at {other:#x}"
    if has_edges and mine.dependencies != its.dependencies:
        return f"it waited for nodes {list(mine.dependencies)}, and waits for {list(its.dependencies)}"
    return ""


def parts(node: Node, name: str, value: Any) -> tuple[list[int], str]:
    """Take an argument apart: the addresses in it, and a text for everything else."""
    if node.is_foreign:
        # Nobody knows which numbers are addresses, so each may be one.
        words = value[: len(value) // 8 * 8] if isinstance(value, bytes) else ADDRESS.pack(value)
        return [word for (word,) in ADDRESS.iter_unpack(words)], value[len(words) :].hex() if words != value else ""
    if node.function is None:
        return ([value], "") if name in ADDRESSES else ([], repr(value))
    (argument,) = (each for each in node.function.arguments if each.name == name)
    if argument.access or argument.dtype == "address":
        return [value], ""
    if not argument.addresses:
        return [], repr(value)
    rest = bytearray(value)
    for at in argument.addresses:
        ADDRESS.pack_into(rest, at, 0)
    return [ADDRESS.unpack_from(value, at)[0] for at in argument.addresses], rest.hex()


def shown(value: Any) -> str:
    """Return a value for people."""
    return value.hex() if isinstance(value, bytes) else str(value)
