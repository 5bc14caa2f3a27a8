"""Drawings, statistics, explanations."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers import kernels as kernel_helpers
from helpers.kernels import functions, mix, scale
from hypothesis import given, strategies as st

import hiprt
from hiprt import graphs, kernels
from hiprt.graphs.record.hazards import Access, hazards
from hiprt.module import READ, READ_WRITE, WRITE


@pytest.fixture
def step(stream):
    """A step of three nodes."""
    x = hiprt.array(np.ones(100, np.float32))
    return graphs.Step(lambda: mix(scale(x, 2.0), scale(x, 3.0)), name="three nodes", stream=stream)


def test_instantiated_graphs_are_dumped(step, tmp_path):
    """HIPRT_GRAPH_DUMP: DOT and JSON of each, with names, dimensions, arguments, and why each edge is there."""
    with hiprt.flags.override(graph_dump=str(tmp_path / "new")):
        step()
        step()
    (drawing,) = (tmp_path / "new").glob("three_nodes-*.dot")
    text = drawing.read_text()
    assert 'n0 -> n2 [label="RAW a, 400 bytes"];' in text
    assert 'n1 -> n2 [label="RAW b, 400 bytes"];' in text
    assert "2 mix\\n2x1x1 of 64x1x1" in text
    data = json.loads(drawing.with_suffix(".json").read_text())
    assert [node["kernel_name"] for node in data["nodes"]] == ["scale", "scale", "mix"]
    assert data["nodes"][2]["dependencies"] == [0, 1]
    assert data["nodes"][0]["dependents"] == [2]
    assert data["nodes"][1]["arguments"]["by"] == 3.0
    assert data["nodes"][0]["arguments"]["n"] == 100
    first, third = data["nodes"][0], data["nodes"][2]
    assert [(a["buffer"], a["access"], a["end"] - a["start"]) for a in first["accesses"]] == [
        ("x", "read", 400),
        ("y", "write", 400),
    ]
    assert (third["bytes_read"], third["bytes_written"]) == (800, 400)
    made = first["accesses"][1]
    assert data["edges"][0] == {
        "before": 0,
        "after": 2,
        "hazards": [{"kind": "RAW", "before": "y", "after": "a", "start": made["start"], "end": made["end"]}],
    }
    assert {node["caller"]["file"] for node in data["nodes"]} == {kernel_helpers.__file__}
    assert {node["caller"]["function"] for node in data["nodes"]} == {"launch"}
    memory = data["memory"]
    assert [(v["bytes"], v["first"], v["last"], v["is_result"]) for v in memory["values"]] == [
        (400, 0, 2, False),
        (400, 1, 2, False),
        (400, 2, 2, True),
    ]
    assert memory["values"][0]["offset"] == made["start"] - memory["start"]


def test_lines_are_noted_only_where_a_flag_asks_for_them(step):
    """Without a flag a recording has none, and a node of it no caller."""
    step()
    (recording,) = step.recordings
    assert recording.callers == []
    assert graphs.as_dict(recording)["nodes"][0]["caller"] is None
    step.forget()
    with hiprt.flags.override(graph_explain=True):
        step()
    assert [line.function for line in step.recordings[0].callers] == ["launch"] * 3


def test_a_caller_is_the_line_outside_of_the_library(stream, tmp_path):
    """Ops call kernels from inside of the library; the line that called the op is named."""
    x = hiprt.array(np.ones(10, np.float32))

    def token():
        kernels.add(x, 1.0)
        return kernels.multiply(x, 2.0)

    step = graphs.Step(token, stream=stream)
    with hiprt.flags.override(graph_dump=str(tmp_path)):
        step()
    (file,) = tmp_path.glob("token-*.json")
    lines = [node["caller"] for node in json.loads(file.read_text())["nodes"]]
    begin = token.__code__.co_firstlineno
    assert [(each["file"], each["line"] - begin, each["function"]) for each in lines] == [
        (__file__, 1, "token"),
        (__file__, 2, "token"),
    ]


def test_what_is_written_in_place_is_dumped(stream, tmp_path):
    """A value that continues the memory of another one names it."""
    x = hiprt.array(np.ones(1000, np.float32))
    step = graphs.Step(lambda: kernels.multiply(kernels.add(kernels.add(x, 1.0), 2.0), 3.0), stream=stream)
    with hiprt.flags.override(graph_dump=str(tmp_path)):
        step()
    (file,) = tmp_path.glob("*.json")
    values = json.loads(file.read_text())["memory"]["values"]
    assert [value["over"] for value in values] == [None, 0, 0]
    assert {value["offset"] for value in values} == {0}


def test_edges_without_a_hazard_say_what_they_are(stream):
    """A kernel that declares no output is a barrier, and a flag may ask for the order of launches."""
    x, y, z = hiprt.zeros(8), hiprt.zeros(8), hiprt.zeros(8)
    silent = hiprt.Function(functions()["scale"].module, "scale", [hiprt.Argument(n, READ) for n in "xy"])

    def kinds(recording):
        return [[each["kind"] for each in edge["hazards"]] for edge in graphs.as_dict(recording)["edges"]]

    recording = graphs.Recording()
    with recording.record(stream):
        z.fill_bytes(0, stream)
        silent.launch(stream, (1, 1, 1), (1, 1, 1), x, y)
        z.fill_bytes(0, stream)
    assert kinds(recording) == [["barrier"], ["barrier"]]
    recording = graphs.Recording(edges="chain")
    with recording.record(stream):
        x.fill_bytes(0, stream)
        y.fill_bytes(0, stream)
        x.fill_bytes(1, stream)
    assert kinds(recording) == [["order"], ["order"]]


ACCESSES = st.lists(
    st.lists(
        st.builds(
            lambda name, start, size, access: Access(name, start, start + size, access),
            st.sampled_from("abc"),
            st.integers(0, 30),
            st.integers(0, 12),
            st.sampled_from([READ, WRITE, READ_WRITE]),
        ),
        max_size=4,
    ),
    max_size=12,
)


@given(ACCESSES)
def test_hazards_are_what_each_byte_says(nodes):
    """Random programs, against one that keeps the last writer and the readers of every byte."""
    writer, readers = {}, {}
    for index, (node, found) in enumerate(zip(nodes, hazards(nodes))):
        expected = set()
        for access in node:
            for at in range(access.start, access.end):
                mine = [each for each in readers.get(at, []) if each[0] != index]
                if at in writer and (access.access & READ or not readers.get(at)):
                    expected.add(
                        (writer[at][0], "RAW" if access.access & READ else "WAW", writer[at][1], access.buffer, at)
                    )
                if access.access & WRITE:
                    expected.update((each, "WAR", buffer, access.buffer, at) for each, buffer in mine)
        told = {
            (before, h.kind, h.before, h.after, at)
            for before, group in found.items()
            for h in group
            for at in range(h.start, h.end)
        }
        assert told == expected
        for wanted in (READ, WRITE):
            for access in node:
                for at in range(access.start, access.end):
                    if wanted == READ and access.access == READ:
                        readers.setdefault(at, []).append((index, access.buffer))
                    elif wanted == WRITE and access.access & WRITE:
                        writer[at], readers[at] = (index, access.buffer), []


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


def test_explain_says_once_what_would_avoid_it(stream, capsys):
    """Where an argument of the step is the reason."""
    x = hiprt.array(np.ones(10, np.float32))
    step = graphs.Step(lambda x, by: scale(x, by), name="advised", stream=stream)
    with hiprt.flags.override(graph_explain=True):
        for by in (1.0, 2.0, 3.0, 4.0):
            step(x, by)
    lines = capsys.readouterr().err.splitlines()
    advice = [i for i, line in enumerate(lines) if "varying= of the step" in line]
    assert advice == [2]
    assert "argument by: 1.0 -> 2.0" in lines[1]
    assert "3.0 -> 4.0" in lines[-1]
    assert "varying=" in graphs.explain()[-1].remedy


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
