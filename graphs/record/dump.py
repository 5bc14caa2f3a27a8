"""Drawings of recordings (``HIPRT_GRAPH_DUMP``): DOT for people, JSON for scripts.

The JSON has the field names of torch's ``get_graph_data``, so that scripts for it work here.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from hiprt.flags import flags
from hiprt.graphs.record.recording import Node, Recording

__all__ = ["as_dict", "dot", "dump"]

numbers = itertools.count()


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
    """Return a recording as Graphviz text: a box for each node, with its dimensions, and an arrow for each edge."""
    lines = [f'digraph "{name}" {{', "  node [shape=box, fontname=monospace];"]
    for i, node in enumerate(recording.nodes()):
        lines.append(f'  n{i} [label="{label(i, node)}"];')
        lines += [f"  n{before} -> n{i};" for before in node.dependencies]
    return "\n".join([*lines, "}", ""])


def label(index: int, node: Node) -> str:
    """Return the text in a node's box."""
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
