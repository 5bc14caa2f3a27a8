"""Comparisons: what is different between two runs of one step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from hiprt.graphs.view.figures import Figures, KernelRow

__all__ = ["Comparison", "compare", "paired"]


@dataclass(frozen=True)
class Comparison:
    """What is different between two graphs, the one before and the one after a change.

    Attributes
    ----------
    before, after : Figures
    kernels : list of (str, KernelRow or None, KernelRow or None)
        The kernels of both by name, the one whose time differs the most first; None where one has no such kernel.
    first_node : str
        The first node that is not the same kernel with the same dimensions; empty where all are.
    """

    before: Figures
    after: Figures
    kernels: list[tuple[str, KernelRow | None, KernelRow | None]]
    first_node: str


def shape(node: dict[str, Any]) -> str:
    """Return a node's kernel and dimensions."""
    sizes = "x".join(map(str, node["grid"])) + " of " + "x".join(map(str, node["block"]))
    return f"{node['kernel_name']}, {sizes}" if node["node_type"] == "kernel" else str(node["kernel_name"])


def compare(before: Figures, after: Figures) -> Comparison:
    """Compare two graphs."""
    ours = {row.name: row for row in before.kernels}
    theirs = {row.name: row for row in after.kernels}
    rows = [(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]

    def weight(row: tuple[str, KernelRow | None, KernelRow | None]) -> tuple[float, int]:
        times = [each.us or 0.0 if each else 0.0 for each in row[1:]]
        counts = [each.nodes if each else 0 for each in row[1:]]
        return -abs(times[1] - times[0]), -abs(counts[1] - counts[0])

    first = ""
    for index, (one, other) in enumerate(zip_longest(before.nodes, after.nodes)):
        texts = [shape(node) if node else "no such node" for node in (one, other)]
        if texts[0] != texts[1]:
            first = f"node {index}: {texts[0]} -> {texts[1]}"
            break
    return Comparison(before, after, sorted(rows, key=weight), first)


def paired(before: list[Figures], after: list[Figures]) -> list[Comparison]:
    """Compare the graphs of two runs: those of one topology first, else those of one step, else one with one."""
    found, left, right = [], list(before), list(after)
    for same in (lambda a, b: (a.name, a.key) == (b.name, b.key), lambda a, b: a.name == b.name):
        for one in list(left):
            other = next((each for each in right if same(one, each)), None)
            if other is not None:
                left.remove(one)
                right.remove(other)
                found.append(compare(one, other))
    if not found and len(left) == len(right) == 1:
        found.append(compare(left[0], right[0]))
    return found
