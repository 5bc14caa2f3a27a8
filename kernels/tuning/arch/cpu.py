"""Targets that are no GPU of NVIDIA's or AMD's: the CPU device, the null provider, Metal."""

from __future__ import annotations

from hiprt.kernels.tuning.table import DEFAULT, Table

__all__ = ["features", "serves", "table"]


def serves(_arch: str) -> bool:
    """Take every architecture that no other family takes."""
    return True


def features(arch: str) -> frozenset[str]:
    """Return the features: kernels use the dialect alone; Metal before 3.2 orders no memory between threadgroups."""
    return frozenset(() if arch == "metal" else {"arrivals"})


def table(_arch: str, _compute_units: int) -> Table:
    """Return the launch shapes, which are the defaults; plain loops use only its loop sizes."""
    return DEFAULT
