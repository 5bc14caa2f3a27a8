"""Targets that are no GPU of NVIDIA's or AMD's: the CPU device, the null provider, Metal."""

from __future__ import annotations

from dataclasses import replace

from hiprt.kernels.tuning.table import DEFAULT, Table

__all__ = ["features", "serves", "table"]


def serves(_arch: str) -> bool:
    """Take every architecture that no other family takes."""
    return True


def features(arch: str) -> frozenset[str]:
    """Return the features: kernels use the dialect alone; Metal before 3.2 orders no memory between threadgroups."""
    return frozenset(() if arch == "metal" else {"arrivals"})


# Plain loops multiply each token by itself. By the times of steps of 1 to 256 tokens on two cores (2026-11-28), what is
# left of prompts of all lengths takes 10 % less of 0.6B and 14 % less of the small presets than with 0, and with 3 to 8
# within 1 % of that.
CPU_DEVICE = replace(DEFAULT, step_tokens=5)


def table(arch: str, _compute_units: int) -> Table:
    """Return the launch shapes, which are the defaults; plain loops use only its loop sizes."""
    return CPU_DEVICE if arch == "hiprt-cpu" else DEFAULT
