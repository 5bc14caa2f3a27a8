"""Drawings of recordings: DOT for people, JSON for scripts, and the Chrome trace of what was launched when.

The JSON uses the field names of torch's ``get_graph_data`` (torch/cuda/graphs.py), so that scripts for it work here.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from hiprt.flags import flags
from hiprt.graphs.record.recording import Node, Recording

__all__ = ["as_dict", "dot", "dump", "trace"]

numbers = itertools.count()
started = time.perf_counter()
trace_events: list[dict[str, Any]] = []
MAX_TRACE_EVENTS = 1_000_000


def as_dict(recording: Recording, name: str = "") -> dict[str, Any]:
    """Return a recording as plain values.

    Returns
    -------
    dict
        ``name``, ``key`` and ``nodes``: for each its index, type, kernel_name, dimensions, arguments, dependencies and
        dependents.
    """
    nodes = recording.nodes()
    dependents: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before in node.dependencies:
            dependents[before].append(i)
    return {
        "name": name,
        "key": f"{recording.key:016x}",
        "nodes": [
            {
                "index": i,
                "node_type": node.kind,
                "kernel_name": node.name,
                "grid": node.grid,
                "block": node.block,
                "shared_bytes": node.shared,
                "arguments": {k: v.hex() if isinstance(v, bytes) else v for k, v in node.arguments.items()},
                "dependencies": node.dependencies,
                "dependents": dependents[i],
            }
            for i, node in enumerate(nodes)
        ],
    }


def dot(recording: Recording, name: str = "graph") -> str:
    """Return a recording as Graphviz text: a box a node with its dimensions, an arrow an edge."""
    lines = [f'digraph "{name}" {{', "  node [shape=box, fontname=monospace];"]
    for i, node in enumerate(recording.nodes()):
        lines.append(f'  n{i} [label="{label(i, node)}"];')
        lines += [f"  n{before} -> n{i};" for before in node.dependencies]
    return "\n".join([*lines, "}", ""])


def label(index: int, node: Node) -> str:
    """Return a node's text."""
    if node.kind != "kernel":
        return f"{index} {node.name}"
    sizes = "x".join(map(str, node.grid)) + " of " + "x".join(map(str, node.block))
    return f"{index} {node.name}\\n{sizes}"


def dump(recording: Recording, name: str) -> None:
    """Write a recording into ``HIPRT_GRAPH_DUMP``, if that is set."""
    if not flags.graph_dump:
        return
    folder = Path(flags.graph_dump)
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    stem = f"{safe}-{os.getpid()}-{next(numbers):04d}"
    (folder / f"{stem}.dot").write_text(dot(recording, name))
    (folder / f"{stem}.json").write_text(json.dumps(as_dict(recording, name), indent=1))


def trace(name: str, rung: str, start: float, nodes: int) -> None:
    """Note what the host did since `start` (perf_counter seconds) for ``HIPRT_GRAPH_TRACE``, if that is set."""
    if not flags.graph_trace or len(trace_events) >= MAX_TRACE_EVENTS:
        return
    now = time.perf_counter()
    trace_events.append(
        {
            "name": f"{name}: {rung}",
            "ph": "X",
            "ts": (start - started) * 1e6,
            "dur": (now - start) * 1e6,
            "pid": os.getpid(),
            "tid": threading.get_ident(),
            "args": {"rung": rung, "nodes": nodes},
        }
    )


def write_trace() -> None:
    """Write the trace at exit."""
    if flags.graph_trace and trace_events:
        Path(flags.graph_trace).write_text(json.dumps({"traceEvents": trace_events}))


atexit.register(write_trace)
