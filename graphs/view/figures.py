"""Figures: what is shown of a graph, computed from what was recorded and measured of it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

from hiprt.flags import RUNG_NAMES
from hiprt.graphs.record.extents import coalesce
from hiprt.graphs.view.run import Run
from hiprt.graphs.view.schedule import Schedule, schedule

__all__ = ["Figures", "KernelRow", "Ladder", "bands_of", "figures"]


@dataclass(frozen=True)
class KernelRow:
    """All nodes of one kernel.

    Attributes
    ----------
    name : str
    nodes : int
    nbytes : int
        The bytes that they declare to read and to write.
    us : float or None
        Their time.
    floor_us : float or None
        The time that the bytes take at the measured bandwidth.
    gb_s : float or None
        The bytes over the time.
    share : float or None
        That rate, as a part of the measured bandwidth. Above 1 the kernel touches less than it declares, or finds it in
        a cache.
    """

    name: str
    nodes: int
    nbytes: int
    us: float | None
    floor_us: float | None
    gb_s: float | None
    share: float | None


@dataclass(frozen=True)
class Ladder:
    """How the launches of a graph were made.

    Attributes
    ----------
    rungs : dict
        How often each rung was taken.
    host_us : dict
        The median time that each rung took the host.
    device_us : float or None
        The median time of a launch on the device: of replays, where there were any.
    reasons : list of (str, str, str, int)
        Each rung other than replay, with its reason, the first difference, and how often. Differences of one argument
        count as one, that of the first launch is shown.
    """

    rungs: dict[str, int]
    host_us: dict[str, float]
    device_us: float | None
    reasons: list[tuple[str, str, str, int]]


class Figures:
    """One graph of a run, with what follows from it.

    Parameters
    ----------
    run : Run
    graph : dict
        One of its graphs.

    Attributes
    ----------
    us : list of float or None
        What each node takes.
    unit : str
        What the schedule counts: ``us``, or ``nodes`` where no times are known and each node counts 1.
    """

    def __init__(self, run: Run, graph: dict[str, Any]) -> None:
        self.run, self.graph = run, graph
        self.name: str = graph["name"]
        self.key: str = graph["key"]
        self.nodes: list[dict[str, Any]] = graph["nodes"]
        self.us: list[float] | None = graph["node_us"]
        self.unit = "nodes" if self.us is None else "us"
        self.bandwidth = run.read_gb_s
        self.launches = [each for each in run.launches if (each["step"], each["key"]) == (self.name, self.key)]

    @cached_property
    def schedule(self) -> Schedule:
        """When each node could run."""
        return schedule([node["dependencies"] for node in self.nodes], self.us or [1.0] * len(self.nodes))

    @cached_property
    def nbytes(self) -> list[int]:
        """The bytes that each node declares to read and to write."""
        return [node["bytes_read"] + node["bytes_written"] for node in self.nodes]

    @cached_property
    def distinct_bytes(self) -> int:
        """The bytes that all nodes together declare, each byte once."""
        extents = ((each["start"], each["end"]) for node in self.nodes for each in node["accesses"])
        return sum(end - start for start, end in coalesce(extents))

    @property
    def total_us(self) -> float | None:
        """The time of all nodes, one behind the other."""
        return None if self.us is None else sum(self.us)

    @property
    def floor_us(self) -> float | None:
        """The time in which each distinct byte moves once at the measured bandwidth."""
        return self.least_us(self.distinct_bytes)

    def least_us(self, nbytes: int) -> float | None:
        """Return the time that bytes take at the measured bandwidth."""
        return nbytes / self.bandwidth / 1e3 if self.bandwidth else None

    @cached_property
    def kernels(self) -> list[KernelRow]:
        """The kernels, the one that takes the most time first."""
        groups: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            groups.setdefault(node["kernel_name"], []).append(i)
        return sorted((self.kernel(name, group) for name, group in groups.items()), key=self.order)

    @staticmethod
    def order(row: KernelRow) -> tuple[float, int, str]:
        """Return what kernels are sorted by."""
        return -(row.us or 0.0), -row.nodes, row.name

    def kernel(self, name: str, group: Iterable[int]) -> KernelRow:
        """Return the row of some nodes."""
        group = list(group)
        nbytes = sum(self.nbytes[i] for i in group)
        us = None if self.us is None else sum(self.us[i] for i in group)
        rate = nbytes / us / 1e3 if us else None
        share = rate / self.bandwidth if rate and self.bandwidth else None
        return KernelRow(name, len(group), nbytes, us, self.least_us(nbytes), rate, share)

    @cached_property
    def ladder(self) -> Ladder:
        """How its launches were made."""
        rungs = Counter(each["rung"] for each in self.launches)
        taken = {rung: [each["us"] for each in self.launches if each["rung"] == rung] for rung in rungs}
        on_device = [each for each in self.launches if each["device_us"] is not None]
        replays = [each["device_us"] for each in on_device if each["rung"] == "replay"]
        measured = replays or [each["device_us"] for each in on_device]
        return Ladder(
            {rung: rungs[rung] for rung in RUNG_NAMES if rungs[rung]},
            {rung: statistics.median(taken[rung]) for rung in RUNG_NAMES if rungs[rung]},
            statistics.median(measured) if measured else None,
            reasons_of(self.launches),
        )

    def caller(self, index: int) -> str:
        """Return the line that launched a node; empty where it was not noted."""
        line = self.nodes[index]["caller"]
        return f"{line['file']}:{line['line']} in {line['function']}" if line else ""


def bands_of(memory: dict[str, Any]) -> list[tuple[int, float]]:
    """Return where offsets of the intermediates' block are drawn, so that one large value leaves room for the others.

    Returns
    -------
    list of (int, float)
        The offsets at which values begin and end, ascending, and their places from 0 to 1; between two of them places
        are proportional. A band is as high as the square root of its bytes says.
    """
    ends = {value["offset"] + value["bytes"] for value in memory["values"]}
    offsets = sorted({0, memory["bytes"], *ends, *(value["offset"] for value in memory["values"])})
    places = [0.0, *accumulate((after - before) ** 0.5 for before, after in pairwise(offsets))]
    return [(offset, place / max(places[-1], 1.0)) for offset, place in zip(offsets, places)]


def reasons_of(launches: Iterable[dict[str, Any]]) -> list[tuple[str, str, str, int]]:
    """Return why launches were not replays, the most frequent reason first."""
    found: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in launches:
        if each["rung"] != "replay":
            # What comes behind the argument's name are its values, which differ from time to time.
            kind = each["rung"], each["reason"], each["difference"].rsplit(": ", 1)[0]
            found.setdefault(kind, (each["rung"], each["reason"], each["difference"]))
            counts[kind] += 1
    return [(*found[kind], count) for kind, count in counts.most_common()]


def figures(run: Run) -> list[Figures]:
    """Return the figures of each graph of a run: the most launched first."""
    made = [Figures(run, graph) for graph in run.graphs]
    return sorted(made, key=lambda each: (-len(each.launches), -len(each.nodes)))
