"""Views: one run or two, as a page, as text or as plain values."""

from __future__ import annotations

import html
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiprt.graphs.view.compare import Comparison, paired
from hiprt.graphs.view.figures import Figures, figures
from hiprt.graphs.view.page import page
from hiprt.graphs.view.run import Run, of_step
from hiprt.graphs.view.text import comparison_text, graph_text

if TYPE_CHECKING:
    from hiprt.graphs.step import Step

__all__ = ["View", "show"]


class View:
    """What one run launched, or what is different between two.

    Printing it gives the text that ``hiprt graph show`` prints, and a notebook shows the page.

    Parameters
    ----------
    *runs : Run
        One, or the one before and the one after a change.
    """

    def __init__(self, *runs: Run) -> None:
        self.runs = runs

    @cached_property
    def graphs(self) -> list[list[Figures]]:
        """The graphs of each run, the most launched first."""
        return [figures(run) for run in self.runs]

    @cached_property
    def comparisons(self) -> list[Comparison]:
        """What is different between the graphs of two runs; nothing for one run."""
        return paired(*self.graphs) if len(self.runs) == 2 else []

    def html(self) -> str:
        """Return the page: one file without references to others."""
        return page(self.runs, self.graphs, self.comparisons)

    def write(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html())

    def text(self, width: int = 0) -> str:
        """Return the view as text, in lines of at most so many characters; 0 takes the terminal's width."""
        if len(self.runs) == 2:
            parts = [comparison_text(each, width) for each in self.comparisons]
            return "\n\n".join(parts) or "the runs have no step in common"
        return "\n\n".join(graph_text(each, width) for each in self.graphs[0]) or "the run has no graph"

    def values(self) -> dict[str, Any]:
        """Return what is shown as plain values."""
        return {
            "runs": [
                {
                    "name": run.name,
                    "machine": run.machine,
                    "read_gb_s": run.read_gb_s,
                    "graphs": list(map(values, each)),
                }
                for run, each in zip(self.runs, self.graphs)
            ],
            "comparisons": [
                {
                    "before": {"step": each.before.name, "key": each.before.key},
                    "after": {"step": each.after.name, "key": each.after.key},
                    "first_node": each.first_node,
                    "kernels": [
                        {"name": name, "before": one and asdict(one), "after": other and asdict(other)}
                        for name, one, other in each.kernels
                    ],
                }
                for each in self.comparisons
            ],
        }

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html())}" style="width: 100%; height: 800px; border: 0"></iframe>'


def values(graph: Figures) -> dict[str, Any]:
    """Return the figures of a graph as plain values."""
    plan = graph.schedule
    return {
        "step": graph.name,
        "key": graph.key,
        "nodes": len(graph.nodes),
        "edges": len(graph.graph["edges"]),
        "node_times": graph.graph["node_times"],
        "node_us": graph.us,
        "total_us": graph.total_us,
        "floor_us": graph.floor_us,
        "distinct_bytes": graph.distinct_bytes,
        "critical_path": {"unit": graph.unit, "length": plan.length, "nodes": plan.critical},
        "kernels": [asdict(row) for row in graph.kernels],
        "memory": graph.graph["memory"],
        "ladder": asdict(graph.ladder),
    }


def show(step: Step[..., Any]) -> View:
    """Return a view of what a step launched last, its nodes timed now.

    To time them, the nodes run once more, one by one, and what they wrote is put back.

    Parameters
    ----------
    step : Step
        It has been called.

    Returns
    -------
    View

    Raises
    ------
    ValueError
        The step has launched nothing yet.

    Examples
    --------
    >>> graphs.show(step).write("step.html")
    """
    return View(of_step(step))
