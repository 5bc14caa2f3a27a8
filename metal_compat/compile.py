"""``hiprt compile`` with every target.

The targets are those of `hiprt.kernels.offline`, which cannot import this layer, and Metal.
"""

from __future__ import annotations

import argparse

from hiprt.kernels.offline import command
from hiprt.kernels.offline.builder import BACKENDS
from hiprt.metal_compat.metal_backend import MetalBackend

__all__ = ["EVERY_BACKEND", "add_arguments"]

EVERY_BACKEND = (*BACKENDS, MetalBackend())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hiprt compile`` with every target."""
    command.add_arguments(parser, EVERY_BACKEND)
