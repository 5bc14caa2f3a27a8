"""Runs that are made up, to be shown."""

from hiprt.graphs.view.run import Run

WHY = {
    "instantiate": ("first of this topology", ""),
    "replay": ("", ""),
    "eager": ("hipGraphLaunch: hipErrorUnknown (999)", ""),
}


def made_run(*, nodes, launches=(), kernels=1, step="decode", key="00000000000000aa", names="kernel {}"):
    """A run of one graph: a chain of nodes, each of which takes 2 us and reads 3,000 bytes and writes 1,000."""
    made = [
        {
            "index": i,
            "node_type": "kernel",
            "kernel_name": names.format(i % kernels),
            "grid": [4, 1, 1],
            "block": [64, 1, 1],
            "shared_bytes": 0,
            "arguments": {"x": 1000 * i, "n": 250},
            "accesses": [
                {"buffer": "x", "access": "read", "start": 1000 * i, "end": 1000 * (i + 1)},
                {"buffer": "w", "access": "read", "start": 10**9 + 2000 * i, "end": 10**9 + 2000 * (i + 1)},
                {"buffer": "out", "access": "write", "start": 1000 * (i + 1), "end": 1000 * (i + 2)},
            ],
            "bytes_read": 3000,
            "bytes_written": 1000,
            "caller": {"file": "/home/me/engine.py", "line": 10 + i % 7, "function": "decode"},
            "dependencies": [i - 1] if i else [],
            "dependents": [i + 1] if i + 1 < nodes else [],
        }
        for i in range(nodes)
    ]
    edges = [
        {
            "before": i - 1,
            "after": i,
            "hazards": [{"kind": "RAW", "before": "out", "after": "x", "start": 1000 * i, "end": 1000 * i + 1000}],
        }
        for i in range(1, nodes)
    ]
    values = [
        {
            "offset": i % 4 * 256,
            "bytes": 256,
            "first": i,
            "last": min(nodes - 1, i + 2),
            "is_result": i == nodes - 1,
            "over": 0 if i == 4 else None,
        }
        for i in range(nodes)
    ]
    graph = {
        "name": step,
        "key": key,
        "nodes": made,
        "edges": edges,
        "memory": {"start": 0, "bytes": 1024, "lower_bound": 512, "values": values},
        "node_us": [2.0] * nodes,
        "event_us": 1.0,
        "node_times": "made up",
        "ts": 0.0,
    }
    taken = [
        {
            "step": step,
            "key": key,
            "rung": rung,
            "reason": WHY.get(rung, (f"arguments of 1 of {nodes} nodes changed",))[0],
            "difference": WHY[rung][1] if rung in WHY else f"node 0 ({names.format(0)}) n: {i} -> {i + 1}",
            "nodes": nodes,
            "thread": 1,
            "stream": 0,
            "ts": 100.0 * i,
            "us": {"replay": 3.0, "patch": 20.0}.get(rung, 400.0),
            "device_ts": 100.0 * i + 5,
            "device_us": 7.0,
        }
        for i, rung in enumerate(launches)
    ]
    machine = {"device": "a device", "provider": "cpu", "library": "7.2", "hiprt": "0.1.0", "commit": None, "date": ""}
    return Run("made up", [graph], taken, machine, 1.0, ["engine.py"], {"launches": 0, "graphs": 0})
