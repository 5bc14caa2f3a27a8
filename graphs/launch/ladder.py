"""The ladder: find an executable graph for a recording, at the least cost that is known to be right, and launch it.

    replay       an exec already carries these arguments
    patch        set the parameters of the nodes that differ
    update       hipGraphExecUpdate with a graph of the new arguments
    instantiate  make an exec: none of this topology is drained, or the others are spent
    eager        a graph call failed (G8), or graphs are off: launch the nodes one by one

Patch and update need a drained exec (G2) and spend its update budget (G7); of the two the cheaper one is taken, by what
both have cost so far in this process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence

from hiprt import core
from hiprt.allocator import Pool, default_pool
from hiprt.array import Array
from hiprt.errors import HipError
from hiprt.flags import flags
from hiprt.graphs import stats as statistics
from hiprt.graphs.launch.exec import Exec, locks
from hiprt.graphs.launch.kept import Kept, Placement
from hiprt.graphs.launch.probes import allowed, distrust, failed
from hiprt.graphs.launch.successor import Successor
from hiprt.graphs.launch.verify import Mismatch, launch_verified
from hiprt.graphs.record.dump import dump, trace
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import RUNGS, Event, Stats
from hiprt.stream import Stream

__all__ = ["Ladder"]

logger = logging.getLogger("hiprt.graphs")


class Cost:
    """Moving average of what something cost a node, in seconds."""

    def __init__(self) -> None:
        self.per_node: float | None = None

    def add(self, seconds: float, nodes: int) -> None:
        """Take a measurement in."""
        if nodes:
            new = seconds / nodes
            self.per_node = new if self.per_node is None else 0.8 * self.per_node + 0.2 * new


costs = {"patch": Cost(), "update": Cost()}


class Ladder:
    """The execs of one step, by topology, and the way down from replay to eager.

    Parameters
    ----------
    name : str
        Of the step, for statistics and messages.

    Attributes
    ----------
    stats : Stats
    slots : OrderedDict
        Hash of the topology key to execs, least recently used first. Bounded by ``HIPRT_GRAPH_KEYS``.
    memory : Pool
        Where the intermediates of steps that are recorded each time live; kept ones have memory of their own.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.stats = Stats(name)
        self.slots: OrderedDict[int, list[Exec]] = OrderedDict()
        self.memory = Pool(default_pool.allocate, name)
        self.user_keys: dict[Hashable, Recording] = {}
        self.seen: dict[int, deque[int]] = {}
        self.evicted = 0
        # From the choice of an exec to its launch (G12): another thread must not patch it in between.
        self.lock = threading.RLock()
        statistics.register(self, self.stats)

    def launch(self, recording: Recording, stream: Stream, *, key: Hashable = None) -> Exec | None:
        """Launch what was recorded, by the first rung that serves.

        Parameters
        ----------
        recording : Recording
        stream : Stream
            Must not record.
        key : hashable, optional
            The caller's name of this topology. It is checked, not trusted.

        Returns
        -------
        Exec or None
            What was launched; None when the nodes ran eagerly.
        """
        with self.lock:
            if key is not None:
                self.check_user_key(key, recording)
            return self.descend(recording, stream)

    def descend(self, recording: Recording, stream: Stream) -> Exec | None:
        """Take the first rung that serves."""
        start = time.perf_counter()
        before = dict(self.stats.rungs)
        rungs = self.rungs(stream)
        if "instantiate" not in rungs:
            named = "instantiate" in flags.graph_rungs
            reason = failed(stream.device, "instantiate") if named else "HIPRT_GRAPH_RUNGS allows no graph"
            self.run_eagerly(recording, stream, reason)
            return None
        try:
            found = self.find(recording, stream, rungs)
            mismatch = self.start(found, stream)
        except HipError as error:
            self.fail(recording.key)
            self.learn(error, stream)
            self.run_eagerly(recording, stream, str(error))
            return None
        if mismatch is not None:
            self.fail(recording.key)
            self.disagree(recording, mismatch)
            return None
        trace(self.name, next(rung for rung in RUNGS if self.stats.rungs[rung] > before[rung]), start, len(recording))
        return found

    def repeat(self, kept: Exec, stream: Stream, rung: str) -> bool:
        """Launch an exec again as it is, or run its nodes eagerly: then False. Behind `lock`."""
        start = time.perf_counter()
        try:
            mismatch = self.start(kept, stream)
        except HipError as error:
            self.replace(kept, stream, error)
            return False
        if mismatch is not None:
            self.drop(kept)
            self.disagree(kept.recording, mismatch)
            return False
        if rung == "replay":
            self.stats.rungs["replay"] += 1
        trace(self.name, rung, start, len(kept.recording))
        return True

    def replace(self, kept: Exec, stream: Stream, error: HipError) -> None:
        """Discard an exec that could not be launched, and run its nodes (G8)."""
        with self.lock:
            self.drop(kept)
            self.learn(error, stream)
            self.run_eagerly(kept.recording, stream, str(error))

    def move(self, kept: Kept, arrays: Sequence[Array], target: Placement, stream: Stream) -> bool:
        """Patch arrays at other addresses into a kept exec; False where it has to be recorded again.

        Raises
        ------
        HipError
            A node refused them; the exec must be discarded (G8).
        """
        if "patch" not in flags.graph_rungs or "patch" not in allowed(stream.device) or not kept.can_move(target):
            return False
        start = time.perf_counter()
        move = kept.move_to(target)
        with self.lock:
            old = kept.exec
            assert old is not None
            old.wait()
            exec_ = self.within_budget(old, stream, move.size, move.nbytes)
            if exec_ is None:
                return False
            with locks[stream.device.index]:
                if exec_ is not old:
                    exec_.patch(old.recording)
                    kept.segments = [exec_]
                kept.move(arrays, target, move)
        self.stats.patched += move.size
        seconds = time.perf_counter() - start
        self.stats.count(Event(self.name, "patch", move.reason, exec_.recording.key, "", seconds))
        return True

    @staticmethod
    def start(exec_: Exec, stream: Stream) -> Mismatch | None:
        """Launch; under ``HIPRT_GRAPH_VERIFY`` eagerly as well, and compare."""
        if flags.graph_verify:
            return launch_verified(exec_, stream)
        exec_.launch(stream)
        return None

    def disagree(self, recording: Recording, mismatch: Mismatch) -> None:
        """Count and report that graph and eager differ; the eager results are in memory."""
        logger.error("step %s: %s", self.name, mismatch)
        self.stats.count(Event(self.name, "eager", str(mismatch), recording.key))

    @staticmethod
    def learn(error: HipError, stream: Stream) -> None:
        """Stop patching and updating on a device that was seen to lose a change."""
        if error.code == core.lib.HIPRT_E_STALE:
            logger.error("%s: no more patches and updates on device %d", error, stream.device.index)
            distrust(stream.device, ("patch", "update"))

    @staticmethod
    def rungs(stream: Stream) -> frozenset[str]:
        """Return the rungs that the flags name and that this device was found to do right."""
        return allowed(stream.device).union(("replay", "eager")).intersection(flags.graph_rungs)

    def find(self, recording: Recording, stream: Stream, rungs: frozenset[str]) -> Exec:
        """Return an exec that carries the recording's arguments."""
        slots = self.slots.setdefault(recording.key, [])
        self.slots.move_to_end(recording.key)
        same = [slot for slot in slots if slot.recording.same_key(recording)]
        nearest = len(recording)
        for slot in same:
            changed = slot.recording.changed(recording)[0]
            if not changed and "replay" in rungs and slot.may_launch(stream):
                self.stats.rungs["replay"] += 1
                return slot
            nearest = min(nearest, changed)
        self.stats.changed += nearest
        reason = "first of this topology" if not same else "no exec may be changed"
        free = [slot for slot in same if not slot.holders]
        if free:
            drained = next((slot for slot in free if not slot.busy), None)
            has_room = len(free) < flags.graph_slots
            if drained is None and has_room:
                reason = f"{len(free)} of this topology, all in flight"
            elif self.came_back(recording) and has_room:
                reason = "these arguments come back: they get an exec of their own"
            else:
                slot = drained or self.wait(free)
                made = self.change(slot, recording, stream, rungs)
                if made is not None:
                    return made
                self.drop(slot)
                reason = "HIPRT_GRAPH_RUNGS, a failed probe or HIPRT_GRAPH_UPDATE_BUDGET allows no such change"
        return self.instantiate(recording, stream, reason)

    def came_back(self, recording: Recording) -> bool:
        """Whether a topology was recorded with these arguments before; buffers that take turns come back soon."""
        seen = self.seen.setdefault(recording.key, deque(maxlen=2 * flags.graph_slots))
        arguments = recording.arguments
        if arguments in seen:
            return True
        seen.append(arguments)
        return False

    def wait(self, slots: list[Exec]) -> Exec:
        """Wait for the exec that was launched first."""
        oldest = min(slots, key=lambda slot: slot.launched)
        oldest.wait()
        self.stats.reasons[f"waited: all {len(slots)} slots in flight"] += 1
        return oldest

    def change(self, slot: Exec, recording: Recording, stream: Stream, rungs: frozenset[str]) -> Exec | None:
        """Make a drained exec carry the recording's arguments, by the cheaper rung; None when neither is allowed."""
        count, nbytes, first = slot.recording.changed(recording)
        rung = self.cheaper(count, len(recording), rungs)
        if rung is None:
            return None
        cost = (count, nbytes) if rung == "patch" else (len(recording), recording.nbytes)
        within = self.within_budget(slot, stream, *cost)
        if within is not slot:
            return within and self.change(within, recording, stream, rungs)
        difference = slot.recording.difference(recording, first) if count else ""
        start = time.perf_counter()
        with locks[stream.device.index]:
            if rung == "patch":
                self.stats.patched += slot.patch(recording)
            else:
                slot.update(recording)
        seconds = time.perf_counter() - start
        costs[rung].add(seconds, count if rung == "patch" else len(recording))
        reason = f"arguments of {count} of {len(recording)} nodes changed"
        self.stats.count(Event(self.name, rung, reason, recording.key, difference, seconds))
        return slot

    def cheaper(self, changed: int, nodes: int, rungs: frozenset[str]) -> str | None:
        """Choose between patch and update; an untried one is tried when it has less to do."""
        allowed = [rung for rung in ("patch", "update") if rung in rungs]
        if len(allowed) < 2:
            return allowed[0] if allowed else None
        patch, update = costs["patch"].per_node, costs["update"].per_node
        if patch is None:
            return "patch"
        if update is None:
            return "update" if changed > 2 * nodes // 3 else "patch"
        return "patch" if patch * changed <= update * nodes else "update"

    def within_budget(self, slot: Exec, stream: Stream, nodes: int, nbytes: int) -> Exec | None:
        """Find where a change may be made without overspending an update budget (G7).

        Parameters
        ----------
        slot : Exec
            Drained.
        stream : Stream
        nodes, nbytes : int
            What the change writes.

        Returns
        -------
        Exec or None
            The exec; a fresh one in its place, made on another thread since half of the budget was used; or None when
            the change is more than any exec may take.
        """
        most, most_bytes = flags.graph_update_budget, flags.graph_update_budget_mb << 20
        if nodes > most or nbytes > most_bytes:
            return None
        used = max((slot.updated_nodes + nodes) / most, (slot.updated_bytes + nbytes) / most_bytes)
        if used > 0.5 and slot.successor is None and slot.updated_nodes:
            # Of a copy: a move changes the recording where it is.
            slot.successor = Successor(slot.recording.copy(), stream.device.index, slot)
        if used <= 1:
            return slot
        assert slot.successor is not None
        fresh = slot.successor.take()
        fresh.holders = slot.holders
        self.drop(slot)
        self.slots.setdefault(slot.recording.key, []).append(fresh)
        self.stats.reasons["replaced: update budget spent"] += 1
        return fresh

    def instantiate(self, recording: Recording, stream: Stream, reason: str) -> Exec:
        """Make an exec and keep it in a slot."""
        start = time.perf_counter()
        with locks[stream.device.index]:
            made = Exec(recording, stream.device.index, self.fanout(stream), overlap=self.overlap(stream))
        seconds = time.perf_counter() - start
        dump(recording, self.name)
        self.slots.setdefault(recording.key, []).append(made)
        self.stats.count(Event(self.name, "instantiate", reason, recording.key, "", seconds))
        self.came_back(recording)
        self.evict(made)
        return made

    def fanout(self, stream: Stream) -> int:
        """Return ``HIPRT_GRAPH_FANOUT``; no bound only where the device was found to keep the order without (G6)."""
        if flags.graph_fanout or "unbounded fan-out" in allowed(stream.device):
            return flags.graph_fanout
        self.stats.reasons["HIPRT_GRAPH_FANOUT=0 is not used: this device loses the order of wide graphs"] += 1
        return 4

    @staticmethod
    def overlap(stream: Stream) -> bool:
        """Whether kernels may overlap: ``HIPRT_GRAPH_OVERLAP``, on a device that was found to keep the order."""
        return flags.graph_overlap and "overlap" in allowed(stream.device)

    def evict(self, newest: Exec) -> None:
        """Drop the least recently used topologies over the bound; warn once when that happens again and again."""
        while len(self.slots) > flags.graph_keys:
            key, slots = next(iter(self.slots.items()))
            if newest in slots:
                return
            del self.slots[key]
            self.seen.pop(key, None)
            self.evicted += 1
            if self.evicted == 2 * flags.graph_keys:
                logger.warning(
                    "step %s: %d topologies evicted, so graphs are made again and again; raise HIPRT_GRAPH_KEYS (%d) "
                    "or pad shapes to fewer buckets",
                    self.name, self.evicted, flags.graph_keys,
                )  # fmt: skip

    def check_user_key(self, key: Hashable, recording: Recording) -> None:
        """Compare a recording with the one that first came under a user's key."""
        first = self.user_keys.setdefault(key, recording)
        if not first.same_key(recording):
            self.stats.reasons[f"key {key!r} names more than one topology"] += 1
            logger.warning("step %s: key %r names more than one topology; contents decide", self.name, key)
            self.user_keys[key] = recording

    def run_eagerly(self, recording: Recording, stream: Stream, reason: str) -> None:
        """Launch the nodes one by one, and say why."""
        logger.warning("step %s runs eagerly: %s", self.name, reason)
        start = time.perf_counter()
        recording.run(stream)
        seconds = time.perf_counter() - start
        self.stats.count(Event(self.name, "eager", reason, recording.key, "", seconds))

    def fail(self, key: int) -> None:
        """Discard the execs of a topology after a failed graph call (G8)."""
        self.slots.pop(key, None)

    def drop(self, exec_: Exec) -> None:
        """Take an exec out of its slot; it is destroyed when its last launch has finished."""
        for key, slots in list(self.slots.items()):
            if exec_ in slots:
                slots.remove(exec_)
                if not slots:
                    del self.slots[key]
