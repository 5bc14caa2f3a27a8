"""NVIDIA GPUs as targets: features by compute capability, and the launch shapes that were measured on an H200."""

from __future__ import annotations

from hiprt.kernels.tuning.rings import Ring
from hiprt.kernels.tuning.table import Table

__all__ = ["features", "serves", "table"]

# Measured on 2026-11-22, with 132 processors. The whole decode step of a preset was 0.5 to 8 % faster with these rings
# than with those that `RingCost` ranks first; the last two matrices, which no preset has, were measured by themselves.
H200 = Table(
    rings={
        (4096, 1024): Ring(2, 1, 4, 1, 4, 264),
        (6144, 1024): Ring(3, 2, 2, 1, 2, 264),
        (4096, 2048): Ring(2, 2, 4, 1, 4, 264),
        (5120, 2048): Ring(5, 2, 2, 1, 2, 132),
        (12288, 2048): Ring(4, 1, 4, 1, 2, 396),
        (6144, 2560): Ring(3, 5, 2, 2, 2, 132),
        (19456, 2560): Ring(5, 2, 5, 2, 2, 264),
        (1024, 3072): Ring(1, 12, 1, 1, 1, 128),
        (2560, 4096): Ring(1, 16, 3, 3, 1, 132),
        (24576, 4096): Ring(5, 4, 4, 3, 2, 132),
        (2560, 9728): Ring(2, 10, 4, 2, 2, 132),
        (4096, 12288): Ring(1, 16, 3, 4, 3, 132),
        (5120, 25600): Ring(1, 20, 5, 3, 5, 132),
        (25600, 5120): Ring(2, 7, 3, 4, 1, 264),
        (8192, 8192): Ring(1, 16, 2, 4, 1, 264),
    }
)


def serves(arch: str) -> bool:
    """Whether an architecture is one of NVIDIA's, whose names are ``sm_`` and the compute capability."""
    return arch.startswith("sm_")


def features(arch: str) -> frozenset[str]:
    """Return the features of a compute capability, by which plans choose.

    The kernels of matrix instructions serve every capability from 8.0; those of bulk copies were measured on 9.0 alone.
    """
    return frozenset(("matrix", "bulk_copies") if arch == "sm_90" else ("matrix",))


def table(_arch: str, _compute_units: int) -> Table:
    """Return the launch shapes for an architecture, which are those of an H200."""
    return H200
