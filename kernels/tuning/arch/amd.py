"""AMD GPUs as targets: features by architecture, and launch shapes. Nothing has been measured on AMD hardware yet."""

from __future__ import annotations

from dataclasses import replace

from hiprt.kernels.tuning.table import DEFAULT, Table

__all__ = ["features", "serves", "table"]

SIMDS = 4  # of a compute unit of CDNA, or of a pair of them of RDNA
WAVES = 4  # that each SIMD shall have of a product
ATTENTION_EACH = 2  # threadgroups of attention that are resident on a compute unit
# Rows of tiles whose matrix instructions take 60 % of the issue slots and more, by count of machine code. With few rows
# smaller tiles would wait for memory as long on CDNA and take 7 % less on gfx12, by the model of ``bench/roofline``.
# Waves of CDNA leave out the blocks of a tile that have no rows.
TILE_ROWS = {"gfx9": (128,), "gfx11": (128, 64, 32), "gfx12": (128, 64)}


def serves(arch: str) -> bool:
    """Whether an architecture is one of AMD's, whose names are ``gfx`` and a number."""
    return arch.startswith("gfx")


def features(arch: str) -> frozenset[str]:
    """Return the features of an architecture.

    It may have dot instructions of 4 and 8 bits, by `prelude/dot.h`, and matrix instructions, by ``matmul/tiles.h``.
    """
    has_dots = (is_wide(arch) and arch != "gfx900") or arch.startswith(("gfx1030", "gfx11", "gfx12"))
    found = {"arrivals", *(["dots"] if has_dots else []), *(["blocks"] if multiplies(arch) else [])}
    return frozenset(found)


def table(arch: str, compute_units: int) -> Table:
    """Return the launch shapes for an architecture and a number of compute units.

    Four waves for each of a unit's four SIMDs hide the latency of memory as far as a wave's loads do; a simdgroup is
    half a wave of 64. HIP counts pairs of compute units on RDNA (ROCm/hip, issue 3767), which have four SIMDs as well.
    Attention is turned over where waves have matrix instructions.
    """
    simdgroups = WAVES * SIMDS * (2 if is_wide(arch) else 1)
    groups = max(DEFAULT.attention_groups, ATTENTION_EACH * compute_units)
    return replace(
        DEFAULT,
        dot_simdgroups=simdgroups,
        simdgroups_each=simdgroups,
        attention_groups=groups,
        product_rows=2 if is_wide(arch) else 4,
        matrix_tile_rows=next(
            (TILE_ROWS[each] for each in TILE_ROWS if multiplies(arch) and arch.startswith(each)), ()
        ),
        turns_attention=multiplies(arch),
    )


def multiplies(arch: str) -> bool:
    """Whether waves have matrix instructions that ``matmul/tiles.h`` knows."""
    return arch in ("gfx90a", "gfx942", "gfx950") or arch.startswith(("gfx11", "gfx12"))


def is_wide(arch: str) -> bool:
    """Whether waves have 64 lanes: GCN and CDNA, whose names are ``gfx9`` and two more characters."""
    return arch.startswith("gfx9") and len(arch) == len("gfx942")
