"""AMD GPUs as targets: features by architecture, and launch shapes. Nothing has been measured on AMD hardware yet."""

from __future__ import annotations

from hiprt.kernels.tuning.table import DEFAULT, Table

__all__ = ["features", "serves", "table"]


def serves(arch: str) -> bool:
    """Whether an architecture is one of AMD's, whose names are ``gfx`` and a number."""
    return arch.startswith("gfx")


def features(_arch: str) -> frozenset[str]:
    """Return no features: plans have no choice to make on AMD yet, and kernels ask their compiler."""
    return frozenset()


def table(_arch: str) -> Table:
    """Return the launch shapes for an architecture, which are the defaults."""
    return DEFAULT
