"""``hiprt graph``: what steps launched."""

from __future__ import annotations

import argparse

from hiprt.command import add_commands

__all__ = ["COMMANDS", "add_arguments"]

COMMANDS = {"show": ("hiprt.graphs.view.command", "show what a run launched: timeline, memory, rungs and why")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of ``hiprt graph``."""
    add_commands(parser, COMMANDS, "WHAT")
