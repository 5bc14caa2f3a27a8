"""Drawings of recordings (``HIPRT_GRAPH_DUMP``): DOT for people, JSON for scripts.

The JSON has the field names of torch's ``get_graph_data``, so that scripts for it work here, and beside them what each
node touches, why each edge is there, and how the intermediates share memory.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from hiprt.flags import flags
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.hazards import Access, hazards
from hiprt.graphs.record.node import Node
from hiprt.graphs.record.recording import Recording
from hiprt.module import READ, READ_WRITE, WRITE

__all__ = ["accesses", "as_dict", "dot", "dump"]

numbers = itertools.count()
WORDS = {READ: "read", WRITE: "write", READ_WRITE: "update"}
# What a node that is no kernel calls the memory that it declares.
BUFFERS = {"copy": ("src", "dst"), "fill": ("dst",)}


def accesses(recording: Recording, index: int, node: Node) -> list[Access]:
    """Return the memory that a node declares, by the names that its kernel has for it."""
    names = BUFFERS.get(node.kind, ())
    if node.function is not None:
        names = tuple(argument.name for argument in node.function.arguments if argument.access)
    return [
        Access(names[k] if k < len(names) else f"buffer {k}", start, end, access)
        for k, (start, end, access) in enumerate(declared(recording, index))
    ]


def as_dict(recording: Recording, name: str = "") -> dict[str, Any]:
    """Return a recording as plain values.

    Returns
    -------
    dict
        ``name``, ``key``, ``nodes``, ``edges`` and ``memory``. Each of the nodes has its index, node_type, kernel_name,
        dimensions, ``is_foreign`` (whether other code launched it), arguments, ``accesses`` (the buffer, whether it is
        read, written or updated, its first address and one past the last), the bytes that it declares to read and to
        write, ``caller`` (file, line and function that launched it, or None where these were not noted), dependencies
        and dependents. Each of the edges has the node before, the one ``after``, and ``hazards``: the kind (RAW, WAR or
        WAW; ``barrier`` where a node says nothing of what it writes, ``order`` where a flag asks for the edge), what
        both call the buffer, and the range of addresses. ``memory`` is the block of the intermediates, or None:
        ``start``, ``bytes``, ``lower_bound`` and ``values``, each with its offset and size, the first and the last node
        that touch it, whether it is a result, and the value that it is written over in place, or None.
    """
    nodes = recording.nodes()
    touched = [accesses(recording, i, node) for i, node in enumerate(nodes)]
    reasons = hazards(touched)
    dependents: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for before in node.dependencies:
            dependents[before].append(i)
    callers = recording.callers if len(recording.callers) == len(nodes) else [None] * len(nodes)
    is_barrier = [not any(access.access & WRITE for access in each) for each in touched]
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
                "is_foreign": node.is_foreign,
                "arguments": {k: v.hex() if isinstance(v, bytes) else v for k, v in node.arguments.items()},
                "accesses": [
                    {"buffer": a.buffer, "access": WORDS[a.access], "start": a.start, "end": a.end} for a in touched[i]
                ],
                "bytes_read": sum(a.end - a.start for a in touched[i] if a.access & READ),
                "bytes_written": sum(a.end - a.start for a in touched[i] if a.access & WRITE),
                "caller": None if (line := callers[i]) is None else line._asdict(),
                "dependencies": node.dependencies,
                "dependents": dependents[i],
            }
            for i, node in enumerate(nodes)
        ],
        "edges": [
            {
                "before": before,
                "after": i,
                "hazards": [hazard._asdict() for hazard in reasons[i].get(before, [])]
                or [{"kind": "barrier" if is_barrier[before] or is_barrier[i] else "order"}],
            }
            for i, node in enumerate(nodes)
            for before in node.dependencies
        ],
        "memory": memory(recording),
    }


def memory(recording: Recording) -> dict[str, Any] | None:
    """Return how the intermediates of a recording share a block of memory; None where they share none."""
    if recording.layout is None:
        return None
    start, plan = recording.layout
    return {
        "start": start,
        "bytes": plan.nbytes,
        "lower_bound": plan.lower_bound,
        "values": [
            {
                "offset": offset,
                "bytes": request.nbytes,
                "first": request.users[0],
                "last": request.users[-1],
                "is_result": request.is_result,
                "over": None if head == i else head,
            }
            for i, (offset, request, head) in enumerate(zip(plan.offsets, plan.requests, plan.heads))
            if request.users
        ],
    }


def dot(recording: Recording, name: str = "graph") -> str:
    """Return a recording as Graphviz text: a box for each node, with its dimensions, and an arrow for each edge."""
    return drawing(as_dict(recording, name))


def drawing(graph: dict[str, Any]) -> str:
    """Return what `as_dict` returned as Graphviz text."""
    lines = [f'digraph "{graph["name"]}" {{', "  node [shape=box, fontname=monospace];"]
    lines.append("  edge [fontname=monospace, fontsize=10];")
    lines += [f'  n{node["index"]} [label="{label(node)}"];' for node in graph["nodes"]]
    for edge in graph["edges"]:
        lines.append(f'  n{edge["before"]} -> n{edge["after"]} [label="{reason(edge["hazards"])}"];')
    return "\n".join([*lines, "}", ""])


def label(node: dict[str, Any]) -> str:
    """Return the text in a node's box."""
    if node["node_type"] != "kernel":
        return f"{node['index']} {node['kernel_name']}"
    sizes = "x".join(map(str, node["grid"])) + " of " + "x".join(map(str, node["block"]))
    by = "\\nby other code" if node["is_foreign"] else ""
    return f"{node['index']} {node['kernel_name']}\\n{sizes}{by}"


def reason(found: list[dict[str, Any]]) -> str:
    """Return the text at an edge: a line for each kind of hazard and buffer."""
    lines: dict[str, int] = {}
    for hazard in found:
        text = f"{hazard['kind']} {hazard['after']}" if "after" in hazard else hazard["kind"]
        lines[text] = lines.get(text, 0) + hazard.get("end", 0) - hazard.get("start", 0)
    return "\\n".join(f"{text}, {nbytes:,} bytes" if nbytes else text for text, nbytes in lines.items())


def dump(recording: Recording, name: str) -> None:
    """Write a recording into ``HIPRT_GRAPH_DUMP``, if that is set."""
    if not flags.graph_dump:
        return
    folder = Path(flags.graph_dump)
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
    stem = f"{safe}-{os.getpid()}-{next(numbers):04d}"
    graph = as_dict(recording, name)
    (folder / f"{stem}.dot").write_text(drawing(graph))
    (folder / f"{stem}.json").write_text(json.dumps(graph, indent=1))
