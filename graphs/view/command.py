"""``hiprt graph show``: what a run launched, in a terminal or as a page."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hiprt.command import set_run
from hiprt.graphs.view.run import Run, of_program, read
from hiprt.graphs.view.view import View

__all__ = ["add_arguments", "run"]

DESCRIPTION = (
    "Show the graphs that a run launched. WHAT is a file that HIPRT_GRAPH_TRACE or HIPRT_GRAPH_DUMP wrote, two such "
    "files to compare, or a Python program, which is run with HIPRT_GRAPH_TRACE set; what follows it are its arguments."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt graph show``."""
    parser.description = DESCRIPTION
    add_options(parser)
    parser.add_argument("what", metavar="WHAT", nargs=1, type=Path, help="a JSON file, or a Python program")
    parser.add_argument(
        "rest", metavar="…", nargs=argparse.REMAINDER, help="a second file, or arguments of the program"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says how to show it."""
    parser.add_argument("--step", metavar="NAME", help="show this step only")
    parser.add_argument("--html", metavar="PAGE", type=Path, help="write a page for a browser: one file, offline")
    parser.add_argument("--text", action="store_true", help="print text, as is done without --html")
    set_run(parser, run)


def read_options_behind(options: argparse.Namespace) -> None:
    """Take options that stand behind a file. Behind a program they are the program's."""
    parser = argparse.ArgumentParser("hiprt graph show FILE", description=DESCRIPTION)
    add_options(parser)
    parser.add_argument("rest", metavar="FILE", nargs="*", help="a second file")
    # What was given before the file stays where nothing else is said behind it.
    parser.set_defaults(**{name: value for name, value in vars(options).items() if name != "rest"})
    vars(options).update(vars(parser.parse_intermixed_args(options.rest)))


def run(options: argparse.Namespace) -> int:
    """Show what was asked for."""
    if options.what[0].suffix != ".py":
        read_options_behind(options)
    view = View(*(each.only(options.step) if options.step else each for each in runs(options.what[0], options.rest)))
    if options.html:
        view.write(options.html)
    if options.json:
        print(json.dumps(view.values()))
    elif options.text or not options.html:
        print(view.text())
    else:
        print(options.html)
    return 0


def runs(what: Path, rest: list[str]) -> list[Run]:
    """Return the runs to show: of a program, of one file or of two.

    Raises
    ------
    ValueError
        There are more than two files, or no such program.
    """
    if what.suffix == ".py":
        if not what.exists():
            raise ValueError(f"there is no program {what}")
        return [of_program(what, rest)]
    if len(rest) > 1:
        raise ValueError(f"one file is shown, or two are compared; {1 + len(rest)} were given")
    return [read(path) for path in (what, *map(Path, rest))]
