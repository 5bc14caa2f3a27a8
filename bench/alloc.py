"""``hiprt bench alloc``: what an allocation from a warm pool costs on the host.

    allocate   `Pool.allocate`: a buffer of memory that the stream has freed before
    free       dropping the buffer
    core       the C calls alone, one that takes a block and one that gives it back, as Python makes them

Each is timed in batches, while buffers of other sizes are in use or free, so that blocks are split and merged. The
provider ``null`` has no driver; a warm pool calls none anyway.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

import hiprt
from hiprt import core, library
from hiprt.allocator import Pool
from hiprt.allocator.driver import device_memory
from hiprt.bench.graph import CHOICES, choose, positive
from hiprt.bench.table import text_table
from hiprt.buffer import Buffer
from hiprt.command import set_run
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run"]

BATCH, BATCHES, WARM_UP = 256, 400, 8
OTHERS = 200  # buffers of other sizes, half of which are free


@dataclass(frozen=True)
class Report:
    """What an allocation costs on the host, in microseconds.

    Attributes
    ----------
    nbytes : int
        The size of each buffer.
    provider, device : str
    allocate_us, free_us, core_us : dict
        ``median`` and ``p99`` over batches, for one call; ``core_us`` is for both C calls together.
    is_flat : bool
        Whether the pool took no more memory from the device during the measurement.
    """

    nbytes: int
    provider: str
    device: str
    allocate_us: dict[str, float]
    free_us: dict[str, float]
    core_us: dict[str, float]
    is_flat: bool


def measure(nbytes: int = 4096) -> Report:
    """Measure what an allocation costs.

    Parameters
    ----------
    nbytes : int
        Size of each buffer.
    """
    pool, draw = Pool(device_memory, "bench", is_guarded=False), random.Random(nbytes)
    with hiprt.Stream() as stream, hiprt.use_stream(stream):
        others = [pool.allocate(draw.randrange(1, 4 * nbytes + 4096), stream) for _ in range(OTHERS)]
        del others[::2]
        kept = [pool.allocate(nbytes, stream) for _ in range(BATCH)]
        kept.clear()
        before = pool.stats().reserved
        allocate_us, free_us = sample(lambda: [pool.allocate(nbytes, stream) for _ in range(BATCH)])
        core_us = sample_core(pool, stream, nbytes)
        is_flat = pool.stats().reserved == before
        others.clear()
        pool.trim()
    return Report(
        nbytes,
        library.current().provider.name,
        hiprt.current_device().name,
        summary(allocate_us),
        summary(free_us),
        summary(core_us),
        is_flat,
    )


def sample(allocate: Callable[[], list[Buffer]]) -> tuple[list[float], list[float]]:
    """Return the nanoseconds that each batch of allocations took, and each batch of frees."""
    taken: list[float] = []
    given: list[float] = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(WARM_UP + BATCHES):
            start = time.perf_counter_ns()
            kept = allocate()
            middle = time.perf_counter_ns()
            kept.clear()
            taken.append(middle - start)
            given.append(time.perf_counter_ns() - middle)
    finally:
        gc.enable()
    return taken[WARM_UP:], given[WARM_UP:]


def sample_core(pool: Pool, stream: hiprt.Stream, nbytes: int) -> list[float]:
    """Return the nanoseconds that each batch of pairs of C calls took."""
    lane, take, give = pool.lane(stream), core.lib.hiprt_books_take, core.lib.hiprt_books_give
    taken: list[float] = []
    for _ in range(WARM_UP + BATCHES):
        start = time.perf_counter_ns()
        for _ in range(BATCH):
            give(pool.core, take(pool.core, lane, nbytes))
        taken.append(time.perf_counter_ns() - start)
    return taken[WARM_UP:]


def summary(batches: list[float]) -> dict[str, float]:
    """Return the microseconds of one call: the median over batches, and the 99th percentile."""
    return {
        "median": round(statistics.median(batches) / BATCH / 1e3, 3),
        "p99": round(float(np.percentile(batches, 99)) / BATCH / 1e3, 3),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench alloc``."""
    parser.add_argument("--bytes", metavar="N", type=positive, default=4096, help="size of each buffer (default: 4096)")
    parser.add_argument("--provider", choices=CHOICES, help="HIP library; null: none is involved")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    if options.provider:
        choose(options.provider)
    report = measure(options.bytes)
    print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    rows = {"allocate": report.allocate_us, "free": report.free_us, "C, both": report.core_us}
    lines = [
        f"{report.nbytes} bytes from a warm pool, on {report.provider} ({report.device})",
        text_table(
            ("host us", "median", "p99"),
            [(name, f"{us['median']:.3f}", f"{us['p99']:.3f}") for name, us in rows.items()],
        ),
    ]
    return "\n".join(lines if report.is_flat else [*lines, "the pool grew while measuring"])
