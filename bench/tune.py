"""``hiprt tune``: time ahead how the kernels of a model's steps and prompts are best shared out on this GPU.

It does what the first use of a model does on a device without a measured table, for as long as it takes, and prints
what it chose. Times are kept beside compiled kernels, by library and device; every later process takes the same ways.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hiprt import Stream, current_stream
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder
from hiprt.bench.engine.models import PRESETS, Model, load, preset
from hiprt.bench.engine.prompts import CHUNK
from hiprt.bench.engine.room import bucket
from hiprt.bench.story import CHECKPOINT
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.flags import flags
from hiprt.kernels.tuning.target import Target, target_of

__all__ = ["Report", "add_arguments", "run", "tune"]

CAPACITY = 512


@dataclass(frozen=True)
class Row:
    """How one product or attention is shared out.

    Attributes
    ----------
    name : str
    way : str
        What is taken.
    us : float or None
        The microseconds of a launch; None where nothing was timed.
    rule_us : float or None
        Those of the way that the rules have, which a device takes that was never timed.
    ways : int
        How many ways there were.
    reason : str
        ``timed``, ``kept`` from an earlier process, or why the rules' way is taken.
    """

    name: str
    way: str
    us: float | None
    rule_us: float | None
    ways: int
    reason: str


@dataclass(frozen=True)
class Report:
    """What was chosen on a device.

    Attributes
    ----------
    provider, device, arch : str
    why_nothing : str
        Why nothing is chosen by timing on the device; empty where something is.
    choices : list of Row
    """

    provider: str
    device: str
    arch: str
    why_nothing: str
    choices: list[Row]


def why_nothing(target: Target) -> str:
    """Return why a target takes no choices; an empty text where it does."""
    if target.takes_loops:
        return "the CPU device runs plain loops, which are shared out in one way"
    if target.table.is_measured:
        return f"the shapes for {target.arch} were measured, and are taken as they are"
    if target.choices is None:
        return "launches on this device cannot be timed"
    if not target.choices.are_wanted:
        return f"HIPRT_TUNE={flags.tune} has the rules' ways on this device"
    return ""


def tune(
    model: Model,
    stream: Stream,
    capacities: Sequence[int],
    seconds: float,
    *,
    chunks: Sequence[int] = (),
    again: bool = False,
) -> Report:
    """Choose for the decode step of a model, where its caches have these capacities, and for chunks of prompts.

    Parameters
    ----------
    model : Model
    stream : Stream
    capacities : sequence of int
    seconds : float
        After this time nothing more is timed for a capacity.
    chunks : sequence of int
        Their tokens.
    again : bool
        Whether what earlier processes have timed is timed anew.
    """
    target, device = target_of(stream), stream.device
    choices, why = target.choices, why_nothing(target)
    if choices is not None and not why:
        if again:
            choices.file.unlink(missing_ok=True)
        for capacity in capacities:
            decoder = Decoder(model, stream, bucket(capacity), seconds=seconds)
            for size in (size for size in chunks if size <= decoder.capacity):
                decoder.state.give([0] * size, 0, stream)
                decoder.recorded.choose_chunk(0, size)
    made = [] if choices is None or why else choices.made.values()
    rows = [
        Row(
            each.name,
            each.ways[each.taken],
            each.us[each.taken] if each.us else None,
            each.us[0] if each.us else None,
            len(each.ways),
            each.reason,
        )
        for each in made
    ]
    return Report(device.provider.name, device.name, target.arch, why, rows)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt tune``."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--model", metavar="DIR", default=CHECKPOINT, help="the model directory (default: the small one)"
    )
    which.add_argument("--preset", choices=PRESETS, help="the shapes of a published model instead, with random weights")
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=int,
        nargs="+",
        default=[CAPACITY],
        help=f"tokens that caches have room for (default: {CAPACITY}); generate begins with that of the whole text",
    )
    parser.add_argument(
        "--chunk",
        metavar="N",
        type=int,
        nargs="*",
        default=[CHUNK],
        help=f"tokens of a prompt's chunks, at most {CHUNK} (default: {CHUNK}); none for no prompts",
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="time no longer than this (default: no bound)")
    parser.add_argument("--again", action="store_true", help="time anew what is kept")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Print what was chosen."""
    stream = current_stream()
    if min(options.capacity) < 1:
        raise ValueError("--capacity: at least 1 is needed")
    if any(not 1 <= size <= CHUNK for size in options.chunk):
        raise ValueError(f"--chunk: 1 to {CHUNK} are needed")
    if why := why_nothing(target_of(stream)):
        report = Report(stream.device.provider.name, stream.device.name, stream.device.arch, why, [])
    else:
        model = preset(options.preset) if options.preset else load(Checkpoint(options.model))
        report = tune(model, stream, options.capacity, options.seconds, chunks=options.chunk, again=options.again)
    print(json.dumps(asdict(report)) if options.json else table(report))
    return 0


def table(report: Report) -> str:
    """Return a report as text."""
    head = f"{report.device}, {report.arch}"
    if report.why_nothing:
        return f"{head}: nothing to choose, {report.why_nothing}"
    rows = [
        (each.name, each.way, number(each.us), number(each.rule_us), str(each.ways), each.reason)
        for each in report.choices
    ]
    return f"{head}\n{text_table(('kernel', 'way', 'us', 'us by rule', 'ways', 'why'), rows, names=2)}"


def number(value: Any) -> str:
    """Return microseconds as text."""
    return "" if value is None else f"{value:.1f}"
