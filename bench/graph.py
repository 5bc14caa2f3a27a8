"""``hiprt bench graph``: what a step costs on the host, node by node, on every rung of the ladder.

    eager        launch each node
    record       issue every launch again each step, with unchanged arguments (`graphs.Step` with keep=False)
    replay       call a kept step
    patch        call a kept step with other arrays for K of its nodes
    update       issue every launch again, all with other arguments, and allow hipGraphExecUpdate only
    change       the same, and let the ladder choose between that and patches of all nodes
    instantiate  issue every launch again, and make an executable graph each time

Only the host's time counts: the queue is drained between steps, which is not timed. With the provider ``null``, whose
calls return at once, the time is hiprt's own. The same C calls are also made directly; what they take less is the share
of Python.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hiprt
from hiprt import core, graphs, library
from hiprt.bench.raw import Chain, chain, steps
from hiprt.bench.table import text_table
from hiprt.bench.topology import SETS, TOPOLOGIES, Work
from hiprt.command import set_run
from hiprt.graphs import RUNG_NAMES, Exec, Recording
from hiprt.machine import machine
from hiprt.provider import PROVIDERS

__all__ = ["MODES", "TOPOLOGIES", "Report", "add_arguments", "measure", "run"]

MODES = ("eager", "record", "replay", "patch", "update", "change", "instantiate")
CHOICES = ("auto", *(provider.name for provider in PROVIDERS))
ALLOWED: dict[str, tuple[str, ...]] = {
    "update": ("update", "instantiate"),
    "change": ("patch", "update", "instantiate"),
    "instantiate": ("instantiate",),
}
CHANGING = ("update", "change", "instantiate")  # the modes in which all nodes have other arguments each time
SECONDS, REPETITIONS, WARM_UP = 1.0, 30, 5
MOST_SECONDS, MOST_REPETITIONS = 30.0, 200_000
PAIRS = 201  # of a step and the driver's calls, in turn
QUEUED = 8  # the most steps that are in flight
CALLS = {"raw": "the driver's calls", "libhiprt": "libhiprt's calls"}


@dataclass(frozen=True)
class Report:
    """What a step costs on the host.

    Attributes
    ----------
    topology, mode, provider, device : str
    nodes : int
    changed : int
        How many nodes have other arguments from one step to the next.
    us_per_node, us_per_step : dict
        Microseconds, ``median`` and ``p99``.
    python_share : float
        The part of the time that Python takes, from 0 to 1.
    rungs : dict
        How often each rung was taken during the measurement.
    over_driver : float or None
        How many times as long a step takes as the driver's calls for a graph built anew, an update by it and a launch:
        the median of pairs in turn. None where no step does that work, or it was not asked for.
    """

    topology: str
    nodes: int
    mode: str
    changed: int
    provider: str
    device: str
    us_per_node: dict[str, float]
    us_per_step: dict[str, float]
    python_share: float
    rungs: dict[str, int]
    over_driver: float | None = None


class Bench:
    """One mode: the steps that are timed, and the same C calls without Python around them.

    Parameters
    ----------
    mode : str
    work : Work
    """

    def __init__(self, mode: str, work: Work) -> None:
        self.mode = mode
        self.work = work
        function = work.issue_changed if mode == "patch" else work.issue
        kept = mode in ("replay", "patch")
        self.step = graphs.Step(function, name=f"bench {mode}", stream=work.stream, keep=kept, moves=mode == "patch")
        # A step that changes an exec waits for its last launch: that is the device's time.
        self.queued = 1 if mode in ("patch", *CHANGING) else QUEUED
        self.count = 0
        self.scratch: list[Any] = []

    def prepare(self) -> Callable[[], Any]:
        """Return the next step to be timed."""
        self.count += 1
        self.work.by = self.count if self.mode in CHANGING else 1
        if self.mode == "instantiate":
            # Executable graphs of earlier steps are destroyed here, where nothing is timed.
            self.step.ladder.execs.clear()
        if self.mode == "patch":
            arrays = self.work.sets[self.count % SETS]
            return lambda: self.step(*arrays)
        return self.work.issue if self.mode == "eager" else self.step

    def rungs(self) -> dict[str, int]:
        """Return how often each rung was taken so far."""
        return {**self.step.rungs, "eager": self.count} if self.mode == "eager" else dict(self.step.rungs)

    def direct(self) -> Callable[[], Callable[[], Any]]:
        """Return a function that prepares the same C calls as `prepare` does, with nothing around them."""
        work, lib, ffi = self.work, core.lib, core.ffi
        stream, recording = work.stream, work.record()
        if self.mode == "eager":
            return lambda: lambda: recording.run(stream)
        exec_ = Exec(recording, stream.device.index)
        if self.mode == "replay":
            ran = ffi.new("int *")
            return lambda: lambda: lib.hiprt_exec_launch(exec_.core, stream.core, False, ran)
        if self.mode == "patch":
            return self.direct_patch(exec_)
        first, nbytes = ffi.new("uint32_t *"), ffi.new("uint64_t *")

        def record() -> Recording:
            again = Recording()
            core.call(lib.hiprt_recorder_slice(recording.core, 0, len(recording), again.core))
            return again

        def reuse() -> None:
            again = record()
            if self.mode == "update":
                exec_.update(again)
            elif self.mode == "change":
                exec_.patch(again)
            else:
                lib.hiprt_recorder_same_key(recording.core, again.core)
                lib.hiprt_recorder_changed(recording.core, again.core, first, nbytes)
            exec_.launch(stream)

        def instantiate() -> None:
            made = Exec(record(), stream.device.index)
            made.launch(stream)
            self.scratch.append(made)

        def prepare() -> Callable[[], Any]:
            self.scratch.clear()
            return instantiate if self.mode == "instantiate" else reuse

        return prepare

    def direct_patch(self, exec_: Exec) -> Callable[[], Callable[[], Any]]:
        """Return a function that prepares the C calls of a patch."""
        work, lib, ffi = self.work, core.lib, core.ffi
        nodes, moves = ffi.new("uint32_t[]", work.changed), ffi.new("hiprt_move[]", len(work.changed))
        ran = ffi.new("int *")
        count = 0

        def prepare() -> Callable[[], Any]:
            nonlocal count
            old, new = work.sets[count % SETS], work.sets[(count + 1) % SETS]
            count += 1
            for k, (mine, its) in enumerate(zip(old, new)):
                moves[k] = (*mine.extent, its.extent[0])
            return patch

        def patch() -> None:
            lib.hiprt_exec_wait(exec_.core)
            lib.hiprt_exec_move(exec_.core, len(nodes), nodes, len(moves), moves)
            lib.hiprt_exec_launch(exec_.core, work.stream.core, True, ran)

        return prepare


def sample(
    prepare: Callable[[], Callable[[], Any]], stream: hiprt.Stream, queued: int, seconds: float, progress: bool
) -> list[float]:
    """Time calls on the host until there are enough of them; return the microseconds of each.

    Parameters
    ----------
    prepare : callable
        Returns the next call, and is not timed.
    stream : Stream
    queued : int
        How many calls may be in flight.
    seconds : float
        The least time; the least number of calls is `REPETITIONS`.
    progress : bool
        Whether to show the count on stderr.
    """
    for _ in range(WARM_UP):
        prepare()()
        stream.synchronize()
    gc.collect()
    taken: list[float] = []
    start = shown = time.perf_counter()
    while True:
        call = prepare()
        before = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - before) / 1e3)
        if len(taken) % queued == 0:
            stream.synchronize()
        now = time.perf_counter()
        if (now - start >= seconds and len(taken) >= REPETITIONS) or now - start >= MOST_SECONDS:
            return taken
        if len(taken) >= MOST_REPETITIONS:
            return taken
        if progress and now - shown >= 1:
            shown = now
            print(f"\r{len(taken)} steps in {now - start:.0f} s ...\x1b[K", end="", file=sys.stderr, flush=True)


def paired(prepare: Callable[[], Callable[[], Any]], driver: Callable[[], float], stream: hiprt.Stream) -> float:
    """Time calls and the driver's in turn, and return the median of how many times as long the calls take.

    Parameters
    ----------
    prepare : callable
        Returns the next call, and is not timed.
    driver : callable
        Makes the driver's calls, waits for them, and returns the microseconds that they took.
    stream : Stream
    """
    ratios = []
    for turn in range(PAIRS):
        beside = driver() if turn % 2 else 0.0
        call = prepare()
        before = time.perf_counter_ns()
        call()
        taken = (time.perf_counter_ns() - before) / 1e3
        stream.synchronize()
        ratios.append(taken / (beside or driver()))
    return statistics.median(ratios)


@contextmanager
def line(text: str, is_shown: bool) -> Iterator[None]:
    """Show a line on the terminal while the block runs."""
    if is_shown:
        print(f"\r{text} ...\x1b[K", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def measure(
    topology: str,
    nodes: int,
    mode: str,
    changed: int = 10,
    seconds: float = SECONDS,
    *,
    progress: bool = False,
    raw: bool = False,
) -> Report:
    """Measure one mode of one topology.

    Parameters
    ----------
    topology, mode : str
        One of `TOPOLOGIES`, and one of `MODES`.
    nodes : int
        How many nodes the step has, at least 1.
    changed : int
        How many nodes a patch changes; more than there are means all.
    seconds : float
        How long to measure; 30 steps are measured in any case.
    progress : bool
        Whether to show on stderr what is going on.
    raw : bool
        Whether to make the driver's calls in turn with steps that change all nodes.
    """
    count = min(changed, nodes) if mode == "patch" else 0
    # No executable graph spends its budget of updates: replacing one is not measured here.
    limits = {"graph_update_budget": 2**62, "graph_update_budget_mb": 2**40, "graph_max_nodes": 0, "graph_max_bytes": 0}
    rungs = ALLOWED.get(mode, RUNG_NAMES)
    with hiprt.Stream() as stream, hiprt.use_stream(stream), hiprt.flags.override(graph_rungs=rungs, **limits):
        with line(f"building {nodes} nodes", progress):
            work = Work(topology, nodes, count, stream)
            bench = Bench(mode, work)
            bench.prepare()()
            stream.synchronize()
            before = bench.rungs()
        with line("measuring", progress):
            taken = sample(bench.prepare, stream, bench.queued, seconds, progress)
            after = bench.rungs()
        over_driver = None
        if raw and mode in ("update", "change"):
            with line("measuring beside the driver's calls", progress):
                over_driver = round(paired(bench.prepare, Chain(nodes).update, stream), 3)
        with line("measuring without Python", progress):
            alone = sample(bench.direct(), stream, bench.queued, seconds / 3, progress)
        stream.synchronize()
    median, p99 = statistics.median(taken), float(np.percentile(taken, 99))
    return Report(
        topology,
        nodes,
        mode,
        nodes if mode in CHANGING else count,
        library.current().provider.name,
        hiprt.current_device().name,
        {"median": round(median / nodes, 4), "p99": round(p99 / nodes, 4)},
        {"median": round(median, 3), "p99": round(p99, 3)},
        round(min(1.0, max(0.0, 1 - statistics.median(alone) / median)), 3),
        {rung: after[rung] - before[rung] for rung in RUNG_NAMES},
        over_driver,
    )


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an integer of at least 1")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench graph``."""
    parser.add_argument("--topology", choices=TOPOLOGIES, default="chain", help="how the nodes depend on each other")
    parser.add_argument("--nodes", metavar="N", type=positive, default=1000, help="nodes of the step (default: 1000)")
    parser.add_argument("--mode", choices=MODES, default="replay", help="what is done each step (default: replay)")
    parser.add_argument("--changed", metavar="K", type=positive, default=10, help="nodes that a patch changes")
    parser.add_argument("--raw", action="store_true", help="measure the driver's calls from C beside it (a chain)")
    parser.add_argument("--provider", choices=CHOICES, help="HIP library; null measures hiprt's own cost")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON.

    Raises
    ------
    ValueError
        Another provider than the one asked for is in use already.
    """
    if options.provider:
        choose(options.provider)
    is_shown = sys.stderr.isatty() and not options.json
    sizes = options.nodes, min(options.changed, options.nodes)
    report = measure(options.topology, options.nodes, options.mode, options.changed, progress=is_shown, raw=options.raw)
    # This comes last: the program opens the library in a process of its own.
    measured = {"raw": chain(*sizes)} if options.raw else {}
    if options.raw and not library.current().provider.runs_kernels:
        measured["libhiprt"] = steps(*sizes)
    if options.json:
        print(json.dumps({**machine(), **asdict(report), **measured}))
    else:
        print("\n".join([table(report), *(raw_table(what, taken, options.nodes) for what, taken in measured.items())]))
    return 0


def raw_table(what: str, taken: dict[str, float], nodes: int) -> str:
    """Return what calls from C take as text."""
    head = f"{CALLS[what]} from C, chain of {nodes}", "us", "per node"
    return text_table(head, [(name[:-3], f"{us:.2f}", f"{us / nodes:.4f}") for name, us in taken.items()])


def choose(provider: str) -> None:
    """Make a provider the one of this process; raise ValueError where another is in use already."""
    if library.is_open() and provider not in ("auto", library.current().provider.name):
        raise ValueError(f"--provider {provider}: this process uses {library.current().provider} already")
    os.environ["HIPRT_PROVIDER"] = provider
    hiprt.flags.__dict__.pop("provider", None)


def table(report: Report) -> str:
    """Return a report as text."""
    changed = f", {report.changed} changed" if report.changed else ""
    taken = ", ".join(f"{rung} {count}" for rung, count in report.rungs.items() if count)
    step, node = report.us_per_step, report.us_per_node
    rows = [
        ("per step", f"{step['median']:.2f}", f"{step['p99']:.2f}"),
        ("per node", f"{node['median']:.4f}", f"{node['p99']:.4f}"),
        ("Python", f"{report.python_share:.0%}"),
        ("rungs", taken),
    ]
    if report.over_driver is not None:
        rows.append(("over the driver's build, update, launch", f"{report.over_driver:.2f}"))
    what = f"{report.mode} of {report.topology}, {report.nodes} nodes{changed}, on {report.provider} ({report.device})"
    return f"{what}\n{text_table(('host us', 'median', 'p99'), rows)}"
