"""The timeline (``HIPRT_GRAPH_TRACE``): what was launched when, in Chrome's trace format."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from hiprt.flags import flags

__all__ = ["trace"]

MOST_EVENTS = 1_000_000
started = time.perf_counter()
events: list[dict[str, Any]] = []


def trace(name: str, rung: str, start: float, nodes: int) -> None:
    """Note what the host did for a launch, if ``HIPRT_GRAPH_TRACE`` is set.

    Parameters
    ----------
    name : str
        The step's name.
    rung : str
        The rung that was taken.
    start : float
        When it began, in seconds of `time.perf_counter`.
    nodes : int
        Number of nodes launched.
    """
    if not flags.graph_trace or len(events) >= MOST_EVENTS:
        return
    now = time.perf_counter()
    events.append(
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


def write() -> None:
    """Write the timeline at exit."""
    if flags.graph_trace and events:
        Path(flags.graph_trace).write_text(json.dumps({"traceEvents": events}))


atexit.register(write)
