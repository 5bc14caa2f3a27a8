"""Everything that is no GPU of NVIDIA's or AMD's as a target: the CPU device, the null provider, Metal."""

from __future__ import annotations

from hiprt.kernels.tuning.table import DEFAULT, Table

__all__ = ["features", "serves", "table"]


def serves(_arch: str) -> bool:
    """Take every architecture that no other family takes."""
    return True


def features(_arch: str) -> frozenset[str]:
    """Return what kernels may use: nothing beyond the dialect."""
    return frozenset()


def table(_arch: str) -> Table:
    """Return the launch shapes: the defaults, of which plain loops use none."""
    return DEFAULT
