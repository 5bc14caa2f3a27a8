"""Steps: a function whose launches become one graph launch, and the ladder that finds an exec to launch again.

    replay       the exec already carries these arguments: launch it
    patch        some nodes carry other arguments: set those, launch
    instantiate  no exec of this topology is free: make one, launch
    eager        a graph call failed, or graphs are off: launch the nodes one by one

Every rung but replay is taken for a reason, which `Step.reasons` counts.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from hiprt.allocator import Pool, default_pool
from hiprt.array import Array
from hiprt.errors import HipError
from hiprt.flags import flags
from hiprt.graphs.exec import Exec
from hiprt.graphs.recording import Recording
from hiprt.stream import Stream, current_stream

__all__ = ["RUNGS", "Step"]

RUNGS = ("replay", "patch", "update", "instantiate", "eager")
logger = logging.getLogger("hiprt.graphs")


@dataclass
class Kept:
    """What one call signature left: the exec to launch again and what the function returned."""

    exec: Exec
    result: Any


class Step:
    """A function of device work, launched as one graph.

    The first call with a set of arguments records what the function launches; later calls with the same arguments
    (addresses, shapes, dtypes and plain values) replay the executable graph without calling the function. Arrays that
    the function returned are overwritten by the next call of the same signature.

    Parameters
    ----------
    function : callable
        Launches ops on the current stream and returns arrays (any structure). It must not read arrays on the host.
    name : str, optional
        For messages; the function's name by default.
    stream : Stream, optional
        Where it runs; this thread's stream at the first call by default.
    keep : bool
        False records at every call, as an engine does that issues each launch again; an exec is reused all the same.

    Attributes
    ----------
    rungs : dict
        How often each rung of the ladder was taken.
    reasons : Counter
        Why a rung other than replay was taken.

    Examples
    --------
    >>> step = Step(lambda: add(x, y))
    >>> z = step()
    """

    def __init__(
        self, function: Callable[..., Any], *, name: str = "", stream: Stream | None = None, keep: bool = True
    ) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "step")
        self.stream = stream
        self.keep = keep
        self.rungs = dict.fromkeys(RUNGS, 0)
        self.reasons: Counter[str] = Counter()
        self.kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self.slots: dict[int, list[Exec]] = {}
        self.last: Recording | None = None

    @property
    def nodes(self) -> int:
        """Nodes of the graph launched last."""
        return len(self.last) if self.last else 0

    @property
    def edges(self) -> int:
        """Edges of the graph launched last."""
        return self.last.edges if self.last else 0

    def __call__(self, *args: Any) -> Any:
        """Run the step on its stream.

        Raises
        ------
        TypeError
            An argument is neither an array nor hashable.
        HipError
            The step cannot be recorded (it reads an array on the host, say), or running it eagerly failed too.
        """
        stream = self.stream = self.stream or current_stream()
        if stream.recording:
            return self.function(*args)
        if not flags.graph:
            self.count("eager", "HIPRT_GRAPH=0")
            return self.eager(*args)
        signature = tuple(map(identity, args))
        kept = self.kept.get(signature) if self.keep else None
        if kept is not None:
            self.kept.move_to_end(signature)
            self.replay(kept.exec, stream)
            return kept.result
        return self.record(signature, args, stream)

    def eager(self, *args: Any) -> Any:
        """Call the function on the step's stream without recording."""
        from hiprt.stream import use_stream

        self.stream = self.stream or current_stream()
        with use_stream(self.stream):
            return self.function(*args)

    def replay(self, kept: Exec, stream: Stream) -> None:
        """Launch a kept exec; if that fails, discard it and run its nodes eagerly (G8)."""
        self.last = kept.recording
        try:
            kept.launch(stream)
        except HipError as error:
            self.discard(kept)
            self.fall_back(kept.recording, stream, error)
        else:
            self.rungs["replay"] += 1

    def record(self, signature: Hashable, args: tuple[Any, ...], stream: Stream) -> Any:
        """Record the function, find or make an exec for what it launched, and launch that."""
        recording = Recording(Pool(default_pool.allocate))
        with recording.record(stream):
            result = self.function(*args)
        self.last = recording
        if not len(recording):
            self.count("eager", "the step launched nothing")
            return result
        exec_ = self.climb(recording, stream)
        if exec_ is not None and self.keep:
            self.kept[signature] = Kept(exec_, result)
            while len(self.kept) > flags.graph_keys:
                self.drop(self.kept.popitem(last=False)[1].exec)
        return result

    def climb(self, recording: Recording, stream: Stream) -> Exec | None:
        """Take the first rung that serves a recording; the exec launched, or None when it ran eagerly."""
        slots = self.slots.setdefault(recording.key, [])
        try:
            found = self.match(slots, recording)
            if found is None:
                self.count("instantiate", "no free executable graph has this topology")
                found = Exec(recording, stream.device.index)
                slots.append(found)
            found.launch(stream)
        except HipError as error:
            slots.clear()
            self.fall_back(recording, stream, error)
            return None
        return found

    def match(self, slots: list[Exec], recording: Recording) -> Exec | None:
        """Find an exec that carries the recording's arguments, or a drained one that can be patched to."""
        same = [slot for slot in slots if slot.recording.same_key(recording)]
        for slot in same:
            if slot.recording.changed(recording)[0] == 0:
                self.rungs["replay"] += 1
                return slot
        if self.keep:
            # A kept exec's arguments belong to its signature.
            return None
        for slot in same:
            if not slot.busy or len(same) >= flags.graph_slots:
                count, first = slot.recording.changed(recording)
                if slot.busy and self.stream is not None:
                    self.stream.synchronize()
                slot.patch(recording)
                self.count("patch", f"arguments changed, first at node {first} of {count}")
                return slot
        return None

    def fall_back(self, recording: Recording, stream: Stream, error: HipError) -> None:
        """Run a recording eagerly after a graph call failed, and say why."""
        logger.warning("step %s runs eagerly: %s", self.name, error)
        self.count("eager", str(error))
        recording.run(stream)

    def discard(self, failed: Exec) -> None:
        """Forget an exec that failed."""
        self.drop(failed)
        for signature in [s for s, kept in self.kept.items() if kept.exec is failed]:
            del self.kept[signature]

    def drop(self, exec_: Exec) -> None:
        """Take an exec out of its slots."""
        for slots in self.slots.values():
            if exec_ in slots:
                slots.remove(exec_)

    def count(self, rung: str, reason: str) -> None:
        """Count a rung other than replay, and its reason."""
        self.rungs[rung] += 1
        self.reasons[f"{rung}: {reason}"] += 1


def identity(value: Any) -> Hashable:
    """Return what makes two arguments the same for a recorded step."""
    if isinstance(value, Array):
        return ("array", value.address, value.shape, value.strides, value.dtype.str)
    hash(value)
    return (type(value), value)
