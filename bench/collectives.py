"""``hiprt bench collectives``: what the sum of an array over ranks costs, alone and as nodes of a graph.

The sums of a graph depend on each other, as those of a decode step do. Before they are timed, one is compared with
numpy's bit by bit. Rank 0 prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import asdict, dataclass

import numpy as np

import hiprt
from hiprt import Array, bfloat16, graphs
from hiprt.bench.graph import positive
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.distributed import Communicator
from hiprt.distributed.launcher import start_ranks
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run"]

TRIALS, WARM_UP = 15, 3


@dataclass(frozen=True)
class Report:
    """What a sum costs.

    Attributes
    ----------
    ranks, nodes : int
        How many ranks there are, and the sums of a graph.
    nbytes : int
        The size of each rank's array, of bfloat16.
    graph_us, eager_us : float
        The time of one sum in a graph, and of one that is launched by itself: medians of rounds of `nodes` sums, the
        host's clock.
    """

    ranks: int
    nodes: int
    nbytes: int
    provider: str
    device: str
    graph_us: float
    eager_us: float


def measure(nbytes: int, nodes: int) -> Report:
    """Measure sums of arrays of so many bytes; every rank calls it.

    Raises
    ------
    RuntimeError
        A sum has not the bits of numpy's.
    """
    with Communicator() as ranks:
        given = [np.random.default_rng(rank).normal(size=nbytes // 2).astype(bfloat16) for rank in range(ranks.ranks)]
        wanted = np.zeros(nbytes // 2, np.float32)
        for each in given:
            wanted += each.astype(np.float32)
        x = hiprt.array(given[ranks.rank])
        if ranks.all_reduce(x).numpy().tobytes() != wanted.astype(bfloat16).tobytes():
            raise RuntimeError(f"rank {ranks.rank}: a sum is wrong")
        zeros = hiprt.zeros(nbytes // 2, bfloat16)

        def chain() -> Array:
            y = zeros
            for _ in range(nodes):
                y = ranks.all_reduce(y)
            return y

        step = graphs.Step(chain)
        took: list[float] = []
        for call in (step, step.eager):
            times = []
            for _ in range(WARM_UP + TRIALS):
                ranks.barrier()
                start = time.perf_counter()
                call()
                hiprt.current_stream().synchronize()
                times.append(time.perf_counter() - start)
            ranks.check()
            took.append(round(statistics.median(times[WARM_UP:]) / nodes * 1e6, 2))
        device = ranks.device
        return Report(ranks.ranks, nodes, nbytes, device.provider.name, device.name, *took)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench collectives``."""
    parser.add_argument("--ranks", metavar="N", type=positive, default=2, help="how many processes (default: 2)")
    parser.add_argument("--kib", metavar="N", type=positive, default=10, help="size of the array (default: 10)")
    parser.add_argument("--nodes", metavar="N", type=positive, default=128, help="sums of a graph (default: 128)")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure on all ranks; print a table or JSON on the first."""
    place, status = start_ranks(options.ranks, options.argv)
    if place is None:
        return status
    report = measure(options.kib << 10, options.nodes)
    if place.rank == 0:
        print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    what = f"sum of {report.nbytes >> 10} KiB over {report.ranks} ranks on {report.provider} ({report.device})"
    rows = [(f"in a graph of {report.nodes}", f"{report.graph_us:.2f}"), ("by itself", f"{report.eager_us:.2f}")]
    return text_table((what, "us"), rows)
