"""Blocks: what a thread launches between two lines of a program becomes one graph launch."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from hiprt.flags import flags
from hiprt.graphs.launch.ladder import Ladder
from hiprt.graphs.record.session import Session
from hiprt.graphs.stats import Event
from hiprt.stream import Stream, current_stream, session_of_thread, use_stream

__all__ = ["ladders", "step"]

ladders: dict[str, Ladder] = {}  # by the name of the block


@contextmanager
def step(name: str, *, key: Hashable = None, stream: Stream | None = None) -> Iterator[Ladder]:
    """Launch what this thread launches within the block as one graph.

    This is for engines that issue every launch again for each token. An exec is found by what was recorded, and reused.

    Parameters
    ----------
    name : str
        The step's name. Blocks of one name share execs.
    key : hashable, optional
        The caller's name of this topology. It is checked, not trusted.
    stream : Stream, optional
        The stream it runs on; the current one by default.

    Yields
    ------
    Ladder
        Its ``stats`` say which rungs were taken; its ``capture`` takes in launches of other code.

    Raises
    ------
    HipError
        What was recorded could not be launched, not even eagerly.
    """
    stream = stream or current_stream()
    ladder = ladders.get(name) or ladders.setdefault(name, Ladder(name))
    session = session_of_thread()
    if session is None:
        stream.check_open()
    if session is not None or stream.recording or not flags.graph:
        if not flags.graph:
            ladder.stats.count(Event(name, "eager", "HIPRT_GRAPH=0"))
        with use_stream(stream if session is None else session.stream):
            yield ladder
        return
    with ladder.lock, Session(ladder, stream, key=key).record():
        yield ladder
