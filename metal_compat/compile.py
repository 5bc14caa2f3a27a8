"""``hiprt compile`` with every target: those of `hiprt.kernels.offline`, which cannot import this layer, and Metal."""

from __future__ import annotations

import argparse

from hiprt.kernels.offline import command
from hiprt.metal_compat import backend

__all__ = ["add_arguments"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hiprt compile``, and Metal to its targets."""
    backend.register()
    command.add_arguments(parser)
