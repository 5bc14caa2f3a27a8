"""``hiprt bench compile``: what a compiled function costs the host, beside compilers of others.

    elementwise   200 elementwise ops on 1,024 float32 values, each of which reads the one before
    decode        a small transformer's decode step in 198 plain ops: norms, products, softmax, gate

Each is traced, called for the first time, and then called again and again with nothing changed. With the provider
``null``, whose calls return at once, the time is hiprt's own. torch, MLX and jax do the same in programs of their own,
on the CPU or on their default device. ``--sizes`` starts a process that makes graphs of an exported function for many
sizes. ``--preset`` counts the nodes of a preset's decode step in plain ops after each pass, beside those of the
engine's step, and times nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hiprt
from hiprt import kernels, library
from hiprt.bench.engine.models import PRESETS
from hiprt.bench.graph import CHOICES, choose
from hiprt.bench.peers import ask
from hiprt.bench.plain.nodes import Nodes, nodes_of
from hiprt.bench.table import text_table
from hiprt.bench.warm_start import warm_start
from hiprt.command import set_run
from hiprt.machine import machine

__all__ = ["FUNCTIONS", "Report", "add_arguments", "measure", "run"]

ROUNDS = 50  # of 4 elementwise ops
LAYERS, WIDTH, INNER, TOKENS = 13, 64, 128, 32
TRACES, CALLS, WARM_UP, QUEUED = 20, 5000, 20, 8
PEERS = ("torch_compile", "mlx_compile", "jax_compile")
Function = Callable[[hiprt.Array], Any]


@dataclass(frozen=True)
class Report:
    """What a compiled function costs.

    Attributes
    ----------
    function, provider, device : str
    primitives : int
        How many the function has.
    nodes : int
        How many its graph has.
    first_trace_ms, trace_ms : float
        The first trace of the process, which learns the rules of the ops; one of more traces of the same ops. Passes
        are part of both, and so is Python's collector for what they make; what there was before is collected first.
    first_call_ms : float
        The first call: a trace, the recording, the graph, and the kernels that are not in the cache.
    call_us : dict
        The host's time of a later call, ``median`` and ``p99``.
    whole_us : float
        Until its results are there.
    """

    function: str
    provider: str
    device: str
    primitives: int
    nodes: int
    first_trace_ms: float
    trace_ms: float
    first_call_ms: float
    call_us: dict[str, float]
    whole_us: float


def elementwise() -> tuple[Function, hiprt.Array]:
    """Return a function of elementwise ops, and what it is called with."""
    y = hiprt.array(np.linspace(0, 1, 1024, dtype=np.float32))

    def function(x: hiprt.Array) -> hiprt.Array:
        for _ in range(ROUNDS):
            x = kernels.maximum(kernels.multiply(kernels.add(x, y), 0.5), kernels.multiply(x, 0.25))
        return x

    return function, hiprt.array(np.ones(1024, np.float32))


def decode() -> tuple[Function, hiprt.Array]:
    """Return a decode step in plain ops, and what it is called with."""
    draw = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> hiprt.Array:
        return hiprt.array((draw.standard_normal((rows, columns)) * rows**-0.5).astype(np.float32))

    ones = hiprt.full((WIDTH,), 1.0)
    attention = (WIDTH, WIDTH), (WIDTH, TOKENS), (TOKENS, WIDTH), (WIDTH, WIDTH)
    sizes = *attention, (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH)
    layers = [[matrix(*size) for size in sizes] for _ in range(LAYERS)]
    head = matrix(WIDTH, 256)

    def function(x: hiprt.Array) -> hiprt.Array:
        for q, k, v, o, gate, up, down in layers:
            h = kernels.matmul(kernels.rms_norm(x, ones, 1e-5), q)
            h = kernels.matmul(kernels.softmax(kernels.matmul(h, k)), v)
            x = kernels.add(x, kernels.matmul(h, o))
            h = kernels.rms_norm(x, ones, 1e-5)
            g = kernels.matmul(h, gate)
            h = kernels.multiply(kernels.multiply(g, kernels.sigmoid(g)), kernels.matmul(h, up))
            x = kernels.add(x, kernels.matmul(h, down))
        return kernels.argmax(kernels.matmul(kernels.rms_norm(x, ones, 1e-5), head), axis=-1)

    return function, hiprt.array(np.linspace(-1, 1, WIDTH, dtype=np.float32).reshape(1, WIDTH))


FUNCTIONS = {"elementwise": elementwise, "decode": decode}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a call takes, and what it returns."""
    start = time.perf_counter()
    made = call()
    return time.perf_counter() - start, made


def measure(name: str) -> Report:
    """Measure one of `FUNCTIONS`."""
    function, x = FUNCTIONS[name]()
    new = hiprt.compile(function)
    # Importing modules is no part of a trace, nor is what the collector has yet to look at of them.
    gc.collect()
    first, traced = timed(lambda: new.trace((x,), {}))
    traces = [timed(lambda: hiprt.compile(function).trace((x,), {}))[0] for _ in range(TRACES)]
    compiled = hiprt.compile(function)
    stream = hiprt.current_stream()
    first_call, _ = timed(lambda: compiled(x))
    for _ in range(WARM_UP):
        compiled(x)
    stream.synchronize()
    calls, whole = [], []
    for count in range(CALLS):
        start = time.perf_counter_ns()
        compiled(x)
        calls.append((time.perf_counter_ns() - start) / 1e3)
        if count % QUEUED == 0:
            stream.synchronize()
    for _ in range(CALLS // 10):
        start = time.perf_counter_ns()
        compiled(x)
        stream.synchronize()
        whole.append((time.perf_counter_ns() - start) / 1e3)
    return Report(
        name,
        library.current().provider.name,
        hiprt.current_device().name,
        traced.primitives,
        compiled.steps[0].nodes,
        round(first * 1e3, 3),
        round(statistics.median(traces) * 1e3, 3),
        round(first_call * 1e3, 3),
        {"median": round(statistics.median(calls), 3), "p99": round(float(np.percentile(calls, 99)), 3)},
        round(statistics.median(whole), 3),
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench compile``."""
    parser.add_argument("--function", choices=(*FUNCTIONS, "all"), default="all", help="what is compiled")
    parser.add_argument("--provider", choices=CHOICES, help="HIP library; null measures hiprt's own cost")
    parser.add_argument("--sizes", metavar="N", type=int, default=0, help="start a process that makes N graphs, too")
    parser.add_argument("--peers", action="store_true", help="ask torch, MLX and jax as well, where they are installed")
    parser.add_argument("--python", metavar="NAME=PATH", action="append", default=[], help="another Python for a peer")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        choices=PRESETS,
        action="append",
        default=[],
        help="count the nodes of this preset's decode step in plain ops by pass; may be given several times",
    )
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
    if options.preset:
        counted = [nodes_of(name) for name in options.preset]
        told = {**machine(), "what": "nodes by pass", "presets": [asdict(each) for each in counted]}
        print(json.dumps(told) if options.json else nodes_table(counted))
        return 0
    names = list(FUNCTIONS) if options.function == "all" else [options.function]
    reports = [measure(name) for name in names]
    many = warm_start(options.sizes, library.current().provider.name) if options.sizes > 0 else {}
    pythons = dict(each.split("=", 1) for each in options.python)
    sizes = {"rounds": ROUNDS, "layers": LAYERS, "width": WIDTH, "inner": INNER, "tokens": TOKENS}
    answers = {}
    for peer in PEERS if options.peers else ():
        peer_name = peer.removesuffix("_compile")
        answers[peer_name] = ask(peer, {**sizes, "functions": names}, pythons.get(peer_name, sys.executable))
    if options.json:
        told = {**machine(), "what": "compiled functions", "functions": [asdict(report) for report in reports]}
        print(json.dumps(told | ({"sizes": many} if many else {}) | ({"peers": answers} if answers else {})))
    else:
        print(table(reports, answers))
        if many:
            reached = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in many["seconds"].items())
            print(f"{many['graphs']} graphs of {many['nodes']} nodes from the start of a process: {reached}")
    return 0


def nodes_table(counted: list[Nodes]) -> str:
    """Return nodes by pass as text, with what the passes tell."""
    passes = list(counted[0].after)
    rows = [
        (each.preset, str(each.primitives), *(str(each.after[name]) for name in passes), str(each.engine))
        for each in counted
    ]
    told = [f"{each.preset}, {line}" for each in counted for line in each.told]
    return "\n".join([text_table(("preset", "primitives", *passes, "engine"), rows), *told])


def table(reports: list[Report], answers: dict[str, dict[str, Any]]) -> str:
    """Return reports and what peers answered as text."""
    head = "function", "by", "primitives", "nodes", "first trace ms", "trace ms", "first call ms", "call us", "whole us"
    rows = []
    for report in reports:
        times = report.first_trace_ms, report.trace_ms, report.first_call_ms, report.call_us["median"], report.whole_us
        counts = str(report.primitives), str(report.nodes)
        rows.append((report.function, f"hiprt, {report.provider}", *counts, *(f"{number:.2f}" for number in times)))
        for peer, answer in answers.items():
            found = answer.get(report.function)
            if found is None:
                rows.append((report.function, peer, "absent"))
            else:
                times_of = (found[key] for key in ("first_call_ms", "call_us", "whole_us"))
                version = f"{peer} {answer['version']}"
                rows.append((report.function, version, "", "", "", "", *(f"{number:.2f}" for number in times_of)))
    absent = [f"{peer} is absent: {answer['absent']}" for peer, answer in answers.items() if "absent" in answer]
    return "\n".join([text_table(head, rows, names=2), *absent])
