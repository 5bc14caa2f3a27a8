"""Statistics: which rungs were taken and why, of each step and of the whole process."""

from __future__ import annotations

import atexit
import json
import sys
import time
import weakref
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from hiprt import core, objects
from hiprt.flags import RUNG_NAMES, flags

__all__ = ["RUNG_NAMES", "Event", "Stats", "explain", "stats"]

KEPT_EVENTS = 256
native = objects.load("hiprt.graphs.native.stats")


class Event(NamedTuple):
    """One time that a rung other than replay was taken, or that a step was split.

    Attributes
    ----------
    step : str
        The step's name.
    rung : str
        The rung that was taken; ``split`` where the recording was cut around work that cannot be a node.
        ``capture`` where a function of torch was captured again.
    reason : str
        Why not replay.
    key : int
        The hash of the topology key; 0 when nothing was recorded.
    difference : str
        The argument of the step that differs, as it was and as it is, and the first node and argument that changed,
        where that is the reason. For a split, the line that caused it, the array, and what would avoid it.
    seconds : float
        What taking the rung cost on the host.
    remedy : str
        What would avoid it, where an argument of the step is the reason. ``HIPRT_GRAPH_EXPLAIN`` prints it once for
        each step.
    """

    step: str
    rung: str
    reason: str
    key: int = 0
    difference: str = ""
    seconds: float = 0.0
    remedy: str = ""

    def __str__(self) -> str:
        parts = [f"{self.step} [{self.key:016x}] {self.rung}: {self.reason}", self.difference]
        return "; ".join(part for part in parts if part) + f" ({self.seconds * 1e6:.0f} us)"


@dataclass
class Stats:
    """The counts of one step.

    Attributes
    ----------
    name : str
        The step's name.
    counted : dict
        How often each rung of the ladder was taken, without the replays that `graphs.native.armed` counts.
    replays : uint64_t *
        The number of those, one of them a call that the C core launched again without Python.
    reasons : Counter
        How often a rung other than replay was taken for each reason, and how often else happened what is worth knowing.
    patched : int
        Number of nodes patched.
    changed : int
        Number of nodes that carried other arguments in the nearest exec, summed over the times that no exec carried
        what was recorded.
    last : tuple of Event and object, or None
        The event that was counted last, and what says its difference.
    signatures : int
        Number of calls that are kept, to be launched again without the function.
    nbytes : int
        Bytes of device memory that those take (``HIPRT_GRAPH_KEEP_MB``).
    advised : set of str
        The remedies that were printed.
    events : deque
        The last that the process counted, each as it is in `last`.
    """

    events: ClassVar[deque[tuple[Event, object]]] = deque(maxlen=KEPT_EVENTS)
    name: str
    counted: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RUNG_NAMES, 0))
    replays: Any = field(default_factory=lambda: core.ffi.new("uint64_t *"), repr=False)
    reasons: Counter[str] = field(default_factory=Counter)
    patched: int = 0
    changed: int = 0
    last: tuple[Event, object] | None = None
    signatures: int = 0
    nbytes: int = 0
    advised: set[str] = field(default_factory=set, repr=False)

    @property
    def rungs(self) -> dict[str, int]:
        """How often each rung of the ladder was taken until now."""
        return {**self.counted, "replay": self.counted["replay"] + int(self.replays[0])}

    def count(self, event: Event, difference: object = None) -> None:
        """Count an event, and print it if ``HIPRT_GRAPH_EXPLAIN`` is set.

        Parameters
        ----------
        event : Event
        difference : object, optional
            What says the event's difference, as text, when somebody asks for it.
        """
        native.count(self, event, difference)
        if flags.graph_explain:
            print(f"hiprt: {told(event, difference)}", file=sys.stderr)
            if event.remedy and event.remedy not in self.advised:
                self.advised.add(event.remedy)
                print(f"hiprt:   {event.remedy}", file=sys.stderr)

    @property
    def latest(self) -> Event | None:
        """The event that was counted last."""
        return None if self.last is None else told(*self.last)

    def merge(self, other: Stats) -> None:
        """Add another step's counts."""
        for rung, count in other.rungs.items():
            self.counted[rung] += count
        self.reasons.update(other.reasons)
        self.patched += other.patched
        self.changed += other.changed
        self.signatures += other.signatures
        self.nbytes += other.nbytes

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as plain values."""
        return {
            "rungs": self.rungs,
            "reasons": dict(self.reasons),
            "patched": self.patched,
            "changed": self.changed,
            "signatures": self.signatures,
            "nbytes": self.nbytes,
        }


live: weakref.WeakSet[Any] = weakref.WeakSet()
ended: dict[str, Stats] = {}
started = time.time()


def told(event: Event, difference: object) -> Event:
    """Return an event with what says its difference as text; None says it already."""
    return event if difference is None else event._replace(difference=str(difference))


def register(owner: Any, counts: Stats) -> None:
    """Let the process's statistics include a ladder's counts, while it lives and after."""
    live.add(owner)
    weakref.finalize(owner, end, counts).atexit = False


def end(counts: Stats) -> None:
    """Keep the counts of a ladder that is gone, and with it what it kept."""
    counts.signatures = counts.nbytes = 0
    ended.setdefault(counts.name, Stats(counts.name)).merge(counts)


def stats() -> dict[str, dict[str, Any]]:
    """Return the counts of every step of the process, by name.

    Returns
    -------
    dict
        Name to ``{"rungs": …, "reasons": …, "patched": …, "changed": …, "signatures": …, "nbytes": …}``; steps of one
        name are added up.
    """
    sums: dict[str, Stats] = {}
    for counts in [*ended.values(), *(owner.stats for owner in live)]:
        sums.setdefault(counts.name, Stats(counts.name)).merge(counts)
    return {name: counts.as_dict() for name, counts in sorted(sums.items())}


def explain() -> list[Event]:
    """Return the last 256 times that a rung other than replay was taken or a step was split, oldest first."""
    return [told(*each) for each in Stats.events]


def report() -> None:
    """Write what ``HIPRT_GRAPH_STATS`` asks for, at exit: a table for 1, else a JSON file."""
    wanted = flags.graph_stats
    if wanted in ("", "0") or core.lib.hiprt_is_forked:
        return
    counts = stats()
    if wanted != "1":
        Path(wanted).write_text(json.dumps({"seconds": time.time() - started, "steps": counts}, indent=2))
        return
    width = max((len(name) for name in counts), default=4)
    lines = ["hiprt: " + "step".ljust(width) + "".join(rung.rjust(13) for rung in RUNG_NAMES)]
    for name, row in counts.items():
        lines.append("hiprt: " + name.ljust(width) + "".join(str(row["rungs"][rung]).rjust(13) for rung in RUNG_NAMES))
        lines += [f"hiprt:   {count} x {reason}" for reason, count in row["reasons"].items()]
        if row["signatures"]:
            lines.append(f"hiprt:   keeps {row['signatures']} calls, which take {row['nbytes']:,} bytes")
    print("\n".join(lines), file=sys.stderr)


atexit.register(report)
