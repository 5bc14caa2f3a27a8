"""Steps (`hiprt.graphs.Step`) on Metal: recorded at the first call, replayed after it. Never run on Apple hardware."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

from hiprt.flags import flags
from hiprt.graphs.signature import signature_of
from hiprt.graphs.stats import Event
from hiprt.graphs.step import Step
from hiprt.metal_compat.apple.replay import Replay
from hiprt.metal_compat.apple.stream import MetalStream

__all__ = ["run"]

# The replay, which keeps the arrays it uses, and what the function returned, by step and arguments.
Kept = OrderedDict[Hashable, tuple[Replay, Any]]
replays: weakref.WeakKeyDictionary[Step[..., Any], Kept] = weakref.WeakKeyDictionary()


def run(step: Step[..., Any], stream: MetalStream, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a step. `Step.call` calls this on Metal, whose streams record all the time.

    Parameters
    ----------
    step : Step
    stream : MetalStream
    args, keywords : tuple, dict
        The arguments of the call.
    """
    if stream.pending is None:
        return step.function(*args, **keywords)
    if not flags.graph or not step.keep:
        step.ladder.stats.count(Event(step.name, "eager", "HIPRT_GRAPH=0" if step.keep else "a step that is not kept"))
        return step.eager(*args, **keywords)
    signature = signature_of(args, keywords, moves=False)
    kept = replays.setdefault(step, OrderedDict())
    if signature not in kept:
        return record(step, stream, partial(step.function, *args, **keywords), signature, kept)
    kept.move_to_end(signature)
    replay, result = kept[signature]
    replay.launch()
    step.ladder.stats.counted["replay"] += 1
    return result


def record(
    step: Step[..., Any], stream: MetalStream, function: Callable[[], Any], signature: Hashable, kept: Kept
) -> Any:
    """Call the function and launch what it recorded. A function that reads on the host is called every time."""
    with stream.record(may_leave=True) as recording:
        result = function()
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
