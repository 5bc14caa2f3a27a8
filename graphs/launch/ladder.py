"""The ladder: launch a recording by the first rung that serves.

    replay       an exec already carries the recording's arguments
    patch        the parameters of the nodes that differ are set in an exec
    update       hipGraphExecUpdate gives an exec a graph of the new arguments
    instantiate  an exec is made
    eager        a graph call failed (G8), or graphs are off: the nodes are launched one by one

Patch and update need an exec without a launch in flight (G2) and spend its update budget (G7).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from typing import Any
from weakref import ref

from hiprt import core, fork
from hiprt.allocator import Pool, default_pool
from hiprt.array import Array
from hiprt.caller import Caller
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.flags import RUNG_NAMES, flags
from hiprt.graphs.arguments import Why
from hiprt.graphs.captured_pointers import Pointers, pointing
from hiprt.graphs.launch import allowed_rungs
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.execs import Execs
from hiprt.graphs.launch.kept_call import KeptCall
from hiprt.graphs.launch.moved_arrays import Placement, retouch
from hiprt.graphs.launch.part import Part
from hiprt.graphs.launch.timeline import mark, observe, trace
from hiprt.graphs.launch.trust import distrust
from hiprt.graphs.launch.verify import Mismatch, launch_verified
from hiprt.graphs.record.argument_difference import ArgumentDifference
from hiprt.graphs.record.captured import capture
from hiprt.graphs.record.declarations import why_once
from hiprt.graphs.record.dump import dump
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Event, Stats, register
from hiprt.stream import Stream

__all__ = ["Ladder"]

logger = logging.getLogger("hiprt.graphs")

CHOSEN = {getattr(core.lib, f"HIPRT_{name.upper()}"): name for name in RUNG_NAMES}  # by the core's number
MANY = 10  # instantiates of one step, at which it is likely that each token makes another graph


class Ladder:
    """Launches the recordings of one step, and keeps the execs that were made for it.

    Parameters
    ----------
    name : str
        The step's name, used in statistics and messages.

    Attributes
    ----------
    stats : Stats
    execs : Execs
    memory : Pool
        Where the intermediates of steps that are recorded each time live; kept calls have memory of their own.
    many : int
        At how many instantiates a warning comes; 0 for never.
    topologies : int
        How often a recording had a topology of which there was no exec.
    splits : dict
        What is said of the splits at a line of the program, by line and reason.
    has_foreign : bool
        Whether other code has put work on the step's stream, or was given its handle, while it recorded.
    lock : RLock
        Held while a thread records, and from the choice of an exec to its launch, so that no other thread patches it in
        between (G12).
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.stats = Stats(name)
        self.execs = Execs(name)
        self.latest: Callable[[], Exec | None] = lambda: None  # the exec that was launched last, while it lives
        self.memory = Pool(default_pool.allocate, name)
        self.user_keys: dict[Hashable, Recording] = {}
        self.many = MANY
        self.topologies = 0
        self.splits: dict[tuple[Caller | None, str], str] = {}
        self.rules: Any = None  # those that `rules_on` returned last
        self.rules_address = 0
        self.has_foreign = False
        # Returns what lets go of the calls that the step keeps; None once the step is gone.
        self.letting_go: Callable[[], Callable[[], None] | None] = lambda: None
        self.lock = fork.rlock()
        register(self, self.stats)

    capture = staticmethod(capture)

    def launch(
        self,
        recording: Recording,
        stream: Stream,
        *,
        key: Hashable = None,
        why: Why | None = None,
        slots: int | None = None,
    ) -> Exec | None:
        """Launch a recording by the first rung that serves.

        Parameters
        ----------
        recording : Recording
        stream : Stream
            Must not record.
        key : hashable, optional
            The caller's name of this topology. It is checked, not trusted.
        why : callable, optional
            Returns what the step was given that it was not given before, which says why the rung is not replay.
        slots : int, optional
            The most execs that recordings of the topology may take turns in; ``HIPRT_GRAPH_SLOTS`` by default.

        Returns
        -------
        Exec or None
            What was launched; None when the nodes ran eagerly.

        Raises
        ------
        UndefinedOutputsError
            Something failed, and some of the nodes may have run; none is run again.
        HipError
            The nodes could not be launched eagerly either.
        """
        with self.lock:
            if key is not None:
                self.check_user_key(key, recording)
            observe(self.name, recording, stream)
            start = time.perf_counter()
            if not allowed_rungs.allows(stream.device, "instantiate"):
                self.run_eagerly(recording, stream, allowed_rungs.why_no_graph(stream.device))
                return None
            try:
                exec_, rung = self.find(recording, stream, why, slots or flags.graph_slots)
                mismatch = self.start(exec_, stream)
            except HipError as error:
                self.execs.discard(recording.key)
                self.fall(error, stream)
                self.run_eagerly(recording, stream, str(error))
                return None
            if mismatch is not None:
                self.execs.discard(recording.key)
                self.disagree(recording, mismatch)
                return None
            trace(self.stats, rung, start, recording, stream)
            return exec_

    def let_go(self) -> None:
        """Drop all execs and recordings, and with them the work of other code that they know."""
        with self.lock:
            let_go = self.letting_go()
            if let_go is not None:
                let_go()
            self.user_keys.clear()
            self.execs.clear()

    def begin(self, recording: Recording, stream: Stream) -> Part:
        """Begin to make an exec of a recording, which `take` waits for; the device's rungs allow it."""
        rules, _ = allowed_rungs.rules(stream.device, flags.graph_slots)
        dump(recording, self.name)
        return Part(recording, self.execs.begin(recording, stream.device.index, rules), rules)

    def take(self, part: Part) -> Exec:
        """Wait for what `begin` began, and keep it.

        Raises
        ------
        HipError
            The exec could not be made.
        """
        start = time.perf_counter()
        exec_ = self.execs.take(part.successor, part.recording, part.rules)
        self.topologies += 1
        waited = time.perf_counter() - start
        self.stats.count(Event(self.name, "instantiate", "prepared for calls to come", part.recording.key, "", waited))
        return exec_

    def find(self, recording: Recording, stream: Stream, why: Why | None, slots: int) -> tuple[Exec, str]:
        """Return an exec that carries the recording's arguments, and the rung that led to it."""
        rules, refused = allowed_rungs.rules(stream.device, slots)
        exec_, choice = self.execs.find(recording, stream.core, rules), self.execs.choice
        rung = CHOSEN[choice.rung]
        if rung == "replay":
            self.stats.counted["replay"] += 1
            return exec_, rung
        before, exec_.recording = exec_.recording, recording
        self.stats.changed += choice.changed
        self.topologies += choice.is_new
        if choice.waited:
            self.stats.reasons[f"waited: all {choice.waited} slots in flight"] += 1
        self.note_replaced(choice.replaced)
        if before is recording:  # it is new here
            difference: object = self.difference(recording)
        else:
            difference = before.difference(recording, choice.first) if choice.differing else ""
        self.execs.settle()
        if rung == "patch":
            self.stats.patched += choice.differing
        elif rung == "instantiate":
            if refused:
                self.stats.reasons[refused] += 1
            dump(recording, self.name)
        reason = core.ffi.string(choice.reason).decode()
        event = Event(self.name, rung, reason, recording.key, "", choice.seconds)
        self.stats.count(*because(why, event, difference))
        if rung == "instantiate" and self.stats.counted[rung] == self.many:
            warn_of_many(self.name, self.many, reason, str(difference), why)
        return exec_, rung

    def note_replaced(self, count: int) -> None:
        """Count execs whose place their successors took."""
        if count:
            self.stats.reasons["replaced: update budget spent"] += count

    def difference(self, recording: Recording) -> object:
        """Describe how a recording differs from what was launched before it."""
        before = self.latest()
        if before is None:
            before = max(self.execs, key=lambda exec_: exec_.launched, default=None)
        if before is None:
            return ""
        if not before.recording.same_key(recording):
            return before.recording.first_other(recording)
        count, _, first = before.recording.changed(recording)
        return before.recording.difference(recording, first) if count else ""

    def start(self, exec_: Exec, stream: Stream) -> Mismatch | None:
        """Launch; under ``HIPRT_GRAPH_VERIFY`` eagerly as well, and compare."""
        self.latest = ref(exec_)
        if flags.graph_verify:
            why_not = why_once(exec_.recording)
            if not why_not:
                return launch_verified(exec_, stream)
            reason = f"verify: not compared: {why_not}"
            if not self.stats.reasons[reason]:
                logger.warning("step %s: %s", self.name, reason)
            self.stats.reasons[reason] += 1
        if not flags.graph_trace:
            exec_.launch(stream)
            return None
        mark(stream)
        exec_.launch(stream)
        mark(stream)
        return None

    def run_eagerly(self, recording: Recording, stream: Stream, reason: str) -> None:
        """Launch the nodes one by one, and say why, once for each reason."""
        if not self.stats.reasons[f"eager: {reason}"]:
            logger.warning("step %s runs eagerly: %s", self.name, reason)
        start = time.perf_counter()
        mark(stream)
        recording.run(stream)
        mark(stream)
        seconds = time.perf_counter() - start
        self.stats.count(Event(self.name, "eager", reason, recording.key, "", seconds))
        trace(self.stats, "eager", start, recording, stream)

    def repeat(self, exec_: Exec, stream: Stream, rung: str) -> bool:
        """Launch an exec again as it is, behind `lock`; False where its nodes ran eagerly instead.

        Raises
        ------
        UndefinedOutputsError
            Something failed, and some of the nodes may have run; none is run again.
        HipError
            The nodes could not be launched eagerly either.
        """
        start = time.perf_counter()
        try:
            mismatch = self.start(exec_, stream)
        except HipError as error:
            self.replace(exec_, stream, error)
            return False
        if mismatch is not None:
            self.execs.drop(exec_)
            self.disagree(exec_.recording, mismatch)
            return False
        if rung == "replay":
            self.stats.counted["replay"] += 1
        if flags.graph_trace:
            trace(self.stats, rung, start, exec_.recording, stream)
        return True

    def replace(self, exec_: Exec, stream: Stream, error: HipError) -> None:
        """Discard an exec that could not be launched, and run its nodes if none of them may have run (G8)."""
        with self.lock:
            self.execs.drop(exec_)
            self.fall(error, stream)
            self.run_eagerly(exec_.recording, stream, str(error))

    def move(self, kept: KeptCall, arrays: list[Array], target: Placement, stream: Stream) -> bool:
        """Patch arrays at other addresses into a kept call's exec, behind `lock`; False where it must be recorded.

        Raises
        ------
        HipError
            A node refused them; the exec must be discarded (G8).
        """
        rules, old = self.rules_on(stream), kept.exec
        if old is None or not rules.rungs & allowed_rungs.RUNGS["patch"]:
            return False
        if not kept.placements.can_move(old.recording, target):
            return False
        start = time.perf_counter()
        move = kept.placements.move_to(old.recording, target, self.name)
        exec_ = self.execs.move(old, rules, move)
        if exec_ is None:
            return False
        if exec_ is not old:
            self.note_replaced(1)
            kept.segments = [exec_]  # it comes first: what a failed patch leaves is discarded
            exec_.patch(old.recording)
            exec_.move(move.nodes, move.ranges)
        if not retouch(exec_.address, arrays):
            kept.placements.set_apart(exec_.recording)
            retouch(exec_.address, arrays)
        kept.placements.carry(arrays, target)
        self.stats.patched += move.size
        self.stats.count(move.event._replace(seconds=time.perf_counter() - start))
        return True

    def bounds(self, kept: KeptCall, stream: Stream) -> tuple[Any, ...] | None:
        """Return by what a kept call's exec is patched without Python (``native/moved_call.c``), if it may be."""
        rules = self.rules_on(stream)
        if flags.graph_explain or not rules.rungs & allowed_rungs.RUNGS["patch"]:
            return None
        return self.lock, self.stats, kept.placements, self.execs.address, self.rules_address, rules

    def rules_on(self, stream: Stream) -> Any:
        """Return what a launch may do; `rules_address` is its address then."""
        rules, _ = allowed_rungs.rules(stream.device, flags.graph_slots)
        if rules is not self.rules:
            self.rules, self.rules_address = rules, core.address(rules)
        return rules

    def point(self, exec_: Exec, pointers: Pointers, words: bytearray, stream: Stream) -> bool | None:
        """Patch an exec whose recording names memory that begins elsewhere, and launch it, behind `lock`.

        Parameters
        ----------
        exec_ : Exec
            What was launched last.
        pointers : Pointers
            By which its recording was pointed.
        words : bytearray
            Where each memory begins, as 64-bit words.
        stream : Stream

        Returns
        -------
        bool or None
            True; False where its nodes ran eagerly instead; None where nothing has happened: `launch` finds the rung.

        Raises
        ------
        UndefinedOutputsError
            Something failed, and some of the nodes may have run; none is run again.
        HipError
            The nodes could not be launched eagerly either.
        """
        if flags.graph_verify or flags.graph_trace:
            return None
        self.rules_on(stream)
        found = pointing.point(
            self.execs.address, exec_.address, pointers.address, words, stream.address, self.rules_address
        )
        if found is None:
            return None
        try:
            if isinstance(found, int):
                raise core.failure(found)
            count, reason, key, seconds, first = found
            stats = self.stats
            stats.changed += count
            stats.patched += count
            stats.count(Event(self.name, "patch", reason, key, "", seconds), ArgumentDifference(*first))
            exec_.launch(stream)
        except HipError as error:
            self.replace(exec_, stream, error)
            return False
        return True

    def disagree(self, recording: Recording, mismatch: Mismatch) -> None:
        """Count and report that graph and eager differ; the eager results are in memory."""
        logger.error("step %s: %s", self.name, mismatch)
        self.stats.count(Event(self.name, "eager", str(mismatch), recording.key))

    def fall(self, error: HipError, stream: Stream) -> None:
        """Let a failed graph call be followed by an eager run, unless the nodes may have run already (G8).

        Raises
        ------
        UndefinedOutputsError
            The error, where it says so.
        """
        if isinstance(error, UndefinedOutputsError):
            self.stats.reasons[f"undefined: {error}"] += 1
            raise error
        # A device that was seen to lose a change gets no more of them.
        if error.code == core.lib.HIPRT_E_STALE:
            logger.error("%s: no more patches and updates on device %d", error, stream.device.index)
            distrust(stream.device, ("patch", "update"))

    def check_user_key(self, key: Hashable, recording: Recording) -> None:
        """Compare a recording with the one that first came under a user's key."""
        first = self.user_keys.setdefault(key, recording)
        if not first.same_key(recording):
            self.stats.reasons[f"key {key!r} names more than one topology"] += 1
            logger.warning("step %s: key %r names more than one topology; contents decide", self.name, key)
            self.user_keys[key] = recording


def because(why: Why | None, event: Event, difference: object) -> tuple[Event, object]:
    """Return an event and its difference, which say first what the step was given that it was not given before."""
    given = why() if why is not None else None
    if given is None:
        return event, difference
    parts = [part for part in (str(given), str(difference)) if part]
    return event._replace(reason=f"{given.reason}: {event.reason}", remedy=given.remedy), "; ".join(parts)


def warn_of_many(name: str, many: int, reason: str, difference: str, why: Why | None) -> None:
    """Warn of a step that makes graphs again and again, with the argument that the last one was made for."""
    given = why() if why is not None else None
    if given is None:
        logger.warning(
            "step %s: %d graphs were instantiated, the last one because: %s. No argument differs from the call "
            "before: the function launches other nodes, or takes other values and arrays from elsewhere",
            name, many, f"{reason} ({difference})" if difference else reason,
        )  # fmt: skip
    else:
        logger.warning(
            "step %s: %d graphs were instantiated, the last one because of %s. %s", name, many, given, given.remedy
        )
