"""Runs: the graphs and launches of one process, as a file, a step or a program tells of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hiprt.errors import OutOfMemoryError
from hiprt.graphs.launch.timeline import FORMAT, graph_of
from hiprt.graphs.launch.timing import read_bandwidth
from hiprt.graphs.stats import explain
from hiprt.machine import machine
from hiprt.stream import Stream, current_stream

if TYPE_CHECKING:
    from hiprt.graphs.step import Step

__all__ = ["Run", "of_program", "of_step", "read"]


@dataclass
class Run:
    """The graphs and launches of one process.

    Attributes
    ----------
    name : str
        Where they are from, for the reader.
    graphs : list of dict
        As `hiprt.graphs.launch.timeline.graph_of` returns them.
    launches : list of dict
        As `hiprt.graphs.launch.timeline.Launch`.
    machine : dict
        As `hiprt.machine.machine` returns it; empty where that is not known.
    read_gb_s : float or None
        The device's measured read bandwidth.
    command : list of str
        The program and its arguments.
    left_out : dict
        How many ``launches`` and ``graphs`` were not kept because there were too many.
    """

    name: str
    graphs: list[dict[str, Any]]
    launches: list[dict[str, Any]] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=dict)
    read_gb_s: float | None = None
    command: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def only(self, step: str) -> Run:
        """Return what the run tells of one step.

        Raises
        ------
        ValueError
            It tells of no such step.
        """
        known = dict.fromkeys(each["name"] for each in self.graphs)
        if step not in known:
            raise ValueError(f"{self.name} has no step {step!r}; it has {', '.join(known) or 'none'}")
        graphs = [each for each in self.graphs if each["name"] == step]
        launches = [each for each in self.launches if each["step"] == step]
        return Run(self.name, graphs, launches, self.machine, self.read_gb_s, self.command, self.left_out)


def read(path: Path) -> Run:
    """Read what ``HIPRT_GRAPH_TRACE`` or ``HIPRT_GRAPH_DUMP`` wrote.

    Raises
    ------
    ValueError
        It is another kind of file, or of another version of hiprt.
    """
    wanted = "a file of HIPRT_GRAPH_TRACE or a JSON file of HIPRT_GRAPH_DUMP is needed"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(f"{path} is not JSON; {wanted}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} tells of no graph; {wanted}")
    whole = found.get("hiprt", found)
    if "nodes" in whole and "key" in whole:
        if "edges" not in whole:
            raise ValueError(f"{path} was dumped by an older hiprt; dump it again")
        return Run(path.name, [{"node_us": None, "event_us": None, "node_times": "not measured: a dump", **whole}])
    if "format" not in whole:
        raise ValueError(f"{path} tells of no graph; {wanted}")
    if whole["format"] != FORMAT:
        raise ValueError(f"{path} has the format {whole['format']!r}, and {FORMAT!r} is read here; trace again")
    names = ("graphs", "launches", "machine", "read_gb_s", "command", "left_out")
    return Run(path.name, **{name: whole[name] for name in names})


def of_step(step: Step[..., Any]) -> Run:
    """Time the graphs that a step launched last, and return them with the events that are known of it.

    What the graphs write is as before afterwards.

    Raises
    ------
    ValueError
        The step has launched nothing yet.
    """
    if not step.recordings:
        raise ValueError(f"step {step.name} has launched nothing yet: call it first")
    stream = step.stream or current_stream()
    graphs = [graph_of(recording, step.name, stream) for recording in step.recordings]
    launches = [
        {
            "step": event.step,
            "key": f"{event.key:016x}",
            "rung": event.rung,
            "reason": event.reason,
            "difference": event.difference,
            "us": event.seconds * 1e6,
            "ts": None,
            "device_us": None,
        }
        for event in explain()
        if event.step == step.name
    ]
    try:
        bandwidth = round(read_bandwidth(Stream(stream.device)), 1)
    except OutOfMemoryError:
        bandwidth = None
    return Run(step.name, graphs, launches, machine(), bandwidth)


def of_program(program: Path, arguments: Sequence[str] = ()) -> Run:
    """Run a Python program with ``HIPRT_GRAPH_TRACE`` set, and return what it traced.

    Raises
    ------
    ValueError
        The program failed, or launched no graph.
    """
    with tempfile.TemporaryDirectory(prefix="hiprt-trace-") as folder:
        file = Path(folder) / f"{program.name}.json"
        environment = {**os.environ, "HIPRT_GRAPH_TRACE": str(file)}
        # What the program prints goes to stderr: stdout is for what is shown.
        ran = subprocess.run([sys.executable, str(program), *arguments], env=environment, stdout=2, check=False)
        if ran.returncode:
            raise ValueError(f"{program} ended with status {ran.returncode}")
        if not file.exists():
            raise ValueError(f"{program} launched no step, so there is nothing to show")
        return read(file)
