"""Drawings, statistics, explanations, traces."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.kernels import mix, scale

import hiprt
from hiprt import graphs


@pytest.fixture
def step(stream):
    """A step of three nodes."""
    x = hiprt.array(np.ones(100, np.float32))
    return graphs.Step(lambda: mix(scale(x, 2.0), scale(x, 3.0)), name="three nodes", stream=stream)


def test_instantiated_graphs_are_dumped(step, tmp_path):
    """HIPRT_GRAPH_DUMP: DOT and JSON of each, with names, dimensions, arguments and edges."""
    with hiprt.flags.override(graph_dump=str(tmp_path / "new")):
        step()
        step()
    (drawing,) = (tmp_path / "new").glob("three_nodes-*.dot")
    text = drawing.read_text()
    assert "n0 -> n2;" in text
    assert "n1 -> n2;" in text
    assert "2 mix\\n2x1x1 of 64x1x1" in text
    data = json.loads(drawing.with_suffix(".json").read_text())
    assert [node["kernel_name"] for node in data["nodes"]] == ["scale", "scale", "mix"]
    assert data["nodes"][2]["dependencies"] == [0, 1]
    assert data["nodes"][0]["dependents"] == [2]
    assert data["nodes"][1]["arguments"]["by"] == 3.0
    assert data["nodes"][0]["arguments"]["n"] == 100


def test_explain_names_what_changed(stream, capsys):
    """HIPRT_GRAPH_EXPLAIN: a line per rung other than replay, with key and first difference."""
    out, factor = hiprt.empty(10), 1.0
    x = hiprt.array(np.ones(10, np.float32))

    def function():
        out.copy_from(scale(x, factor))

    step = graphs.Step(function, name="explained", stream=stream, keep=False)
    with hiprt.flags.override(graph_explain=True):
        step()
        stream.synchronize()
        factor = 2.0
        step()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].split()[0] for line in lines] == ["explained", "explained"]
    assert "instantiate: first of this topology" in lines[0]
    assert "node 0 (scale) by: 1.0 -> 2.0" in lines[1]


SCRIPT = """
import numpy as np, hiprt
from hiprt import graphs
x = hiprt.zeros(16)
step = graphs.Step(lambda: x.fill_bytes(0), name="mine")
for _ in range(5):
    step()
hiprt.current_stream().synchronize()
"""


def run(**environment):
    """Run the script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )


def test_statistics_at_exit_as_table():
    """HIPRT_GRAPH_STATS=1."""
    text = run(HIPRT_GRAPH_STATS="1").stderr
    assert "replay" in text
    row = next(line for line in text.splitlines() if "mine" in line)
    assert row.split()[2:] == ["4", "0", "0", "1", "0"]


def test_statistics_at_exit_as_json(tmp_path):
    """HIPRT_GRAPH_STATS=path."""
    run(HIPRT_GRAPH_STATS=str(tmp_path / "stats.json"))
    steps = json.loads((tmp_path / "stats.json").read_text())["steps"]
    assert steps["mine"]["rungs"]["replay"] == 4


def test_trace_is_chrome_s_format(tmp_path):
    """HIPRT_GRAPH_TRACE: one event a launch, in microseconds."""
    run(HIPRT_GRAPH_TRACE=str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["args"]["rung"] for event in events] == ["instantiate", *["replay"] * 4]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)
