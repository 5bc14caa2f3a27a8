"""The timeline (``HIPRT_GRAPH_TRACE``): what was launched when and why, and what each node takes on the device.

The file is in Chrome's trace format, which Perfetto reads: the host's time of each launch, the device's between two
events around it, and each node's time by itself. Behind that the same is in the form that ``hiprt graph show`` reads
(`run`). Before a graph is launched for the first time, its nodes are run one by one to be timed, and what they wrote is
put back.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hiprt import core, fork
from hiprt.errors import HipError, OutOfMemoryError, UndefinedOutputsError
from hiprt.event import Event
from hiprt.flags import flags
from hiprt.graphs.launch.timing import node_times, read_bandwidth
from hiprt.graphs.record.declarations import why_once
from hiprt.graphs.record.dump import as_dict
from hiprt.graphs.record.recording import Recording
from hiprt.graphs.stats import Stats
from hiprt.machine import machine
from hiprt.stream import Stream

__all__ = ["FORMAT", "chrome_trace", "graph_of", "mark", "observe", "run", "trace"]

FORMAT = "hiprt run 1"
MOST_LAUNCHES, MOST_GRAPHS = 250_000, 64
PENDING = 512  # launches whose events are kept before they are read
METHOD = (
    "events around each node, the nodes run eagerly one behind the other; the least of 3 passes, less the time of two "
    "events with nothing between them"
)
# Slices of a track must not overlap, which Perfetto judges in whole nanoseconds: each is drawn so much (us) shorter.
GAP = 0.003
# What some version of Perfetto refuses, or takes for the end of a string: escapes but for that of a quote, DEL, and
# surrogates, which stand for bytes of a name that are no letters.
UNREADABLE = re.compile(r"\\(?:u[0-9a-f]{4}|[^\"u])|[\x7f\ud800-\udfff]")
# Tracks that are no threads of the host have numbers that no thread has.
STREAM_TRACK, GRAPH_TRACK = 1_000_000_000, 2_000_000_000


@dataclass
class Launch:
    """One launch of a recording.

    Attributes
    ----------
    step : str
        The step's name.
    key : str
        The hash of the topology key, by which the graph is found.
    rung, reason, difference : str
        The rung taken, why it was not a replay, and the first node and argument that differ; as in `Event`.
    nodes : int
    thread, stream : int
        The number of the thread, as the operating system has it, and of the stream.
    ts, us : float
        When the host began, in microseconds since tracing began, and how long it took without the tracing.
    device_ts, device_us : float or None
        The same on the device.
    """

    step: str
    key: str
    rung: str
    reason: str
    difference: str
    nodes: int
    thread: int
    stream: int
    ts: float
    us: float
    device_ts: float | None = None
    device_us: float | None = None


class Clock:
    """The device's time on one stream, from the events that are recorded there one behind the other."""

    def __init__(self, stream: Stream) -> None:
        self.last = Event()
        self.last.record(stream)
        self.last.synchronize()
        self.ts = now()

    def read(self, event: Event) -> float:
        """Return when an event happened, in microseconds; events are read in the order in which they were recorded."""
        event.synchronize()
        self.ts += event.elapsed_ms(self.last) * 1e3
        self.last.close()
        self.last = event
        return self.ts


started = time.perf_counter()
lock = fork.rlock()
launches: list[Launch] = []
graphs: dict[tuple[str, str], dict[str, Any]] = {}
left_out = {"launches": 0, "graphs": 0}
clocks: dict[int, Clock] = {}
pending: defaultdict[int, list[tuple[Launch, Event, Event]]] = defaultdict(list)
thread = threading.local()


def now() -> float:
    """Return the microseconds since tracing began."""
    return (time.perf_counter() - started) * 1e6


def graph_of(recording: Recording, name: str, stream: Stream) -> dict[str, Any]:
    """Return a recording as `as_dict` does, with what each node takes.

    Returns
    -------
    dict
        The keys that are added: ``node_us``, a number for each node, or None; ``event_us``; ``node_times``, how they
        were measured, or why not; ``ts``, when.
    """
    graph = {**as_dict(recording, name), "node_us": None, "event_us": None, "ts": now()}
    why_not = why_once(recording)
    if not why_not:
        try:
            times = node_times(recording, stream)
            graph.update(node_us=times.us, event_us=times.event_us)
        except UndefinedOutputsError:
            raise
        except HipError as error:
            why_not = str(error)
    graph["node_times"] = f"not measured: {why_not}" if why_not else METHOD
    return graph


def observe(name: str, recording: Recording, stream: Stream) -> None:
    """Note the graph that is about to be launched, if ``HIPRT_GRAPH_TRACE`` is set and it is a new one."""
    if not flags.graph_trace:
        return
    thread.marks, thread.spent = [], 0.0
    identity = name, f"{recording.key:016x}"
    with lock:
        if identity in graphs:
            return
        if len(graphs) >= MOST_GRAPHS:
            left_out["graphs"] += 1
            return
        graphs[identity] = {}
    graphs[identity] = graph_of(recording, name, stream)


def mark(stream: Stream) -> None:
    """Note when the device is here, before a launch and behind it, if ``HIPRT_GRAPH_TRACE`` is set.

    Where that fails, the launch has no time on the device. It is no failure of the launch (G8).
    """
    if not flags.graph_trace:
        return
    begin = now()
    try:
        with lock:
            if stream.number not in clocks:
                clocks[stream.number] = Clock(stream)
        event = Event()
        event.record(stream)
        thread.marks = [*getattr(thread, "marks", []), event][-2:]
    except HipError:
        thread.marks = []
    thread.spent = getattr(thread, "spent", 0.0) + now() - begin


def trace(stats: Stats, rung: str, start: float, recording: Recording, stream: Stream) -> None:
    """Note a launch, if ``HIPRT_GRAPH_TRACE`` is set.

    Parameters
    ----------
    stats : Stats
        The step's counts; the last event of them says why another rung than replay was taken.
    rung : str
        The rung that was taken.
    start : float
        When it began, in seconds of `time.perf_counter`.
    recording : Recording
        What was launched.
    stream : Stream
        Where it was launched.
    """
    if not flags.graph_trace:
        return
    marks, spent = getattr(thread, "marks", []), getattr(thread, "spent", 0.0)
    thread.marks, thread.spent = [], 0.0
    begin, event = (start - started) * 1e6, None if rung == "replay" else stats.latest
    launch = Launch(
        stats.name,
        f"{recording.key:016x}",
        rung,
        event.reason if event else "",
        event.difference if event else "",
        len(recording),
        threading.get_native_id(),
        stream.number,
        round(begin, 3),
        round(now() - begin - spent, 3),
    )
    with lock:
        if len(launches) >= MOST_LAUNCHES:
            left_out["launches"] += 1
            return
        launches.append(launch)
        if len(marks) == 2:
            waiting = pending[stream.number]
            waiting.append((launch, marks[0], marks[1]))
            if len(waiting) > PENDING:
                read(stream.number, len(waiting) - PENDING // 2)


def read(stream: int, count: int) -> None:
    """Read the events of a stream's oldest launches; those that cannot be read leave no time on the device."""
    oldest, pending[stream][:count] = pending[stream][:count], []
    clock = clocks.get(stream)
    if clock is None:
        return
    try:
        for launch, begin, end in oldest:
            ts = clock.read(begin)
            us = clock.read(end) - ts
            launch.device_ts, launch.device_us = round(ts, 3), round(us, 3)
    except HipError:
        del clocks[stream]


def run(bandwidth: float | None = None) -> dict[str, Any]:
    """Return what was traced so far, in plain values.

    Parameters
    ----------
    bandwidth : float, optional
        The device's read bandwidth in GB/s, if it was measured.

    Returns
    -------
    dict
        ``format``, ``machine`` (`hiprt.machine.machine`), ``command``, ``read_gb_s``, ``graphs`` (`graph_of`),
        ``launches`` (`Launch`), and ``left_out``, how many of both were not kept.
    """
    with lock:
        for stream in pending:
            read(stream, len(pending[stream]))
        return {
            "format": FORMAT,
            "machine": machine(),
            "command": sys.argv,
            "read_gb_s": bandwidth,
            "graphs": [graph for graph in graphs.values() if graph],
            "launches": [asdict(launch) for launch in launches],
            "left_out": dict(left_out),
        }


def trace_events(whole: dict[str, Any], pid: int) -> Iterator[dict[str, Any]]:
    """Yield the events of Chrome's trace format that show what `run` returned."""
    yield metadata(pid, 0, "process_name", f"hiprt on {whole['machine']['device']}")
    for number in dict.fromkeys(launch["thread"] for launch in whole["launches"]):
        yield metadata(pid, number, "thread_name", "host")
    for number in dict.fromkeys(launch["stream"] for launch in whole["launches"]):
        yield metadata(pid, STREAM_TRACK + number, "thread_name", f"device, stream {number}")
    for number, launch in enumerate(whole["launches"]):
        names = ("step", "key", "rung", "reason", "difference", "nodes")
        arguments = {name: launch[name] for name in names if launch[name] != ""}
        event = {"name": f"{launch['step']}: {launch['rung']}", "ph": "X", "pid": pid, "args": arguments}
        host = slice_of(launch["ts"], launch["us"])
        yield {**event, "cat": "host", "tid": launch["thread"], **host}
        if launch["device_us"] is not None:
            track, device = STREAM_TRACK + launch["stream"], slice_of(launch["device_ts"], launch["device_us"])
            yield {**event, "cat": "device", "tid": track, **device}
            # The device's clock is known from events only, and no arrow may end before it begins.
            if device["ts"] >= host["ts"]:
                flow = {"name": "launch", "cat": "launch", "id": number, "pid": pid}
                yield {**flow, "ph": "s", "tid": launch["thread"], "ts": host["ts"]}
                yield {**flow, "ph": "f", "bp": "e", "tid": track, "ts": device["ts"]}
    for number, graph in enumerate(whole["graphs"]):
        yield from node_events(graph, pid, GRAPH_TRACK + number)


def node_events(graph: dict[str, Any], pid: int, track: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a graph's nodes, each with the time that it takes by itself, one behind the other."""
    if graph["node_us"] is None:
        return
    yield metadata(pid, track, "thread_name", f"nodes of {graph['name']} [{graph['key']}], timed one by one")
    ts = graph["ts"]
    for node, us in zip(graph["nodes"], graph["node_us"]):
        line = node["caller"]
        arguments = {
            "node": node["index"],
            "grid": node["grid"],
            "block": node["block"],
            "bytes read": node["bytes_read"],
            "bytes written": node["bytes_written"],
            "waits for": node["dependencies"],
            "caller": f"{line['file']}:{line['line']} in {line['function']}" if line else "",
        }
        event = {"name": node["kernel_name"], "cat": "node", "ph": "X", "pid": pid, "tid": track, "args": arguments}
        yield {**event, **slice_of(ts, us)}
        ts += us


def slice_of(ts: float, us: float) -> dict[str, float]:
    """Return when a slice begins, in microseconds, and how long it is drawn."""
    # Some versions of Perfetto misread a number of more than eighteen decimals, so both are in whole nanoseconds.
    return {"ts": round(ts, 3), "dur": round(max(us - GAP, 0.0), 3)}


def metadata(pid: int, tid: int, kind: str, name: str) -> dict[str, Any]:
    """Return the event that names a process or a track."""
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}


def write() -> None:
    """Write the timeline at exit."""
    if not flags.graph_trace or not launches or core.lib.hiprt_is_forked:
        return
    try:
        try:
            bandwidth = round(read_bandwidth(Stream()), 1)
        except OutOfMemoryError:
            bandwidth = None
        whole = run(bandwidth)
        text = chrome_trace(whole, os.getpid())
        Path(flags.graph_trace).write_text(text, encoding="utf-8", errors="backslashreplace")
    except (HipError, OSError) as error:
        print(f"hiprt: HIPRT_GRAPH_TRACE: {error}", file=sys.stderr)


def chrome_trace(whole: dict[str, Any], pid: int) -> str:
    """Return what `run` returned as a text in Chrome's trace format, of a process of this number."""
    shown = {
        "displayTimeUnit": "ms",
        "otherData": {"node times": METHOD, **{name: str(value) for name, value in whole["machine"].items()}},
        "traceEvents": list(trace_events(whole, pid)),
    }
    text = UNREADABLE.sub(readable, json.dumps(shown, ensure_ascii=False))
    # Perfetto reads the first two where they are in the first piece of the file only, and no further than to a name
    # that it does not know, so ours comes last.
    ours = json.dumps(whole, ensure_ascii=False).replace("\x7f", r"\u007f")
    return f'{text[:-1]}, "hiprt": {ours}}}'


def readable(found: re.Match[str]) -> str:
    """Return what a trace shows for a part of its text that Perfetto cannot read."""
    return "\N{SET MINUS}" if found[0] == r"\\" else "\N{REPLACEMENT CHARACTER}"


atexit.register(write)
