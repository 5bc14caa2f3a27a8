"""NVIDIA GPUs as targets: features by compute capability, and the launch shapes that were measured on an H200."""

from __future__ import annotations

from hiprt.kernels.tuning.table import Table

__all__ = ["features", "serves", "table"]


def serves(arch: str) -> bool:
    """Whether an architecture is one of NVIDIA's: ``sm_`` and the compute capability."""
    return arch.startswith("sm_")


def features(arch: str) -> frozenset[str]:
    """Return what plans choose by on a compute capability.

    The kernels of matrix instructions serve every capability from 8.0; those of bulk copies were measured on 9.0 alone.
    """
    return frozenset(("matrix", "bulk_copies") if arch == "sm_90" else ("matrix",))


def table(_arch: str) -> Table:
    """Return the launch shapes for an architecture: those of an H200."""
    return Table()
