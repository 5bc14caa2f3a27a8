"""Preparations: the graphs of calls that are still to come, made while nothing runs.

One thread records call after call, others make executable graphs of what it has recorded. Python's collector is paused
meanwhile: each recording is thousands of objects, which stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt import collector
from hiprt.errors import HipError
from hiprt.flags import flags
from hiprt.graphs.arguments import Arguments
from hiprt.graphs.launch.allowed_rungs import allows
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.kept_call import Segment
from hiprt.graphs.launch.part import Part
from hiprt.graphs.launch.results import arrays_in
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.record.session import Session
from hiprt.graphs.signature import arrays_of, signature_of
from hiprt.stream import session_of_thread

if TYPE_CHECKING:
    from hiprt.graphs.step import Step

__all__ = ["Begun", "Preparation", "arguments_of"]

MOST_BEGUN = 8  # graphs that are being made at a time: as many recordings wait in memory


class Begun(NamedTuple):
    """A call of a step that was recorded, and whose graphs are being made.

    Attributes
    ----------
    signature : hashable
        What the step keeps the call under.
    parts : list of Part or Recording
        A recording runs eagerly.
    result : object
        What the function returned.
    own : set of int
        The ids of the buffers, among those of the results, that every launch writes anew.
    arguments : Arguments
    args, keywords
        What the function was given.
    """

    signature: Any
    parts: list[Part | Recording]
    result: Any
    own: set[int]
    arguments: Arguments
    args: tuple[Any, ...]
    keywords: dict[str, Any]


def arguments_of(calls: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """Return the arguments of each call.

    Raises
    ------
    TypeError
        What stands for a call's arguments is no sequence, but a single array perhaps.
    """
    for args in calls:
        if not isinstance(args, Sequence):
            raise TypeError(f"prepare: the arguments of each call are a tuple or a list, not {type(args).__name__}")
        yield tuple(args)


class Preparation:
    """Makes the graphs of calls of any steps; they are there when the ``with`` block ends.

    Attributes
    ----------
    made : int
        How many calls have their graphs now.
    """

    def __init__(self) -> None:
        self.made = 0
        self.waiting: deque[tuple[Step[..., Any], Begun]] = deque()
        self.pause = collector.paused()

    def __enter__(self) -> Preparation:
        self.pause.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self.waiting and error is None:
                self.finish()
        finally:
            self.waiting.clear()
            self.pause.__exit__(kind, error, trace)

    def add(self, step: Step[..., Any], args: Sequence[Any]) -> None:
        """Record a call, unless the step keeps it already, and begin to make its graphs."""
        begun = begin(step, tuple(args), [each.signature for of, each in self.waiting if of is step])
        if begun is not None:
            self.waiting.append((step, begun))
        if len(self.waiting) > MOST_BEGUN:
            self.finish()

    def finish(self) -> None:
        """Wait for the graphs of the call that was recorded first, and let its step keep it."""
        step, begun = self.waiting.popleft()
        self.made += finish(step, begun)


def begin(step: Step[..., Any], args: tuple[Any, ...], begun: Collection[Hashable]) -> Begun | None:
    """Record a call without launching it, and begin to make its graphs.

    None is returned where there are none to be made: they are kept already, or `begun` has the call's signature.
    """
    stream = step.own_stream()
    if not step.keep or not flags.graph or stream.recording or session_of_thread() is not None:
        return None
    if stream.device.provider.run_step is not None or not allows(stream.device, "instantiate"):
        return None
    stream.check_open()
    with step.ladder.lock:
        step.last = stream
        keywords: dict[str, Any] = {}
        if step.cells is not None:
            args, keywords = step.cells.place(args, keywords, stream)
        signature = signature_of(args, keywords, moves=step.moves)
        if signature in step.kept or signature in begun:
            return None
        session = Session(step.ladder, stream, reserve=True, is_ahead=True)
        with session.record():
            result = step.function(*args, **keywords)
        found = [] if step.overwrite else arrays_in(result)
        if not session.parts or found is None:
            return None
        own = {id(array.buffer) for array in found if step.is_own(array, session)}
        return Begun(signature, session.parts, result, own, step.told(args, keywords), args, keywords)


def finish(step: Step[..., Any], begun: Begun) -> bool:
    """Wait for the graphs of a call that was begun, and keep the call; False where they could not be made."""
    with step.ladder.lock:
        segments: list[Segment] = []
        try:
            for part in begun.parts:
                segments.append(part if isinstance(part, Recording) else step.ladder.take(part))
        except HipError as error:
            step.reasons[f"not prepared: {error}"] += 1
            for each in segments:
                if isinstance(each, Exec):
                    step.ladder.execs.drop(each)
            return False
        for each in segments:
            if isinstance(each, Exec):
                each.hold(1)
        step.recordings = [part if isinstance(part, Recording) else part.recording for part in begun.parts]
        arrays = arrays_of(*begun.args, *begun.keywords.values())
        step.remember(begun.signature, segments, begun.result, begun.own, begun.arguments, arrays)
        return True
