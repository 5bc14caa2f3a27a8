"""``hiprt bench graphed``: what a call of a function of torch costs the host as a graph whose addresses are patched.

nothing changed       `hiprt.torch.graphed` is called with the tensors of the last call
other weights         some weights lie elsewhere than at the last call
… overwrite           so they do, and the result is the graph's own memory: `graphed(overwrite=True)`
another input         the input lies elsewhere
torch: replay         torch's graph, behind a copy of the input to where it was captured
torch: capture        torch captures the function anew, and launches that

Only the host's time counts: the queue is drained between calls, which is not timed. The ways take turns of some calls:
a slow phase of the host slows all of them, and each finds the host's caches as its own calls left them. Captures come
last, because calls behind one of them are slower for a while. The function is a decode step of a transformer. With
``--changes``, weights, inputs and caches are exchanged at random, and each call is compared bit by bit with a new
capture of torch's.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from hiprt.bench.graph import positive
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.machine import machine
from hiprt.torch import Graphed, graphed

__all__ = ["Report", "Turns", "Work", "add_arguments", "compare", "graphed_ways", "in_turn", "run"]

WIDTH, INNER, HEADS, BATCH, POSITIONS = 1024, 4096, 16, 4, 128
SETS = 3  # places among which a tensor is exchanged
INPUTS = 16  # places of the input, more than there are executable graphs that remember one
WARM_UP = 20  # exchanges of weights, in which each has been elsewhere once
TURN = 20  # calls of one way in a row
CAPTURED = 30  # calls of each way for one capture of torch's
EPS = 1e-6


@dataclass(frozen=True)
class Way:
    """What a call costs one way.

    Attributes
    ----------
    us : dict
        Microseconds of the host, ``p10``, ``median`` and ``p99``.
    rungs : dict
        How often each rung was taken meanwhile; empty for torch's own graphs.
    captures : int
        How often the function was captured meanwhile.
    """

    us: dict[str, float]
    rungs: dict[str, int] = field(default_factory=dict)
    captures: int = 0


@dataclass(frozen=True)
class Report:
    """What calls cost, and whether their results are right.

    Attributes
    ----------
    layers, weights, others, calls : int
        Layers and weights of the function, weights that are exchanged for a call, timed calls of each way.
    torch, device : str
        torch's version, and its device.
    ways : dict
        Name to `Way`.
    patch_us : float
        What a call with other weights takes more than one with nothing changed: the medians' difference.
    changes, wrong, captures : int
        Calls with random exchanges, how many of them had other bits than torch's capture, and how often hiprt captured.
    """

    layers: int
    weights: int
    others: int
    calls: int
    torch: str
    device: str
    ways: dict[str, Way]
    patch_us: float
    changes: int
    wrong: int
    captures: int


@dataclass
class Work:
    """A function of torch, and the tensors that it is called with.

    Attributes
    ----------
    function : callable
        Takes an input, and reads ``weights`` and ``caches``.
    weights : dict
        Name to tensor: what the function reads.
    caches : dict
        Name to tensor: what the function reads and writes.
    places : dict
        Name of a weight or cache to the tensors among which it is exchanged.
    inputs : list
        Inputs at several places.
    drain : callable
        Waits for the device.
    """

    function: Callable[[Any], Any]
    weights: dict[str, Any]
    caches: dict[str, Any]
    places: dict[str, list[Any]]
    inputs: list[Any]
    drain: Callable[[], Any]

    def graphed(self, *, overwrite: bool = False) -> Graphed:
        """Return the function as a graph that is patched."""
        made = graphed(self.function, weights=[self.weights, self.caches], overwrite=overwrite)
        assert isinstance(made, Graphed)
        return made

    def exchange(self, held: dict[str, Any], names: list[str]) -> None:
        """Put each of these weights or caches at another of its places."""
        for name in names:
            places = self.places[name]
            at = next(i for i, each in enumerate(places) if each is held[name])
            held[name] = places[(at + 1) % len(places)]


def transformer(layers: int, seed: int = 0) -> Work:
    """Return a decode step of a transformer of 9 weights a layer in bfloat16, on torch's device.

    Raises
    ------
    ValueError
        torch sees no GPU.
    """
    import torch
    from torch.nn.functional import rms_norm, silu

    if not torch.cuda.is_available():
        raise ValueError("bench graphed: torch sees no GPU here, on which it could capture")
    device = torch.device("cuda")
    generator = torch.Generator(device).manual_seed(seed)

    def made(*shape: int, count: int = SETS) -> list[Any]:
        scale, kind = shape[-1] ** -0.5, {"device": device, "dtype": torch.bfloat16}
        return [torch.randn(shape, generator=generator, **kind) * scale for _ in range(count)]

    shapes = {
        **dict.fromkeys(("norm", "inner_norm"), (WIDTH,)),
        **dict.fromkeys(("q", "k", "v", "o"), (WIDTH, WIDTH)),
        **dict.fromkeys(("gate", "up"), (INNER, WIDTH)),
        "down": (WIDTH, INNER),
    }
    places = {f"{layer}.{name}": made(*shape) for layer in range(layers) for name, shape in shapes.items()}
    weights = {name: each[0] for name, each in places.items()}
    room = (BATCH, HEADS, POSITIONS, WIDTH // HEADS)
    kept = {f"{layer}.{name}": made(*room) for layer in range(layers) for name in ("keys", "values")}
    caches = {name: each[0] for name, each in kept.items()}
    position = torch.tensor([POSITIONS // 2], device=device)

    def forward(x: Any) -> Any:
        for layer in range(layers):
            w = {name: weights[f"{layer}.{name}"] for name in shapes}
            y = rms_norm(x, (WIDTH,), w["norm"], EPS)
            q, k, v = ((y @ w[name].T).view(BATCH, HEADS, 1, -1) for name in "qkv")
            keys, values = caches[f"{layer}.keys"], caches[f"{layer}.values"]
            keys.index_copy_(2, position, k)
            values.index_copy_(2, position, v)
            attended = torch.softmax(q @ keys.transpose(2, 3), -1) @ values
            x = x + attended.reshape(BATCH, WIDTH) @ w["o"].T
            y = rms_norm(x, (WIDTH,), w["inner_norm"], EPS)
            x = x + (silu(y @ w["gate"].T) * (y @ w["up"].T)) @ w["down"].T
        return x

    return Work(forward, weights, caches, {**places, **kept}, made(BATCH, WIDTH, count=INPUTS), torch.cuda.synchronize)


@dataclass
class Turns:
    """Calls of one way, which takes turns with others.

    Attributes
    ----------
    call : callable
        What is timed.
    change : callable
        What comes before each call.
    settle : callable
        Undoes what other ways' turns did, before the change.
    run : Graphed or None
        What is called, whose rungs are counted.
    """

    call: Callable[[], Any]
    change: Callable[[], Any] = lambda: None
    settle: Callable[[], Any] = lambda: None
    run: Graphed | None = None
    us: list[float] = field(default_factory=list)
    rungs: Counter[str] = field(default_factory=Counter)
    captures: int = 0

    def take(self, drain: Callable[[], Any]) -> None:
        """Time one call; what comes before and behind it is not timed."""
        self.settle()
        drain()
        self.change()
        before = dict(self.run.stats.rungs) if self.run else {}
        captures = self.run.captures if self.run else 0
        start = time.perf_counter()
        self.call()
        self.us.append((time.perf_counter() - start) * 1e6)
        drain()
        if self.run:
            self.rungs += Counter(self.run.stats.rungs)
            self.rungs -= Counter(before)
            self.captures += self.run.captures - captures

    @property
    def way(self) -> Way:
        """What the calls cost."""
        found = sorted(self.us)
        low, high = (found[min(len(found) - 1, len(found) * share // 100)] for share in (10, 99))
        return Way({"p10": low, "median": statistics.median(found), "p99": high}, dict(self.rungs), self.captures)


def in_turn(ways: dict[str, Turns], drain: Callable[[], Any], calls: int) -> dict[str, Way]:
    """Time so many calls of each way, some in a row, and return what each way's calls cost."""
    for begin in range(0, calls, TURN):
        for turns in ways.values():
            for _ in range(begin, min(begin + TURN, calls)):
                turns.take(drain)
    return {name: turns.way for name, turns in ways.items()}


def graphed_ways(work: Work, others: int = 10, seed: int = 1) -> dict[str, Turns]:
    """Return calls with nothing changed, with other weights, and with another input, which have been warmed up.

    Parameters
    ----------
    work : Work
    others : int
        How many weights lie elsewhere, drawn anew for each call.
    seed : int
    """
    draw = random.Random(seed)
    names = sorted(work.weights)

    def other_weights() -> None:
        work.exchange(work.weights, draw.sample(names, min(others, len(names))))

    at = 0

    def other_input() -> None:
        nonlocal at
        at += 1

    runs = {False: work.graphed(), True: work.graphed(overwrite=True)}
    for run in runs.values():
        for _ in range(3):
            run(work.inputs[0])
        work.exchange(work.weights, names)
        for _ in range(WARM_UP):
            other_weights()
            run(work.inputs[0])
        for each in work.inputs:
            run(each)

    def turns(overwrite: bool, change: Callable[[], Any]) -> Turns:
        run = runs[overwrite]

        def call() -> Any:
            return run(work.inputs[at % len(work.inputs)])

        return Turns(call, change, call, run)

    return {
        "nothing changed": turns(False, lambda: None),
        "other weights": turns(False, other_weights),
        "other weights, overwrite": turns(True, other_weights),
        "another input": turns(False, other_input),
    }


def torch_replay(work: Work) -> Turns:
    """Return replays of torch's own graph."""
    place = work.inputs[0].clone()
    graph, _ = captured(work, place)

    def replay() -> None:
        place.copy_(work.inputs[1])
        graph.replay()

    return Turns(replay)


def torch_capture(work: Work) -> Turns:
    """Return captures of torch's, each of which is launched once."""
    kept: list[Any] = []

    def again() -> None:
        kept[:] = [captured(work, work.inputs[0])]
        kept[0][0].replay()

    return Turns(again)


def captured(work: Work, x: Any) -> tuple[Any, Any]:
    """Capture the function by torch, and return the graph and its result."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = work.function(x)
    return graph, result


def by_torch(work: Work) -> Callable[[Any], Any]:
    """Return what gives the function's result by a capture of torch's own."""

    def result(x: Any) -> Any:
        graph, found = captured(work, x)
        graph.replay()
        work.drain()
        return found.clone()

    return result


def compare(work: Work, changes: int, reference: Callable[[Any], Any], seed: int = 2) -> tuple[int, int]:
    """Exchange weights, caches and inputs at random, and compare each result and all caches with the reference's.

    Parameters
    ----------
    work : Work
    changes : int
    reference : callable
        Gives what the function gives for an input, from the same weights and caches.
    seed : int

    Returns
    -------
    (int, int)
        Calls that were wrong, and how often hiprt captured.
    """
    import torch

    draw = random.Random(seed)
    names, kept = sorted(work.weights), sorted(work.caches)
    run, wrong = work.graphed(), 0
    for _ in range(changes):
        work.exchange(work.weights, draw.sample(names, draw.randint(0, min(12, len(names)))))
        work.exchange(work.caches, draw.sample(kept, draw.randint(0, len(kept))))
        x = draw.choice(work.inputs)
        before = {name: each.clone() for name, each in work.caches.items()}
        result = run(x)
        work.drain()
        after = {name: each.clone() for name, each in work.caches.items()}
        for name, each in before.items():
            work.caches[name].copy_(each)
        work.drain()
        expected = reference(x)
        work.drain()
        pairs = [(result, expected), *((after[name], each) for name, each in work.caches.items())]
        wrong += not all(torch.equal(ours, theirs) for ours, theirs in pairs)
    return wrong, run.captures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench graphed``."""
    parser.add_argument("--layers", metavar="N", type=positive, default=12, help="layers (default: 12)")
    parser.add_argument("--others", metavar="N", type=positive, default=10, help="weights exchanged (default: 10)")
    parser.add_argument("--calls", metavar="N", type=positive, default=300, help="calls of each way (default: 300)")
    parser.add_argument("--changes", metavar="N", type=int, default=0, help="random exchanges to compare (default: 0)")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON; the status is 1 where a result was wrong."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ValueError("bench graphed: torch is not installed") from None

    work = transformer(options.layers)
    quick = {**graphed_ways(work, options.others), "torch: replay": torch_replay(work)}
    ways = in_turn(quick, work.drain, options.calls)
    ways |= in_turn({"torch: capture": torch_capture(work)}, work.drain, -(-options.calls // CAPTURED))
    patch = ways["other weights"].us["median"] - ways["nothing changed"].us["median"]
    wrong, captures = compare(work, options.changes, by_torch(work)) if options.changes > 0 else (0, 0)
    counts = options.layers, len(work.weights), options.others, options.calls
    device = torch.cuda.get_device_name()
    report = Report(*counts, torch.__version__, device, ways, patch, max(0, options.changes), wrong, captures)
    print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 1 if wrong else 0


def table(report: Report) -> str:
    """Return a report as text."""
    rows = []
    for name, way in report.ways.items():
        told = [f"{rung} {count}" for rung, count in way.rungs.items()]
        told += [f"captured {way.captures}"] if way.captures else []
        rows.append((name, *(f"{us:.1f}" for us in way.us.values()), ", ".join(told)))
    what = f"{report.layers} layers, {report.weights} weights, {report.others} of them others ({report.device})"
    lines = [
        text_table((what, "p10, us", "median", "p99", "rungs"), rows),
        f"other weights take {report.patch_us:.1f} us more than none",
    ]
    if report.changes:
        lines.append(f"{report.changes} random changes: {report.wrong} wrong, captured {report.captures} times")
    return "\n".join(lines)
