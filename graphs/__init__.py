"""Per-token graphs: record a step's launches, derive its edges, launch it as one executable graph, reuse it."""

from hiprt.graphs.dump import as_dict, dot
from hiprt.graphs.exec import Exec
from hiprt.graphs.kept import Kept
from hiprt.graphs.ladder import Ladder
from hiprt.graphs.probe import probes
from hiprt.graphs.recording import Node, Recording
from hiprt.graphs.stats import RUNGS, Event, Stats, explain, stats
from hiprt.graphs.step import Step, step

__all__ = [
    "RUNGS",
    "Event",
    "Exec",
    "Kept",
    "Ladder",
    "Node",
    "Recording",
    "Stats",
    "Step",
    "as_dict",
    "dot",
    "explain",
    "probes",
    "stats",
    "step",
]
