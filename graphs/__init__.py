"""Per-token graphs: record a step's launches, derive its edges, launch it as one executable graph, reuse it."""

from hiprt.graphs.exec import Exec
from hiprt.graphs.recording import Node, Recording
from hiprt.graphs.step import RUNGS, Step

__all__ = ["RUNGS", "Exec", "Node", "Recording", "Step"]
