"""Schedules: when each node could run, from what it waits for and how long it takes, and the path that decides."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Schedule", "schedule"]


@dataclass(frozen=True)
class Schedule:
    """When each node could run if only its dependencies held it back.

    Attributes
    ----------
    start : list of float
        When a node begins, which is when the last of those it waits for has ended.
    row : list of int
        The row in which it is drawn: no two nodes of a row overlap.
    critical : list of int
        The path that decides how long it all takes: each node of it waits for the one before, and the last ends last.
    length : float
        When the last node ends.
    """

    start: list[float]
    row: list[int]
    critical: list[int]
    length: float


def schedule(dependencies: Sequence[Sequence[int]], durations: Sequence[float]) -> Schedule:
    """Lay nodes out in time.

    Parameters
    ----------
    dependencies : sequence of sequences of int
        For each node the earlier nodes that it waits for.
    durations : sequence of float
    """
    start: list[float] = []
    end: list[float] = []
    decides: list[int | None] = []
    for before, duration in zip(dependencies, durations):
        last = max(before, key=lambda i: end[i], default=None)
        start.append(0.0 if last is None else end[last])
        end.append(start[-1] + duration)
        decides.append(last)
    critical = []
    at = max(range(len(end)), key=lambda i: end[i], default=None)
    while at is not None:
        critical.append(at)
        at = decides[at]
    critical.reverse()
    return Schedule(start, rows(start, end, decides), critical, max(end, default=0.0))


def rows(start: Sequence[float], end: Sequence[float], decides: Sequence[int | None]) -> list[int]:
    """Give each node a row: that of the node it waited for, where that is free, else the first that is."""
    row = [0] * len(start)
    count = 0
    free: list[int] = []  # ascending
    busy: list[tuple[float, int]] = []  # when a row becomes free, and which
    for i in sorted(range(len(start)), key=lambda i: (start[i], i)):
        while busy and busy[0][0] <= start[i]:
            bisect.insort(free, heapq.heappop(busy)[1])
        before = decides[i]
        if before is not None and row[before] in free:
            place = row[before]
            free.remove(place)
        elif free:
            place = free.pop(0)
        else:
            place, count = count, count + 1
        row[i] = place
        heapq.heappush(busy, (end[i], place))
    return row
