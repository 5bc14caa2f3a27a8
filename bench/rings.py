"""``hiprt bench rings``: search for the rings with which the decode step of one text or several takes the least time.

This is how the table of NVIDIA GPUs is made (`hiprt.kernels.tuning.arch.nvidia`): a preset with random weights, the
rings that the table has now, and from there product by product what is near and faster. The end of the output are the
lines for the table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hiprt import Stream, use_stream
from hiprt.bench.check import INTERRUPTED as STATUS, write
from hiprt.bench.compile_pool import CompilePool
from hiprt.bench.engine.errors import summary as reason
from hiprt.bench.engine.models import PRESETS, preset
from hiprt.bench.graph import positive
from hiprt.bench.ring_neighbours import AnyRing
from hiprt.bench.ring_products import Place, RingProduct, ring_products
from hiprt.bench.ring_search import CAREFUL, ENDS, INTERRUPTED, MARGIN, Search, Turn, Wait
from hiprt.bench.timed_step import CONTEXT, TimedStep
from hiprt.command import set_run
from hiprt.kernels.tuning.rings import Ring
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.vector_rings import MOST_VECTORS, VectorRing
from hiprt.machine import machine

__all__ = ["WHAT", "Report", "add_arguments", "check_target", "progress", "run", "selected", "table_line"]

WHAT = "hiprt bench rings"
FAILURE = 1
TEXTS = range(1, MOST_VECTORS + 1)
Rings = Mapping[tuple[int, int], Ring]


@dataclass
class Report:
    """A search, as ``--json`` prints it. A ring is a list of its numbers, of a vector ring the first is that of one.

    Attributes
    ----------
    machine : dict
        What `hiprt.machine.machine` says.
    preset : str
    texts, tokens, context : int
        The sequences of the step, the steps that are timed at a time, and the tokens in front of them.
    margin : float
        The part of the step's time by which a ring has to be faster.
    table_us, found_us : float
        The microseconds of a step with the rings of the table and with those found: timed in turn in the end, but where
        the search ended early when they were last timed.
    products : list of dict
        Of each product the name, rows, width and vectors, the field of `Table` that has its place, how many a step has,
        the ring of the table, or of the rules where that has none, and the ring that was found.
    turns : list of dict
        The fields of each `Turn`: all that was timed.
    table : dict of str to list of str
        The lines for each field of the table.
    ended : str
        Why the search ended.
    seconds : float
        How long it took, with the preset's weights.
    """

    machine: dict[str, Any]
    preset: str
    texts: int
    tokens: int
    context: int = CONTEXT
    margin: float = MARGIN
    table_us: float = 0.0
    found_us: float = 0.0
    products: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    table: dict[str, list[str]] = field(default_factory=dict)
    ended: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return what the file holds."""
        found = asdict(self)
        return {"what": WHAT, **found.pop("machine"), **found}


def texts(text: str) -> int:
    """Parse how many texts a step has."""
    if not text.isdecimal() or int(text) not in TEXTS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {TEXTS[0]} to {TEXTS[-1]} texts")
    return int(text)


def seconds(text: str) -> float:
    """Parse how long a search takes."""
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not given > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of seconds above 0")
    return given


def words(text: str) -> tuple[str, ...]:
    """Parse names with commas between them."""
    return tuple(dict.fromkeys(text.split(",")))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench rings``."""
    parser.description = (
        "Search for the rings with which the decode step of one text or several takes the least time on an NVIDIA GPU "
        "of compute capability 9.0, and print the lines for the table. Ctrl-C ends the search, and what was found is "
        "printed."
    )
    cores = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--model",
        metavar="PRESET",
        choices=PRESETS,
        default="qwen3-4b",
        help=f"{', '.join(PRESETS)} (default: qwen3-4b)",
    )
    parser.add_argument("--texts", metavar="N", type=texts, default=8, help="texts of a step, 1 to 8 (default: 8)")
    parser.add_argument(
        "--products", metavar="A,B", type=words, help="such as qkv,o,gate_up,down,head (default: all that have a ring)"
    )
    parser.add_argument("--seconds", metavar="S", type=seconds, default=200.0, help="try for so long (default: 200)")
    parser.add_argument(
        "--tokens", metavar="N", type=positive, default=48, help="steps that are timed at a time (default: 48)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=positive,
        default=max(1, cores - 1),
        help="processes that compile (default: cores - 1)",
    )
    parser.add_argument("--out", metavar="FILE", help="write what --json prints to a file, after each product")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Search, and print lines for the table or JSON."""
    stream = Stream()
    check_target(target_of(stream), stream.device.name, options.texts)
    report = Report(machine(), options.model, options.texts, options.tokens)
    work = Work(report, stream, None if options.out is None else Path(options.out))
    work.keep()  # a file that cannot be written is told before anything is timed
    # Its processes start while the weights are made, and are gone before the last timings.
    with CompilePool(options.jobs) as pool:
        work.make(options.products)
        search = work.search(pool, options.seconds)
    work.finish(search)
    print(json.dumps(report.as_dict()) if options.json else summary(report))
    if options.out is not None:
        print(f"written to {options.out}", file=sys.stderr)
    if report.ended not in ENDS:
        print(f"hiprt: the step can no longer be timed: {report.ended}", file=sys.stderr)
        return FAILURE
    return STATUS if report.ended == INTERRUPTED else 0


def check_target(target: Target, device: str, texts: int) -> None:
    """Raise ValueError where no product of so many texts goes by a ring, whatever its size."""
    if "bulk_copies" not in target.features:
        raise ValueError(
            f"rings: rings are of NVIDIA GPUs of compute capability 9.0, and {device} ({target.arch}) is none; "
            "`hiprt tune` chooses elsewhere how kernels are shared out"
        )
    most = target.table.ring_vectors
    if most < texts:
        raise ValueError(f"rings: on {device} the table has vector rings for up to {most} texts, not for {texts}")


def selected(products: Sequence[RingProduct], names: Sequence[str] | None, preset: str) -> list[RingProduct]:
    """Return the products that are asked for.

    Raises
    ------
    ValueError
        There is none of a name, or none at all.
    """
    if not products:
        raise ValueError(f"rings: no product of {preset} goes by a ring; take a larger preset")
    known = [name for each in products for name in each.names]
    for name in names or ():
        if name not in known:
            raise ValueError(f"rings: {preset} has no product {name!r} by a ring: take some of {', '.join(known)}")
    return [each for each in products if names is None or set(names) & set(each.names)]


class Work:
    """A search on a device, and the report on it.

    Parameters
    ----------
    report : Report
    stream : Stream
    path : Path or None
        The file that is written after each turn.
    """

    def __init__(self, report: Report, stream: Stream, path: Path | None) -> None:
        self.report, self.stream, self.path = report, stream, path
        self.target, self.begin = target_of(stream), time.monotonic()

    def keep(self) -> None:
        """Write the file."""
        self.report.seconds = round(time.monotonic() - self.begin, 1)
        if self.path is not None:
            write(self.path, self.report.as_dict())

    def make(self, names: Sequence[str] | None) -> None:
        """Make the preset, find its products, and time its step with the rings of the table."""
        report = self.report
        with use_stream(self.stream):
            model = preset(report.preset)
            self.step = TimedStep(model, self.stream, report.texts, report.tokens)
            found = selected(ring_products(self.step.run.issue, model, self.stream), names, report.preset)
        self.products = {each.name: each for each in found}
        report.table_us = report.found_us = self.step.us({}, CAREFUL)
        head = (
            f"{report.preset}, {of_texts(report.texts)}: {report.table_us:,.0f} us a step with the rings of the table"
        )
        self.line(f"{head}; products: {', '.join(self.products)}")

    def search(self, pool: CompilePool, seconds: float) -> Search:
        """Search for so long."""
        products = self.products

        def begin(name: str, ring: AnyRing) -> Wait:
            return pool.begin(products[name].sources(ring, self.target, self.stream.device.provider))

        made = Search(
            {name: each.product for name, each in products.items()},
            {name: each.ring for name, each in products.items()},
            lambda rings, repeat: self.step.us(self.placed(rings), repeat),
            target=self.target,
            seconds=seconds,
            begin=begin,
            said=self.said,
            late=[name for name, each in products.items() if not each.may_be_early],
            tokens={name: each.tokens for name, each in products.items()},
        )
        made.run()
        return made

    def placed(self, rings: Mapping[str, AnyRing]) -> dict[Place, AnyRing]:
        """Return rings by their places in the table, those that the table or the rules have now left out."""
        return {self.products[name].place: ring for name, ring in rings.items() if ring != self.products[name].ring}

    def said(self, turn: Turn) -> None:
        """Take a turn into the report, and show it."""
        self.report.turns.append(asdict(turn))
        self.report.found_us = turn.us
        self.keep()
        self.line(progress(turn, self.products[turn.name].place, self.target.table.rings))

    def finish(self, search: Search) -> None:
        """Take what was found into the report, and time it once more in turn with the rings of the table."""
        report, found = self.report, self.placed(search.rings)
        report.ended, report.turns = search.ended, [asdict(turn) for turn in search.turns]  # also one that is not done
        for name, each in self.products.items():
            product = each.product
            vectors = max(product.batch, each.tokens)
            sizes = {"rows": product.rows, "width": product.width, "vectors": vectors, "table": each.place.table}
            rings = {"before": each.ring, "ring": search.rings[name]}
            report.products.append({"name": name, **sizes, "launches": each.launches, **rings})
        for place, ring in found.items():
            report.table.setdefault(place.table, []).append(table_line(place.key, ring, self.target.table.rings))
        try:
            if found and report.ended in ENDS and report.ended != INTERRUPTED:
                both = [(self.step.us({}, CAREFUL), self.step.us(found, CAREFUL)) for _ in range(2)]
                report.table_us, report.found_us = (min(each) for each in zip(*both))
        except KeyboardInterrupt:
            report.ended = INTERRUPTED
        except Exception as error:
            report.ended = reason(error)
        self.keep()

    def line(self, text: str) -> None:
        """Show progress."""
        print(text, file=sys.stderr, flush=True)


def progress(turn: Turn, place: Place, rings: Rings) -> str:
    """Return a turn as a line."""
    took = f" -> {turn.us:,.0f} us" if turn.ring != turn.before else ""
    failed = f", {len(turn.failed)} failed" * bool(turn.failed)
    return (
        f"{turn.name}: {turn.before_us:,.0f} us{took}, {written(place.key, turn.ring, rings)}, {turn.tried} tried, "
        f"{len(turn.uncompiled)} could not be compiled{failed}"
    )


def written(key: tuple[int, ...], ring: AnyRing, rings: Rings) -> str:
    """Return a ring as the table writes it: a vector ring without defaults at its end, its ring of one by its place."""
    if isinstance(ring, Ring):
        return f"Ring{tuple(ring)}"
    rows, width = key[:2]
    alone = f"RINGS[{rows}, {width}]" if rings.get((rows, width)) == ring.alone else f"Ring{tuple(ring.alone)}"
    numbers = list(ring[1:])
    defaults = list(VectorRing._field_defaults.values())
    while defaults and numbers[-1] == defaults[-1]:
        numbers.pop()
        defaults.pop()
    return f"VectorRing({', '.join([alone, *map(str, numbers)])})"


def table_line(key: tuple[int, ...], ring: AnyRing, rings: Rings) -> str:
    """Return a line of the table."""
    return f"        {key}: {written(key, ring, rings)},"


def summary(report: Report) -> str:
    """Return what was found as text."""
    took = f"{report.preset}, {of_texts(report.texts)}, {report.seconds:.0f} s, {report.ended}"
    if not report.table:
        return f"{took}: {report.table_us:,.0f} us a step, nothing faster than the rings of the table was found"
    head = f"{took}: {report.table_us:,.0f} us a step with the rings of the table, {report.found_us:,.0f} us with"
    head += " those found, which are these lines:"
    return "\n".join([head, *(line for name, lines in report.table.items() for line in (f"    {name}", *lines))])


def of_texts(count: int) -> str:
    """Return how many texts as words."""
    return "one text" if count == 1 else f"{count} texts"
