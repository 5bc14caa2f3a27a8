"""NVIDIA GPUs as targets: features by compute capability, and the launch shapes that were measured on an H200."""

from __future__ import annotations

from hiprt.kernels.tuning.rings import Ring
from hiprt.kernels.tuning.stages import Stages
from hiprt.kernels.tuning.table import Table
from hiprt.kernels.tuning.vector_rings import VectorRing

__all__ = ["features", "serves", "table"]

# The rings were measured with 132 processors, those of the presets by the time of the whole decode step, as
# `hiprt bench rings --texts 1` does it (2026-11-30). Projections of queries, keys and values leave some processors to
# attention, which follows them with few threadgroups.
RINGS = {
    (4096, 1024): Ring(7, 1, 4, 1, 4, 112),
    (6144, 1024): Ring(5, 2, 2, 1, 2, 264),
    (1024, 2048): Ring(3, 4, 2, 1, 2, 264),
    (2048, 2048): Ring(3, 4, 2, 1, 2, 112),
    (4096, 2048): Ring(5, 2, 4, 1, 1, 107),
    (5120, 2048): Ring(5, 2, 4, 1, 1, 128),
    (9216, 2048): Ring(9, 2, 2, 1, 1, 128),
    (12288, 2048): Ring(4, 1, 4, 1, 4, 396),
    (12352, 2048): Ring(10, 1, 4, 1, 2, 264),
    (6144, 2560): Ring(9, 2, 5, 1, 4, 120),
    (19456, 2560): Ring(5, 2, 5, 3, 3, 264),
    (1024, 3072): Ring(1, 12, 3, 3, 3, 264),
    (2560, 4096): Ring(2, 8, 4, 6, 2, 116),
    (4096, 4096): Ring(4, 4, 4, 1, 4, 128),
    (6144, 4096): Ring(10, 2, 4, 1, 2, 124),
    (24576, 4096): Ring(8, 2, 4, 1, 2, 128),
    (10240, 5120): Ring(4, 4, 5, 3, 2, 124),
    (51200, 5120): Ring(10, 2, 5, 1, 5, 132),
    (151936, 1024): Ring(12, 1, 2, 2, 0, 264),
    (151936, 2048): Ring(8, 1, 4, 4, 2, 264),
    (151936, 2560): Ring(16, 1, 5, 2, 2, 132),
    (151936, 4096): Ring(18, 1, 4, 2, 2, 132),
    (2048, 4096): Ring(2, 8, 2, 2, 2, 112),
    (2048, 6144): Ring(2, 6, 4, 1, 4, 132),
    (5120, 8192): Ring(5, 4, 4, 1, 4, 132),
    (2560, 9728): Ring(2, 10, 4, 6, 2, 132),
    (4096, 12288): Ring(1, 16, 3, 6, 3, 132),
    (5120, 25600): Ring(1, 20, 5, 3, 5, 132),
    (8192, 8192): Ring(1, 16, 2, 4, 1, 264),
    # Halves of matrices of 32B, measured on 2026-11-24 in a decode step over two GPUs: a layer 51.0 us for 53.7.
    (25600, 5120): Ring(5, 4, 5, 3, 2, 132),
    (5120, 4096): Ring(2, 4, 4, 2, 2, 264),
    (5120, 12800): Ring(2, 10, 5, 3, 5, 132),
    (5120, 5120): Ring(3, 5, 4, 2, 2, 132),
    # Quarters, measured on 2026-11-28 on an H100 in the step of one of four: 2,163 us for 2,366, that of
    # `plain_rings` included.
    (2560, 5120): Ring(3, 5, 4, 1, 2, 124),
    (12800, 5120): Ring(13, 1, 4, 1, 2, 132),
}
H200 = Table(
    is_measured=True,
    vector_rows=32,
    prompt_tokens=16,  # the first token of 16 of 30B-A3B comes after 7.2 ms, 13.9 by products grouped by matrix
    wgmma_rows=17,  # the four products of a layer of 4B take 16 rows in 78 us by eights, by tiles in 97
    multiplies_tiles=False,  # not measured
    joins_largest=False,  # argmax of 151,936 logits takes 2.3 us by two launches and 3.3 by one
    rings=RINGS,
    # That of `RINGS` for (5120, 2048) is for the queries, keys and values of 30B-A3B, whose token takes 37 us less with
    # it than with this one, which is for the output projection of a quarter of 32B. The other is for the product in
    # front of the mixtures, which multiplies with their router as well where there is one text: 30B-A3B 981 us for
    # 991, 35B-A3B 945 for 972. Several texts go by that of `RINGS`.
    plain_rings={(5120, 2048): Ring(5, 2, 4, 1, 2, 132), (2048, 4096): Ring(3, 8, 2, 1, 2, 112)},
    # Of 35B-A3B and of 30B-A3B, whose codes are asked for before the choice is known to be made.
    expert_rings={(2048, 4608): Ring(1, 6, 3, 1, 3, 264), (2048, 6144): Ring(2, 6, 4, 1, 4, 132)},
    # By the whole step of 2, 4, 8 and 16 texts on an H200 (2026-11-30). They divide rows as those of one text do.
    many_expert_rings={
        (12288, 2048, 4): Ring(8, 1, 4, 1, 0, 264),
        (9216, 2048, 2): Ring(5, 2, 2, 1, 0, 264),
        (9216, 2048, 16): Ring(6, 2, 2, 1, 0, 264),
        (2048, 6144, 2): Ring(1, 6, 4, 1, 2, 264),
        (2048, 4608, 2): Ring(1, 6, 3, 1, 3, 264),
    },
    routed_rings={(9216, 2048): Ring(5, 2, 2, 2, 0, 396), (12288, 2048): Ring(6, 2, 2, 1, 0, 264)},
    # Measured by the whole decode step, as `hiprt bench rings` does it, those of 2,560 and more columns on H200s on
    # 2026-11-29: for those of the least cost they give 4 vectors of 4B 1,134 us for 1,330, of 8B 1,582 for 1,769, and
    # of 32B 5,542 for 6,443. Those of 8 vectors, and of 4 of 4B, have been searched again since rows of codes lie on
    # whole lines, and those of 8 vectors of 4B and 8B since clusters have stages: 1,171 us for 1,182 and 1,675 for
    # 1,737. The others were measured on an H100 on 2026-11-28: 0.6B 695 us for 749, 1.7B 957 for 997, 4 vectors of 0.6B
    # 620 for 646. Some H200s have room for 14 clusters of eight only.
    vector_rings={
        (4096, 1024, 4): VectorRing(RINGS[4096, 1024], 2, 3, 1, 0, 4, 132),
        (6144, 1024, 4): VectorRing(RINGS[6144, 1024], 3, 2, 1, 0, 8, 132),
        (1024, 2048, 4): VectorRing(RINGS[1024, 2048], 1, 2, 1, 1, 12, 128),
        (6144, 2560, 4): VectorRing(RINGS[6144, 2560], 4, 3, 1, 0, 0, 128),
        (19456, 2560, 4): VectorRing(RINGS[19456, 2560], 5, 3, 1, 1, 0, 132),
        (151936, 2560, 4): VectorRing(RINGS[151936, 2560], 16, 3, 1, 1, 0, 132),
        (1024, 3072, 4): VectorRing(RINGS[1024, 3072], 1, 1, 1, 0, 0, 128),
        (2560, 4096, 4): VectorRing(RINGS[2560, 4096], 7, 1, 2, 1, 4, 120, 4),
        (4096, 4096, 4): VectorRing(RINGS[4096, 4096], 2, 2, 1, 0, 0, 132),
        (6144, 4096, 4): VectorRing(RINGS[6144, 4096], 4, 4, 1, 0, 8, 128),
        (24576, 4096, 4): VectorRing(RINGS[24576, 4096], 6, 4, 1, 1, 0, 128, 1, 1, 1),
        (10240, 5120, 4): VectorRing(RINGS[10240, 5120], 10, 2, 1, 0, 0, 132, 2, 1, 1),
        (51200, 5120, 4): VectorRing(RINGS[51200, 5120], 9, 2, 1, 0, 5, 132, 1, 1, 1),
        (5120, 8192, 4): VectorRing(RINGS[5120, 8192], 12, 2, 1, 2, 0, 112, 4, 2, 1),
        (2560, 9728, 4): VectorRing(RINGS[2560, 9728], 3, 2, 2, 1, 6, 132, 2),
        (4096, 12288, 4): VectorRing(RINGS[4096, 12288], 3, 3, 4, 2, 12, 120, 4, 1, 1),
        (5120, 25600, 4): VectorRing(RINGS[5120, 25600], 4, 2, 1, 2, 0, 112, 4, 1, 1),
        (4096, 1024, 8): VectorRing(RINGS[4096, 1024], 2, 3, 1, 2, 14, 132),
        (1024, 2048, 8): VectorRing(RINGS[1024, 2048], 1, 2, 1, 2, 12, 128),
        (2048, 2048, 8): VectorRing(RINGS[2048, 2048], 1, 2, 1, 2, 12, 132),
        (4096, 2048, 8): VectorRing(RINGS[4096, 2048], 2, 3, 1, 0, 8, 132),
        (6144, 2560, 8): VectorRing(RINGS[6144, 2560], 4, 2, 1, 0, 8, 124, 1, 2),
        (19456, 2560, 8): VectorRing(RINGS[19456, 2560], 10, 2, 1, 0, 0, 132),
        (151936, 2560, 8): VectorRing(RINGS[151936, 2560], 12, 3, 1, 1, 8, 132),
        (1024, 3072, 8): VectorRing(RINGS[1024, 3072], 3, 1, 1, 0, 7, 120, 4),
        (2560, 4096, 8): VectorRing(RINGS[2560, 4096], 10, 1, 2, 1, 0, 120, 4),
        (4096, 4096, 8): VectorRing(RINGS[4096, 4096], 9, 2, 1, 2, 2, 124, 2),
        (6144, 4096, 8): VectorRing(RINGS[6144, 4096], 8, 3, 1, 0, 8, 120, 2, 2),
        (24576, 4096, 8): VectorRing(RINGS[24576, 4096], 6, 3, 1, 1, 8, 128, 1, 2),
        (151936, 4096, 8): VectorRing(RINGS[151936, 4096], 8, 4, 1, 1, 8, 132),
        (10240, 5120, 8): VectorRing(RINGS[10240, 5120], 5, 1, 1, 0, 0, 128, 1, 2),
        (51200, 5120, 8): VectorRing(RINGS[51200, 5120], 7, 2, 1, 0, 4, 128, 1, 2, 1),
        (5120, 8192, 8): VectorRing(RINGS[5120, 8192], 6, 2, 1, 0, 4, 112, 2),
        (2560, 9728, 8): VectorRing(RINGS[2560, 9728], 3, 1, 1, 0, 5, 120, 2, 2),
        (4096, 12288, 8): VectorRing(RINGS[4096, 12288], 2, 1, 2, 1, 0, 132, 2),
        (5120, 25600, 8): VectorRing(RINGS[5120, 25600], 3, 1, 1, 1, 0, 124, 4, 2),
    },
    # Measured on 2026-11-23 with 8 vectors, each the fastest of 12 to 14.
    stages={
        (4096, 1024): Stages(4, 4, 1),
        (6144, 1024): Stages(6, 2, 2),
        (12288, 2048): Stages(6, 2, 3),
        (6144, 2560): Stages(3, 5, 2),
        (19456, 2560): Stages(10, 2, 2),
        (151936, 2560): Stages(12, 1, 3, 6),
        (2560, 4096): Stages(2, 8, 2),
        (4096, 4096): Stages(2, 4, 3),
        (6144, 4096): Stages(3, 4, 3),
        (24576, 4096): Stages(12, 2, 2),
        (51200, 5120): Stages(15, 1, 2, 2),
        (2048, 6144): Stages(1, 8, 2),
        (2560, 9728): Stages(2, 5, 2),
        (4096, 12288): Stages(2, 5, 1),
    },
)


def serves(arch: str) -> bool:
    """Whether an architecture is one of NVIDIA's, whose names are ``sm_`` and the compute capability."""
    return arch.startswith("sm_")


def features(arch: str) -> frozenset[str]:
    """Return the features of a compute capability, by which plans choose.

    The kernels of matrix instructions serve every capability from 8.0; those of bulk copies and of streams were
    measured on 9.0 alone, and the instructions of ``wgmma`` exist nowhere else.
    """
    return frozenset({"arrivals", "matrix"} | ({"bulk_copies", "streams", "wgmma"} if arch == "sm_90" else set()))


def table(_arch: str, _compute_units: int) -> Table:
    """Return the launch shapes for an architecture, which are those of an H200."""
    return H200
