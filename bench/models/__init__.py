"""``hiprt bench models``: what the presets do on this device, as tables: one text, several, long contexts, prompts.

Each preset has a process of its own, which makes its weights once; one that fails, or whose memory the device does not
have, is named with the reason, and the others go on. Weights are random, so that nothing is downloaded; the kernels do
the same work with any weights, but experts are chosen evenly, which those of a trained mixture need not be.

The file is written after each measurement. What is done is kept when the run is killed, and ``--resume`` goes on. The
steps are those of ``hiprt bench decode``; before something counts, a GPU works for 0.3 s, so that its clocks are up.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hiprt import library
from hiprt.bench.check import INTERRUPTED
from hiprt.bench.decode_run import MODES
from hiprt.bench.engine.models.presets import MINIS, PRESETS
from hiprt.bench.graph import positive
from hiprt.bench.models.plan import START, Settings, expected, planned
from hiprt.bench.models.report import Report
from hiprt.bench.models.session import Session
from hiprt.bench.models.tables import changes, compared, markdown, text
from hiprt.command import set_run
from hiprt.device import current_device
from hiprt.machine import machine

__all__ = ["add_arguments", "run"]

SIZED = tuple(preset for preset in PRESETS if preset not in MINIS)
OUT = "hiprt-models.json"
DEFAULTS = Settings(SIZED, (1, 4, 8), (16, 8192, 32768), (16, 512), ("graph", "rerecord", "eager"), 128, 2, False)
ON_HOST = replace(DEFAULTS, models=tuple(MINIS), contexts=(16, 512), tokens=32)
KEPT = ("date", "python")  # what may differ between a run and one that goes on with it
FAILURE = 1


def several(parse: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Return what parses values with commas between them."""

    def parsed(text: str) -> tuple[Any, ...]:
        return tuple(dict.fromkeys(parse(each) for each in text.split(",")))

    return parsed


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return what parses one of some names."""

    def parse(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r}: take some of {', '.join(names)}")
        return text

    return parse


def batch(text: str) -> int:
    """Parse how many texts a step has."""
    if not 1 <= positive(text) <= 8:
        raise argparse.ArgumentTypeError(f"{text!r}: expected 1 to 8 texts")
    return int(text)


def minutes(settings: Settings) -> float:
    """Return how long a run takes on an H200, nearly."""
    taken = sum(expected(each, settings) for each in planned(settings, is_by_worth=False))
    return (taken + START * len(settings.models)) / 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench models``."""
    parser.description = (
        "Measure presets, whose weights are random, and print tables. Without options it measures the "
        f"{len(SIZED)} presets of the sizes of published models, about {minutes(DEFAULTS):.0f} minutes on an H200 by "
        "estimate, and on the CPU device the small presets."
    )
    models, modes = several(one_of(tuple(PRESETS))), several(one_of(MODES))
    numbers = several(positive)
    given = parser.add_argument_group("what is measured")
    given.add_argument("--models", metavar="A,B", type=models, help=f"presets (default: {','.join(SIZED)})")
    given.add_argument("--batches", metavar="N,M", type=several(batch), help="texts of a step (default: 1,4,8)")
    given.add_argument(
        "--contexts",
        metavar="N,M",
        type=numbers,
        help="tokens in front of those that are decoded (default: 16,8192,32768); those behind the first with the "
        "first of --batches only, whose others go with the first context",
    )
    given.add_argument("--prompts", metavar="N,M", type=numbers, help="tokens of prompts (default: 16,512)")
    given.add_argument(
        "--modes", metavar="A,B", type=modes, help="how steps are launched (default: graph,rerecord,eager)"
    )
    given.add_argument("--tokens", metavar="N", type=positive, help="tokens that are decoded at a time (default: 128)")
    given.add_argument("--repeat", metavar="N", type=positive, help="times; the median is shown (default: 2)")
    given.add_argument("--kernels", action="store_const", const=True, help="time each kernel as well")
    parser.add_argument("--out", metavar="FILE", help=f"the file (default: {OUT}, which must not be there yet)")
    parser.add_argument("--resume", metavar="FILE", help="go on with the run of a file, as it was begun, in that file")
    parser.add_argument(
        "--budget", metavar="SECONDS", type=positive, help="end in this time, what is worth most of all presets first"
    )
    parser.add_argument("--compare", metavar="OLD", help="show what differs by more than 2 %% from the run of a file")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.set_defaults(refuse=parser.error)
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print tables, Markdown or JSON."""
    if options.json and options.markdown:
        options.refuse("--json and --markdown are two forms: take one")
    old = None if options.compare is None else Report.read(Path(options.compare))
    report, path = resumed(options) if options.resume else fresh(options)
    if any(report.result(each) is None for each in planned(report.settings, is_by_worth=False)):
        if not library.current().provider.runs_kernels:
            raise ValueError(f"models: the library in use, {library.current().provider}, runs no kernels")
        check_machine(report, path)
        Session(report, path, current_device().memory, options.budget).run()
    if options.json:
        beside = (
            {}
            if old is None
            else {
                "compared": [
                    {
                        **vars(each.measurement),
                        "old_tok_s": each.old_tok_s,
                        "new_tok_s": each.new_tok_s,
                        "faster": each.faster,
                    }
                    for each in changes(old, report)
                ]
            }
        )
        print(json.dumps({**report.as_dict(), **beside}))
    else:
        print(markdown(report) if options.markdown else text(report))
        if old is not None:
            print("\n" + compared(old, report))
    print(f"written to {path}", file=sys.stderr)
    if report.is_interrupted:
        return INTERRUPTED
    return FAILURE if report.failed else 0


def fresh(options: argparse.Namespace) -> tuple[Report, Path]:
    """Return a run that begins, and its file."""
    if options.out is None and Path(OUT).exists():
        options.refuse(f"{OUT} is there: --resume {OUT} goes on with it, --out FILE writes elsewhere")
    defaults = ON_HOST if library.current().provider.is_host else DEFAULTS
    return Report(machine(), replace(defaults, **asked(options))), Path(options.out or OUT)


def resumed(options: argparse.Namespace) -> tuple[Report, Path]:
    """Return the run of a file, and the file in which it goes on."""
    if asked(options):
        options.refuse(f"--resume goes on with what the file asks for; leave out --{', --'.join(asked(options))}")
    return Report.read(Path(options.resume)), Path(options.out or options.resume)


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the command line says of the settings."""
    return {name: getattr(options, name) for name in vars(DEFAULTS) if getattr(options, name) is not None}


def check_machine(report: Report, path: Path) -> None:
    """Raise ValueError where a run would go on with another library or another device."""
    here = machine()
    for name, before in report.machine.items():
        if name not in KEPT and here.get(name) != before:
            raise ValueError(f"{path}: its {name} is {before}, here it is {here.get(name)}; a run is of one machine")
