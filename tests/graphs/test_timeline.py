"""Traces: they are valid in Chrome's format, say why each launch was what it was, and time every node."""

import json
import os
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest
from helpers.kernels import accumulate, functions, scale
from helpers.perfetto import errors_of
from hypothesis import given, settings, strategies as st

import hiprt
from hiprt import graphs
from hiprt.graphs.launch import timeline
from hiprt.graphs.launch.timing import node_times
from hiprt.graphs.record.declarations import why_once
from hiprt.module import READ

SCRIPT = """
import threading
import numpy as np, hiprt
from hiprt import graphs, kernels
x, y = hiprt.array(np.ones(16, np.float32)), hiprt.zeros(16)
step = graphs.Step(lambda: kernels.add(y, x, out=y), name="kept", stream=hiprt.current_stream())
for _ in range(3):
    step()
for factor in (2.0, 2.0, 3.0):
    with graphs.step("recorded again"):
        kernels.multiply(x, factor, out=y)
    hiprt.current_stream().synchronize()

def other():
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        mine = hiprt.zeros(16)
        with graphs.step("in a thread"):
            kernels.add(mine, 1.0, out=mine)
        stream.synchronize()

thread = threading.Thread(target=other)
thread.start()
thread.join()
with hiprt.flags.override(graph_rungs=("eager",)):
    with graphs.step("eager"):
        kernels.add(y, 1.0, out=y)
print(y.numpy()[0])
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The trace of a program, and what the program printed."""
    file = tmp_path_factory.mktemp("trace") / "trace.json"
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "HIPRT_GRAPH_TRACE": str(file)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(file.read_text()), ran, file


def test_timing_changes_nothing(traced):
    """A program prints under a trace what it prints without."""
    plain = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert traced[1].stdout == plain.stdout == "4.0\n"
    assert traced[1].stderr == plain.stderr


def test_a_trace_is_valid_in_chrome_s_format(traced):
    """By its documentation: the fields of each phase, nesting on each track, names of tracks, pairs of flows."""
    trace = traced[0]
    assert list(trace)[:3] == ["displayTimeUnit", "otherData", "traceEvents"]
    assert trace["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in trace["otherData"].values())
    tracks, named, flows = defaultdict(list), set(), defaultdict(list)
    for event in trace["traceEvents"]:
        assert isinstance(event["name"], str)
        assert isinstance(event["ts"], (int, float))
        assert event["ts"] >= 0
        assert all(isinstance(event[name], int) and 0 <= event[name] < 2**31 for name in ("pid", "tid"))
        track = event["pid"], event["tid"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert isinstance(event["args"], dict)
            assert isinstance(event["cat"], str)
            tracks[track].append((event["ts"], event["ts"] + event["dur"]))
        elif event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert isinstance(event["args"]["name"], str)
            named.add(track)
        else:
            assert event["ph"] in "sf"
            assert event["ph"] == "s" or event["bp"] == "e"
            flows[event["cat"], event["id"]].append((event["ph"], track, event["ts"]))
    assert set(tracks) <= named
    for slices in tracks.values():
        # Slices of one track nest: each begins behind the end of the one before, or ends within it.
        open_ends = []
        for begin, end in sorted(slices, key=lambda each: (each[0], -each[1])):
            while open_ends and open_ends[-1] <= begin + 1e-3:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1] + 1e-3
            open_ends.append(end)
    for ends in flows.values():
        assert [phase for phase, _, _ in ends] == ["s", "f"]
        for _, track, ts in ends:
            assert any(begin - 1e-3 <= ts <= end + 1e-3 for begin, end in tracks[track])


def test_perfetto_opens_it_without_an_error(traced):
    """By the rules of its importer, which counts errors."""
    assert not errors_of(traced[2].read_text())


US = st.floats(0, 1e4) | st.integers(0, 10_000).map(lambda ns: ns / 1000)
NAMES = st.text(st.characters() | st.sampled_from('\\"\n'), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(US, US, US, US), max_size=40), st.lists(US, max_size=60), NAMES, NAMES)
def test_perfetto_opens_whatever_was_measured(launches, nodes, step, kernel):
    """Times are numbers of any form; what the device does follows on itself closely, and clocks disagree a little."""
    host = device = 0.0
    rows = []
    for number, (gap, us, idle, device_us) in enumerate(launches):
        host, device = host + gap + 0.01, device + idle
        known = number % 4 != 3
        rows.append(
            {
                "step": step, "key": "0", "rung": "replay", "reason": "", "difference": "", "nodes": 1, "thread": 7,
                "stream": 1, "ts": round(host, 3), "us": round(us, 3),
                "device_ts": device if known else None, "device_us": device_us if known else None,
            }
        )  # fmt: skip
        host, device = host + us, device + device_us
    node = {
        "index": 0, "kernel_name": kernel, "grid": [1], "block": [1], "bytes_read": 1, "bytes_written": 1,
        "dependencies": [], "caller": None,
    }  # fmt: skip
    graph = {"name": step, "key": "0", "ts": 12.3456, "node_us": nodes, "nodes": [node] * len(nodes)}
    whole = {"machine": {"device": "d"}, "launches": rows, "graphs": [graph]}
    text = timeline.chrome_trace(whole, 1)
    assert not errors_of(text)


def test_names_of_any_letters_are_written(tmp_path):
    """Perfetto's importer up to v46 knows no escapes of letters; that of v52 refuses a file with half a letter, DEL, or
    a string that ends in a backslash. All of them stay in what `hiprt graph show` reads."""
    place = tmp_path / "trace.json"
    name = 'décode "\udcff" \n\x7f C:\\'
    code = SCRIPT.replace('name="kept"', f"name={name!r}")
    environment = {**os.environ, "HIPRT_GRAPH_TRACE": str(place)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    text = place.read_text(encoding="utf-8")
    assert not errors_of(text)
    assert "\x7f" not in text
    trace = json.loads(text)
    assert trace["hiprt"]["launches"][0]["step"] == name
    shown = next(event["name"] for event in trace["traceEvents"] if event["ph"] == "X")
    assert shown == 'décode "?" ?? C:\N{SET MINUS}: instantiate'.replace("?", "\N{REPLACEMENT CHARACTER}")


def test_launches_say_why(traced):
    """Rung, reason and the first difference, on the host and on the device."""
    launches = traced[0]["hiprt"]["launches"]
    assert [(each["step"], each["rung"]) for each in launches] == [
        ("kept", "instantiate"),
        ("kept", "replay"),
        ("kept", "replay"),
        ("recorded again", "instantiate"),
        ("recorded again", "replay"),
        ("recorded again", "patch"),
        ("in a thread", "instantiate"),
        ("eager", "eager"),
    ]
    assert launches[0]["reason"] == "first of this topology"
    assert launches[1]["reason"] == launches[1]["difference"] == ""
    assert "2.0 -> 3.0" in launches[5]["difference"]
    assert launches[7]["reason"] == "HIPRT_GRAPH_RUNGS allows no graph"
    assert all(each["device_us"] > 0 and each["us"] > 0 for each in launches)
    assert len({each["thread"] for each in launches}) == len({each["stream"] for each in launches}) == 2
    events = [event for event in traced[0]["traceEvents"] if event.get("cat") == "host"]
    assert [event["args"]["rung"] for event in events] == [each["rung"] for each in launches]
    assert events[5]["args"]["difference"] == launches[5]["difference"]


def test_every_node_has_a_time(traced):
    """The file says how the times were measured, on what, and the bandwidth they are compared with."""
    run = traced[0]["hiprt"]
    assert [graph["name"] for graph in run["graphs"]] == ["kept", "recorded again", "in a thread", "eager"]
    for graph in run["graphs"]:
        assert len(graph["node_us"]) == len(graph["nodes"])
        assert all(us >= 0 for us in graph["node_us"])
        assert graph["node_times"].startswith("events around each node")
    nodes = [event for event in traced[0]["traceEvents"] if event.get("cat") == "node"]
    assert len(nodes) == sum(len(graph["nodes"]) for graph in run["graphs"])
    assert run["read_gb_s"] > 0
    assert run["format"] == timeline.FORMAT
    assert {"hiprt", "commit", "device", "provider", "host"} <= set(run["machine"])


def test_nodes_are_timed_from_the_state_that_they_find(stream):
    """Memory is as before, however often the nodes ran, and nodes of several chunks all have a time."""
    x, y = hiprt.array(np.ones(64, np.float32)), hiprt.zeros(64)
    recording = graphs.Recording()
    with recording.record(stream):
        for _ in range(300):
            accumulate(x, y)
    times = node_times(recording, stream)
    assert len(times.us) == 300
    assert max(times.us) < float("inf")
    assert y.numpy()[0] == 0
    assert not why_once(recording)


def test_what_cannot_be_put_back_is_not_timed(stream, tmp_path):
    """A kernel that does not declare what it writes runs as often as the program launches it."""
    x, y = hiprt.array(np.ones(8, np.float32)), hiprt.zeros(8)
    declared = [hiprt.Argument("x", READ), hiprt.Argument("y", READ), hiprt.Argument("n", 0, "int32")]
    silent = hiprt.Function(functions()["accumulate"].module, "accumulate", declared)
    recording = graphs.Recording()
    with recording.record(stream):
        scale(x, 2.0)
        silent.launch(stream, (1, 1, 1), (8, 1, 1), x, y, 8)
    graph = timeline.graph_of(recording, "silent", stream)
    assert graph["node_us"] is None
    assert graph["node_times"] == (
        "not measured: node 1 (accumulate) does not declare what it writes, so that cannot be put back"
    )
    stream.synchronize()
    assert y.numpy()[0] == 0


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path):
    """The program itself is not harmed."""
    place = tmp_path / "missing" / "trace.json"
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "HIPRT_GRAPH_TRACE": str(place)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "4.0\n"
    assert ran.stderr.splitlines()[-1].startswith("hiprt: HIPRT_GRAPH_TRACE: ")
    assert ran.stderr.count("\n") == 2  # the other says what runs eagerly
