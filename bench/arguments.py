"""``hiprt bench arguments``: what a call of a step costs by how one number reaches it, which differs at each call.

replay               the number is the same at each call
by name              so it is, and it is given by name
in device memory     `Step(varying=…)`: the number is written there, and the graph launched again
… by name            so it is, and it is given by name
kept                 a plain argument of a kept step: the function is called, and the graph patched
recorded again       `Step(keep=False)`: the function has the number from elsewhere
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hiprt
from hiprt import graphs, kernels
from hiprt.bench.graph import CHOICES, choose, positive
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run"]

Step = graphs.Step[..., None]
ROUNDS = 10
SIZE = 256  # elements of each array


@dataclass(frozen=True)
class Way:
    """One way to give the number.

    Attributes
    ----------
    us : float
        Microseconds a call in the best round, the device's work included.
    rungs : dict
        How often each rung was taken.
    """

    us: float
    rungs: dict[str, int]


@dataclass(frozen=True)
class Report:
    """What a call costs by how a number reaches it.

    Attributes
    ----------
    nodes, calls : int
        Nodes of the step, calls of a round.
    provider, device : str
    ways : dict
        Name to `Way`.
    patched_to_recorded, written_to_replay : float
        The time of ``kept`` over that of ``recorded again``, and of ``in device memory`` over that of ``replay``.
    """

    nodes: int
    calls: int
    provider: str
    device: str
    ways: dict[str, Way]
    patched_to_recorded: float
    written_to_replay: float


def measure(nodes: int = 40, calls: int = 200) -> Report:
    """Measure each way.

    Parameters
    ----------
    nodes : int
        Nodes of the step, the first of which uses the number.
    calls : int
        Calls of a round.
    """
    made, us = list(steps(nodes)), dict[str, float]()
    # In turn, so that what else the machine does falls on all of them.
    for _ in range(ROUNDS):
        for name, step, call in made:
            us[name] = min(us.get(name, float("inf")), timed(step, call, calls))
    ways = {name: Way(us[name], dict(step.rungs)) for name, step, _ in made}
    device = hiprt.current_stream().device
    ratios = us["kept"] / us["recorded again"], us["in device memory"] / us["replay"]
    return Report(nodes, calls, str(device.provider), device.name, ways, *ratios)


def steps(nodes: int) -> Iterator[tuple[str, Step, Callable[[Step], Any]]]:
    """Yield the name of each way, its step, and what calls that with the next number."""
    x, a, b = hiprt.zeros(SIZE), hiprt.empty(SIZE), hiprt.empty(SIZE)
    numbers, latest = (float(n) for n in itertools.count(1)), [0.0]

    def work(number: Any) -> None:
        source, target = a, b
        kernels.multiply(x, number, out=source)
        for _ in range(nodes - 1):
            kernels.sin(source, out=target)
            source, target = target, source

    def with_latest() -> None:
        work(latest[0])

    def same(step: Step) -> None:
        step(1.0)

    def same_by_name(step: Step) -> None:
        step(number=1.0)

    def other(step: Step) -> None:
        step(next(numbers))

    def other_by_name(step: Step) -> None:
        step(number=next(numbers))

    def again(step: Step) -> None:
        latest[0] = next(numbers)
        step()

    varying = {"number": np.float32}
    yield "replay", graphs.Step(work), same
    yield "by name", graphs.Step(work), same_by_name
    yield "in device memory", graphs.Step(work, varying=varying), other
    yield "in device memory, by name", graphs.Step(work, varying=varying), other_by_name
    yield "kept", graphs.Step(work), other
    yield "recorded again", graphs.Step(with_latest, keep=False), again


def timed(step: Step, call: Callable[[Step], Any], calls: int) -> float:
    """Return what a call takes, in microseconds, the device's work included."""
    stream = hiprt.current_stream()
    call(step)
    stream.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call(step)
    stream.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench arguments``."""
    parser.add_argument("--nodes", metavar="N", type=positive, default=40, help="nodes of the step (default: 40)")
    parser.add_argument("--calls", metavar="N", type=positive, default=200, help="calls of a round (default: 200)")
    parser.add_argument("--provider", choices=CHOICES, help="HIP library; null measures hiprt's own cost")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    if options.provider:
        choose(options.provider)
    report = measure(options.nodes, options.calls)
    print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    rows = []
    for name, way in report.ways.items():
        rungs = ", ".join(f"{rung} {count}" for rung, count in way.rungs.items() if count)
        rows.append((name, f"{way.us:.2f}", rungs))
    what = f"a number that differs at each call, {report.nodes} nodes, on {report.provider} ({report.device})"
    return "\n".join(
        [
            text_table((what, "us a call", "rungs"), rows),
            f"kept takes {report.patched_to_recorded:.2f} times what recording again takes, "
            f"in device memory {report.written_to_replay:.2f} times what a replay takes",
        ]
    )
