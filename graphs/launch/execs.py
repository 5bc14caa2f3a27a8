"""The execs of one step, by topology: the slots that launches take turns in."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterator

from hiprt.flags import flags
from hiprt.graphs.launch.exec import Exec
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
    by_key : OrderedDict
        Hash of the topology key to execs, least recently used first; at most ``HIPRT_GRAPH_KEYS`` topologies.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_key: OrderedDict[int, list[Exec]] = OrderedDict()
        self.seen: dict[int, deque[int]] = {}
        self.evicted = 0

    def __iter__(self) -> Iterator[Exec]:
        for execs in list(self.by_key.values()):
            yield from execs

    def of(self, recording: Recording) -> list[Exec]:
        """Return the execs of a recording's topology, compared by content (G3)."""
        execs = self.by_key.get(recording.key)
        if execs is None:
            return []
        self.by_key.move_to_end(recording.key)
        return [exec_ for exec_ in execs if exec_.recording.same_key(recording)]

    def comes_back(self, recording: Recording) -> bool:
        """Note a recording's arguments; whether its topology had them before, as buffers that take turns do."""
        seen = self.seen.setdefault(recording.key, deque(maxlen=2 * flags.graph_slots))
        arguments = recording.arguments
        if arguments in seen:
            return True
        seen.append(arguments)
        return False

    def add(self, exec_: Exec) -> None:
        """Keep a new exec, and drop the topologies used longest ago that are over the bound."""
        self.by_key.setdefault(exec_.recording.key, []).append(exec_)
        while len(self.by_key) > flags.graph_keys:
            key, execs = next(iter(self.by_key.items()))
            if exec_ in execs:
                return
            self.discard(key)
            self.seen.pop(key, None)
            self.evicted += 1
            if self.evicted == 2 * flags.graph_keys:
                logger.warning(
                    "step %s: %d topologies evicted, so graphs are made again and again; raise HIPRT_GRAPH_KEYS (%d) "
                    "or pad shapes to fewer buckets",
                    self.name, self.evicted, flags.graph_keys,
                )  # fmt: skip

    def drop(self, exec_: Exec) -> None:
        """Take out one exec; it is destroyed when its last launch has finished."""
        for key, execs in list(self.by_key.items()):
            if exec_ in execs:
                execs.remove(exec_)
                if not execs:
                    del self.by_key[key]

    def discard(self, key: int) -> None:
        """Take out every exec of a topology."""
        self.by_key.pop(key, None)

    def clear(self) -> None:
        """Take out all."""
        self.by_key.clear()
