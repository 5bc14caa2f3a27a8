"""Per-token graphs: a step's launches are recorded, and launched as one executable graph that later steps reuse.

``record/`` holds what a step launched, ``launch/`` how that is launched, ``trace/`` functions as programs
(`hiprt.compile`), and ``GUARANTEES.md`` what always holds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hiprt.graphs.adopted import Adopted, adopt
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.launch.kept_call import KeptCall
from hiprt.graphs.launch.ladder import Ladder
from hiprt.graphs.launch.probes import probes
from hiprt.graphs.record.captured import capture
from hiprt.graphs.record.dump import as_dict, dot
from hiprt.graphs.record.node import Node
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import RUNG_NAMES, Event, Stats, explain, stats
from hiprt.graphs.step import Step, step

if TYPE_CHECKING:
    from hiprt.graphs.view.view import View, show

__all__ = [
    "RUNG_NAMES",
    "Adopted",
    "Event",
    "Exec",
    "KeptCall",
    "Ladder",
    "Node",
    "Recording",
    "Stats",
    "Step",
    "View",
    "adopt",
    "as_dict",
    "capture",
    "dot",
    "explain",
    "probes",
    "show",
    "stats",
    "step",
]


def __getattr__(name: str) -> Any:
    """Import what only those who look at graphs need."""
    if name in ("View", "show"):
        return getattr(import_module("hiprt.graphs.view.view"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
