"""``hiprt bench upload``: how fast weights get from files to the device, beside the link's own rate.

link      copies from pinned memory that holds something already
upload    files that the system has in memory, read by threads and copied, as a model is loaded: memory on the device
          and pinned memory are taken within the time
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import hiprt
from hiprt.bench.engine.models.upload import Piece, Upload
from hiprt.bench.engine.safetensors_file import SafetensorsFile
from hiprt.bench.graph import CHOICES, choose, positive
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.hip import lib
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run"]

ROUNDS = 4
PINNED = 64 << 20  # bytes of a copy by which the link is measured
ARRAYS = 16


@dataclass(frozen=True)
class Report:
    """How fast bytes get to the device.

    Attributes
    ----------
    nbytes : int
    provider, device : str
    link_gb_s : float
        10⁹ bytes a second from pinned memory, the best of some rounds.
    upload_gb_s : list of float
        The same from a file, of each round.
    share : float
        The best upload over the link.
    """

    nbytes: int
    provider: str
    device: str
    link_gb_s: float
    upload_gb_s: list[float]
    share: float


def measure(nbytes: int) -> Report:
    """Measure with a file of about so many bytes, which is written first and removed at the end."""
    device = hiprt.current_stream().device
    rows = max(1, nbytes // ARRAYS >> 12)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "weights.safetensors")
        part = np.random.default_rng(0).integers(0, 256, (rows, 1 << 12), np.uint8)
        save_file({str(i): part for i in range(ARRAYS)}, path)
        rates = [uploaded(path) for _ in range(ROUNDS)]
    link = link_rate(ARRAYS * part.nbytes)
    return Report(ARRAYS * part.nbytes, str(device.provider), device.name, link, rates, max(rates) / link)


def link_rate(nbytes: int) -> float:
    """Return how fast copies from pinned memory are."""
    stream, piece, best = hiprt.current_stream(), Piece(min(nbytes, PINNED)), 0.0
    target = hiprt.empty(piece.nbytes, np.uint8)

    def copy() -> None:
        for _ in range(-(-nbytes // piece.nbytes)):
            stream.copy(target.address, piece.address, piece.nbytes, lib.hipMemcpyHostToDevice, to=target.buffer)

    copy()
    for _ in range(ROUNDS):
        best = max(best, -(-nbytes // piece.nbytes) * piece.nbytes / timed(copy) / 1e9)
    piece.close()
    return best


def uploaded(path: Path) -> float:
    """Return how fast a file's arrays get to the device."""
    file = SafetensorsFile(path)
    arrays = [file[name] for name in file.entries]
    nbytes = sum(array.nbytes for array in arrays)
    made: list[hiprt.Array] = []
    upload = Upload(nbytes, lambda copied, nbytes: None, [file])

    def copy() -> None:
        made.extend(upload(array) for array in arrays)
        upload.wait()

    try:
        return nbytes / timed(copy) / 1e9
    finally:
        upload.close()


def timed(function: Callable[[], None]) -> float:
    """Return what a function takes, in seconds, the stream's work included."""
    stream = hiprt.current_stream()
    stream.synchronize()
    start = time.perf_counter()
    function()
    stream.synchronize()
    return time.perf_counter() - start


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench upload``."""
    parser.add_argument("--mib", metavar="N", type=positive, default=1024, help="size of the file (default: 1024)")
    parser.add_argument("--provider", choices=CHOICES, help="HIP library")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print a table or JSON."""
    if options.provider:
        choose(options.provider)
    report = measure(options.mib << 20)
    print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    what = f"{report.nbytes >> 20} MiB on {report.provider} ({report.device})"
    rows = [("link", f"{report.link_gb_s:.1f}")]
    rows += [(f"upload {i + 1}", f"{rate:.1f}") for i, rate in enumerate(report.upload_gb_s)]
    return text_table((what, "GB/s"), rows) + f"\nthe best upload has {report.share:.0%} of the link's rate"
