"""The calls that a step keeps, by signature, no more than `HIPRT_GRAPH_KEYS` and `HIPRT_GRAPH_KEEP_MB` allow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from hiprt.flags import flags
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.kept_call import KeptCall
from hiprt.graphs.launch.ladder import Ladder

__all__ = ["KeptCalls"]


class KeptCalls(OrderedDict[Hashable, KeptCall]):
    """Kept calls by signature, the one that was launched last behind the others.

    Parameters
    ----------
    ladder : Ladder
        The step's, whose statistics count the calls. It is locked while calls come and go.

    Attributes
    ----------
    moving : KeptCall or None
        What arrays at other addresses were patched into last, of the calls with nothing but arrays by position.
    """

    def __init__(self, ladder: Ladder) -> None:
        super().__init__()
        self.ladder = ladder
        self.moving: KeptCall | None = None

    def keep(self, signature: Hashable, kept: KeptCall) -> None:
        """Keep a call in the place of the one that has its signature, and drop the oldest that are too many."""
        self.drop(signature)
        self[signature] = kept
        kept.signature = signature
        self.count(kept, 1)
        stats, bound = self.ladder.stats, flags.graph_keep_mb << 20
        while len(self) > flags.graph_keys or (bound and stats.nbytes > bound and len(self) > 1):
            if len(self) <= flags.graph_keys:
                stats.reasons["dropped: the calls that are kept take more than HIPRT_GRAPH_KEEP_MB"] += 1
            for exec_ in self.drop(next(iter(self))):
                self.ladder.execs.drop(exec_)

    def drop(self, signature: Hashable) -> list[Exec]:
        """Keep a call no longer, if it is kept, and return the execs that no kept call holds any more."""
        kept = self.pop(signature, None)
        if kept is None:
            return []
        self.count(kept, -1)
        if self.moving is kept:
            self.moving = None
        return kept.release()

    def count(self, kept: KeptCall, times: int) -> None:
        """Count a call that is kept from now on (1), or no more (-1)."""
        self.ladder.stats.signatures += times
        self.ladder.stats.nbytes += times * kept.nbytes
