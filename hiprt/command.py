"""Subcommands of ``hiprt``: each is a module, imported when the subcommand is named.

Such a module has ``add_arguments(parser)``, which ends with `set_run`, with `set_program` where it runs a program of
the user's, or with `add_commands` where it has subcommands of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["LazyParser", "add_commands", "set_program", "set_run"]


class LazyParser(argparse.ArgumentParser):
    """The parser of a subcommand; it imports the subcommand's module before it parses.

    Parameters
    ----------
    module : str
        The module whose ``add_arguments`` completes this parser.
    **options
        Options of `argparse.ArgumentParser`.
    """

    def __init__(self, *, module: str, **options: Any) -> None:
        super().__init__(**options)
        self.module = module

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Complete the parser, then parse; argparse calls this once the subcommand has been named."""
        import_module(self.module).add_arguments(self)
        return super().parse_known_args(args, namespace)


def add_commands(
    parser: argparse.ArgumentParser, commands: Mapping[str, tuple[str, str]], metavar: str, title: str | None = None
) -> None:
    """Give a parser subcommands, of which one must be named.

    Parameters
    ----------
    parser : ArgumentParser
    commands : mapping of str to (str, str)
        The module of each subcommand, and the line that ``--help`` shows for it.
    metavar : str
        The word that stands for a subcommand in messages.
    title : str, optional
        The heading above the subcommands in ``--help``.
    """
    named = {} if title is None else {"title": title}
    made = parser.add_subparsers(required=True, metavar=metavar, parser_class=LazyParser, **named)
    for name, (module, text) in commands.items():
        made.add_parser(name, help=text, module=module)


def set_run(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    """Make a function what a subcommand does, and add the options that every subcommand has.

    Parameters
    ----------
    parser : ArgumentParser
    run : callable
        Takes the parsed options; returns the exit status.
    """
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    parser.set_defaults(run=run, is_program=False)


def set_program(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    """Make a function what a subcommand does, where that is a program of the user's.

    Its exceptions, its warnings and Ctrl-C are left to Python.

    Parameters
    ----------
    parser : ArgumentParser
    run : callable
        Takes the parsed options; returns the exit status.
    """
    parser.set_defaults(run=run, is_program=True, debug=False)
