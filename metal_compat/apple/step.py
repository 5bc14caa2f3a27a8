"""Steps (`hiprt.graphs.Step`) on Metal: recorded at the first call, replayed after it. Never run on Apple hardware."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from hiprt.flags import flags
from hiprt.graphs.signature import identity
from hiprt.graphs.stats import Event
from hiprt.graphs.step import Step
from hiprt.metal_compat.apple.replay import Replay
from hiprt.metal_compat.apple.stream import MetalStream

__all__ = ["run"]

# The replay, which keeps the arrays it uses, and what the function returned, by step and arguments.
Kept = OrderedDict[Hashable, tuple[Replay, Any]]
replays: weakref.WeakKeyDictionary[Step, Kept] = weakref.WeakKeyDictionary()


def run(step: Step, stream: MetalStream, args: tuple[Any, ...]) -> Any:
    """Run a step. `Step.call` calls this on Metal, whose streams record all the time.

    Parameters
    ----------
    step : Step
    stream : MetalStream
    args : tuple
        The call's arrays and hashable values.
    """
    if stream.pending is None:
        return step.function(*args)
    if not flags.graph or not step.keep:
        step.ladder.stats.count(Event(step.name, "eager", "HIPRT_GRAPH=0" if step.keep else "a step that is not kept"))
        return step.eager(*args)
    signature = tuple(map(identity, args))
    kept = replays.setdefault(step, OrderedDict())
    if signature not in kept:
        return record(step, stream, args, signature, kept)
    kept.move_to_end(signature)
    replay, result = kept[signature]
    replay.launch()
    step.ladder.stats.rungs["replay"] += 1
    return result


def record(step: Step, stream: MetalStream, args: tuple[Any, ...], signature: Hashable, kept: Kept) -> Any:
    """Call the function and launch what it recorded. A function that reads on the host is called every time."""
    with stream.record(may_leave=True) as recording:
        result = step.function(*args)
        is_left = stream.pending is not None
    step.recordings = [recording]
    if is_left or not len(recording):
        reason = "the function reads arrays on the host" if is_left else "the step launched nothing"
        step.ladder.stats.count(Event(step.name, "eager", reason, recording.key))
        return result
    replay = Replay(recording, stream)
    kept[signature] = (replay, result)
    while len(kept) > flags.graph_keys:
        kept.popitem(last=False)
    replay.launch()
    step.ladder.stats.count(Event(step.name, "instantiate", "first use of this signature", recording.key))
    return result
