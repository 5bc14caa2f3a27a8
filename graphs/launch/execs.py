"""Execs of one step, by topology: the slots that launches take turns in, which the C core keeps (ladder.h)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from hiprt import core
from hiprt.flags import flags
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.moved_arrays import Move
from hiprt.graphs.record.recording import Recording

__all__ = ["Execs"]

logger = logging.getLogger("hiprt.graphs")


class Execs:
    """The executable graphs of one step.

    Parameters
    ----------
    name : str
        The step's name, used in messages.

    Attributes
    ----------
    known : dict
        The exec behind each ``hiprt_exec *`` of the core's ladder.
    choice : hiprt_choice *
        How the last search ended (ladder.h).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.core = core.create("hiprt_ladder", core.lib.hiprt_ladder_release, core.lib.hiprt_ladder_create)
        self.address = core.address(self.core)
        self.choice = core.ffi.new("hiprt_choice *")
        self.out = core.ffi.new("hiprt_exec **")
        self.known: dict[Any, Exec] = {}
        self.version = 0
        self.evicted = 0

    def __iter__(self) -> Iterator[Exec]:
        return iter(list(self.known.values()))

    def find(self, recording: Recording, stream: Any, rules: Any) -> Exec:
        """Find an exec that carries a recording's arguments, or make one do so; `choice` says how.

        `settle` comes next.

        Parameters
        ----------
        recording : Recording
        stream : hiprt_stream *
        rules : hiprt_rules *

        Raises
        ------
        HipError
            A graph call failed. The execs of the topology must be discarded (G8).
        """
        choice = self.choice
        status = core.lib.hiprt_ladder_find(self.core, recording.core, stream, rules, choice)
        if status:
            raise core.failure(status)
        found = self.known.get(choice.exec)
        return self.add(choice.exec, recording, rules) if found is None else found

    def begin(self, recording: Recording, device: int, rules: Any) -> Any:
        """Begin to make an exec of a recording on another thread; `take` waits for it.

        Returns
        -------
        hiprt_successor *
        """
        out = core.ffi.new("hiprt_successor **")
        core.call(core.lib.hiprt_ladder_begin(recording.core, device, rules, out))
        return core.owned(out, core.lib.hiprt_successor_release)

    def take(self, begun: Any, recording: Recording, rules: Any) -> Exec:
        """Wait for what `begin` began, and keep it.

        Raises
        ------
        HipError
            The exec could not be made.
        """
        core.ffi.gc(begun, None)  # it ends here
        core.call(core.lib.hiprt_ladder_take(self.core, begun, rules, self.out))
        made = self.add(self.out[0], recording, rules)
        self.settle()
        return made

    def add(self, pointer: Any, recording: Recording, rules: Any) -> Exec:
        """Return the exec behind a pointer that the ladder has now, and which carries a recording's arguments."""
        try:
            made = self.known[pointer] = Exec.of(pointer, recording, rules)
        except BaseException:
            core.lib.hiprt_ladder_drop(self.core, pointer)
            raise
        return made

    def move(self, exec_: Exec, rules: Any, move: Move) -> Exec | None:
        """Wait for an exec and move memory of its nodes, within the update budget (G7).

        Parameters
        ----------
        exec_ : Exec
        rules : hiprt_rules *
        move : Move

        Returns
        -------
        Exec or None
            The exec itself; its successor, in which nothing has moved yet and which carries older arguments, where the
            move would overspend; None where it is more than any exec may take, or where several calls hold the exec.

        Raises
        ------
        HipError
            A node refused its arguments, or the successor could not be made. The exec must be discarded (G8).
        """
        nodes = core.ffi.from_buffer("uint32_t[]", move.nodes)
        ranges = core.ffi.from_buffer("hiprt_move[]", move.ranges)
        status = core.lib.hiprt_ladder_move(
            self.core, exec_.core, rules, len(nodes), nodes, move.nbytes, len(ranges), ranges, self.out
        )
        if status:
            raise core.failure(status)
        found = self.out[0]
        if found == exec_.core:
            return exec_
        successor = self.add(found, exec_.recording, rules) if found else None
        self.settle()
        return successor

    def settle(self) -> None:
        """Let go of the execs that the ladder has dropped; each is destroyed when its last launch has finished."""
        version = core.lib.hiprt_ladder_version(self.core)
        if version == self.version:
            return
        self.version = version
        count = core.lib.hiprt_ladder_execs(self.core, 0, core.ffi.NULL)
        if count != len(self.known):
            out = core.ffi.new("hiprt_exec *[]", max(1, count))
            core.lib.hiprt_ladder_execs(self.core, count, out)
            self.known = {each: self.known[each] for each in core.ffi.unpack(out, count) if each in self.known}
        evicted, bound = core.lib.hiprt_ladder_evicted(self.core), 2 * flags.graph_keys
        if self.evicted < bound <= evicted:
            logger.warning(
                "step %s: %d topologies evicted, so graphs are made again and again; raise HIPRT_GRAPH_KEYS (%d) "
                "or pad shapes to fewer buckets",
                self.name, evicted, flags.graph_keys,
            )  # fmt: skip
        self.evicted = evicted

    def drop(self, exec_: Exec) -> None:
        """Take out one exec; it is destroyed when its last launch has finished."""
        core.lib.hiprt_ladder_drop(self.core, exec_.core)
        self.settle()

    def discard(self, key: int) -> None:
        """Take out every exec of a topology."""
        core.lib.hiprt_ladder_discard(self.core, key)
        self.settle()

    def clear(self) -> None:
        """Take out all."""
        core.lib.hiprt_ladder_clear(self.core)
        self.settle()
