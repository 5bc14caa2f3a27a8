"""Preparations: the graphs of calls that are still to come, made while nothing runs.

One thread records call after call, others make executable graphs of what it has recorded. Python's collector is paused
meanwhile: each recording is thousands of objects, which stay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from hiprt import collector
from hiprt.graphs.arguments import Arguments
from hiprt.graphs.record.recording import Recording

if TYPE_CHECKING:
    from hiprt.graphs.step import Step

__all__ = ["Begun", "Part", "Preparation", "arguments_of"]

MOST_BEGUN = 8  # graphs that are being made at a time: as many recordings wait in memory


class Part(NamedTuple):
    """A recording of which another thread makes an executable graph.

    Attributes
    ----------
    recording : Recording
    successor : hiprt_successor *
    rules : hiprt_rules *
        What the graph is made by.
    """

    recording: Recording
    successor: Any
    rules: Any


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
        begun = step.begin(tuple(args), [each.signature for of, each in self.waiting if of is step])
        if begun is not None:
            self.waiting.append((step, begun))
        if len(self.waiting) > MOST_BEGUN:
            self.finish()

    def finish(self) -> None:
        """Wait for the graphs of the call that was recorded first, and let its step keep it."""
        step, begun = self.waiting.popleft()
        self.made += step.finish(begun)
