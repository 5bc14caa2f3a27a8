"""The page: one HTML file with its style, its program and its data, which loads nothing from elsewhere."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hiprt.graphs.view.compare import Comparison, shape
from hiprt.graphs.view.figures import Figures, bands_of
from hiprt.graphs.view.run import Run

__all__ = ["page", "page_data"]

FOLDER = Path(__file__).parent


class Strings:
    """Texts that are said once and meant by their number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, text: str) -> int:
        """Return the number of a text."""
        return self.numbers.setdefault(text, len(self.numbers))


def page(runs: Sequence[Run], graphs: Sequence[Sequence[Figures]], comparisons: Sequence[Comparison]) -> str:
    """Return the page that shows runs, their graphs, and what is different between them."""
    data = json.dumps(page_data(runs, graphs, comparisons), separators=(",", ":"))
    parts = {
        "TITLE": html.escape(" and ".join(run.name for run in runs)),
        "STYLE": (FOLDER / "page.css").read_text(),
        "PROGRAM": (FOLDER / "page.js").read_text(),
        # Nothing in the data may end the element that it lies in.
        "DATA": data.replace("<", "\\u003c"),
    }
    text = (FOLDER / "page.html").read_text()
    for name, part in parts.items():
        text = text.replace(f"{{{{{name}}}}}", part)
    return text


def page_data(
    runs: Sequence[Run], graphs: Sequence[Sequence[Figures]], comparisons: Sequence[Comparison]
) -> dict[str, Any]:
    """Return what the page's program reads: columns instead of objects, and each text once."""
    places = {id(each): [i, k] for i, group in enumerate(graphs) for k, each in enumerate(group)}
    return {
        "runs": [
            {
                "name": run.name,
                "machine": run.machine,
                "command": " ".join(run.command),
                "bandwidth": run.read_gb_s,
                "leftOut": run.left_out,
                "graphs": [graph_data(each) for each in group],
            }
            for run, group in zip(runs, graphs)
        ],
        "comparisons": [
            {
                "before": places[id(each.before)],
                "after": places[id(each.after)],
                "firstNode": each.first_node,
                "kernels": [
                    [name, *(part for row in pair for part in ((row.nodes, row.us) if row else (0, 0)))]
                    for name, *pair in each.kernels
                ],
            }
            for each in comparisons
        ],
    }


def graph_data(graph: Figures) -> dict[str, Any]:
    """Return one graph for the page."""
    strings, plan = Strings(), graph.schedule
    memory = graph.graph["memory"]
    ladder = graph.ladder
    return {
        "step": graph.name,
        "key": graph.key,
        "unit": graph.unit,
        "method": graph.graph["node_times"],
        "length": round(plan.length, 3),
        "totalUs": graph.total_us,
        "floorUs": graph.floor_us,
        "distinctBytes": graph.distinct_bytes,
        "deviceUs": ladder.device_us,
        "critical": plan.critical,
        "kernels": [
            [row.name, row.nodes, row.nbytes, row.us, row.floor_us, row.gb_s, row.share] for row in graph.kernels
        ],
        "nodes": nodes_data(graph, strings),
        "edges": edges_data(graph, strings),
        "memory": None if memory is None else memory_data(memory),
        "rungs": [[rung, count, ladder.host_us[rung]] for rung, count in ladder.rungs.items()],
        "reasons": ladder.reasons,
        "launches": launches_data(graph, strings),
        "strings": list(strings.numbers),
    }


def nodes_data(graph: Figures, strings: Strings) -> dict[str, list[Any]]:
    """Return the columns of a graph's nodes."""
    nodes, plan = graph.nodes, graph.schedule
    return {
        "name": [strings.of(node["kernel_name"]) for node in nodes],
        "shape": [strings.of(shape(node)) for node in nodes],
        "caller": [strings.of(graph.caller(i)) for i in range(len(nodes))],
        "start": [round(start, 3) for start in plan.start],
        "us": graph.us or [1] * len(nodes),
        "row": plan.row,
        "read": [node["bytes_read"] for node in nodes],
        "written": [node["bytes_written"] for node in nodes],
        "accesses": [
            [strings.of(f"{a['access']} {a['buffer']}, {hex(a['start'])} + {a['end'] - a['start']:,}") for a in each]
            for each in (node["accesses"] for node in nodes)
        ],
        "arguments": [strings.of(arguments_text(node)) for node in nodes],
    }


def arguments_text(node: dict[str, Any]) -> str:
    """Return the arguments of a node, the addresses of its buffers in hexadecimal digits."""
    buffers = {access["buffer"] for access in node["accesses"]}
    values = node["arguments"].items()
    return ", ".join(f"{name}={hex(value) if name in buffers else value}" for name, value in values)


def edges_data(graph: Figures, strings: Strings) -> dict[str, list[int]]:
    """Return the columns of a graph's edges."""
    edges = graph.graph["edges"]
    texts = ["; ".join(map(hazard_text, edge["hazards"])) for edge in edges]
    return {
        "before": [edge["before"] for edge in edges],
        "after": [edge["after"] for edge in edges],
        "why": [strings.of(text) for text in texts],
    }


def hazard_text(hazard: dict[str, Any]) -> str:
    """Return why an edge is there, in words."""
    if "start" not in hazard:
        return str(hazard["kind"])
    return f"{hazard['kind']} {hazard['before']} → {hazard['after']}, {hazard['end'] - hazard['start']:,} bytes"


def memory_data(memory: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a graph's intermediates in columns; a value's head is the first of its chain in place."""
    values = memory["values"]
    return {
        "bytes": memory["bytes"],
        "lowerBound": memory["lower_bound"],
        "bands": [[offset, round(place, 5)] for offset, place in bands_of(memory)],
        "offset": [value["offset"] for value in values],
        "size": [value["bytes"] for value in values],
        "first": [value["first"] for value in values],
        "last": [value["last"] for value in values],
        "result": [int(value["is_result"]) for value in values],
        "over": [-1 if value["over"] is None else value["over"] for value in values],
    }


def launches_data(graph: Figures, strings: Strings) -> dict[str, list[Any]]:
    """Return the columns of a graph's launches."""
    why = ["; ".join(text for text in (each["reason"], each["difference"]) if text) for each in graph.launches]
    return {
        "rung": [strings.of(each["rung"]) for each in graph.launches],
        "us": [round(each["us"], 2) for each in graph.launches],
        "device": [each["device_us"] for each in graph.launches],
        "why": [strings.of(text) for text in why],
    }
