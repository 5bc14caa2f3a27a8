"""The AMD targets: each architecture's registers and LDS, and how many waves of a kernel fit on it.

`MACHINES` is the one list of AMD architectures that `hiprt compile` takes. A new architecture gets its line there.
Sources: AMD's instruction set guides (RDNA 2, 3, 3.5 and 4; CDNA 1 to 4; "Vega") for registers and LDS; AMD GPUOpen,
"Occupancy explained", for the arithmetic. LLVM's backend prints the same number; a test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MACHINES", "Machine"]

SIMDS = 4  # SIMDs of a CDNA compute unit, or of an RDNA work-group processor


@dataclass(frozen=True)
class Machine:
    """The resources of one SIMD, and the LDS that four share.

    Attributes
    ----------
    waves : int
        The most waves that a SIMD holds.
    vgprs, vgpr_granule : int
        The vector registers of a SIMD for waves of the usual size, and the multiple in which a wave gets them.
    sgprs, sgpr_granule : int
        The scalar registers of a SIMD, and their multiple; 0 where every wave has its full set.
    lds, lds_granule : int
        The bytes of LDS that the threadgroups on four SIMDs share, and the multiple in which a threadgroup gets them.
    groups : int
        The most threadgroups of several waves on four SIMDs.
    """

    waves: int
    vgprs: int
    vgpr_granule: int
    sgprs: int
    sgpr_granule: int
    lds: int
    lds_granule: int
    groups: int

    def occupancy(self, *, vgprs: int, sgprs: int, lds: int, threads: int, wave: int) -> int:
        """Return the waves of a kernel that one SIMD holds at a time.

        Parameters
        ----------
        vgprs, sgprs : int
            The registers that a wave uses.
        lds : int
            The bytes that a threadgroup uses.
        threads : int
            The threads of a threadgroup.
        wave : int
            The threads of a wave.
        """
        fits = [self.waves, self.vgprs // rounded(max(vgprs, 1), self.vgpr_granule)]
        if self.sgprs:
            fits.append(self.sgprs // rounded(max(sgprs, 1), self.sgpr_granule))
        waves = -(-threads // wave)
        groups = self.groups if waves > 1 else self.waves * SIMDS
        if lds:
            groups = min(groups, self.lds // rounded(lds, self.lds_granule))
        fits.append(-(-groups * waves // SIMDS))
        return min(fits)


def rounded(count: int, granule: int) -> int:
    """Return the least multiple of `granule` that is not less than `count`."""
    return -(-count // granule) * granule


GCN = Machine(10, 256, 4, 800, 16, 64 << 10, 512, 16)
CDNA = Machine(8, 512, 8, 800, 16, 64 << 10, 512, 16)
CDNA_4 = Machine(8, 512, 8, 800, 16, 160 << 10, 1280, 16)
RDNA_2 = Machine(16, 1024, 16, 0, 0, 128 << 10, 512, 32)
RDNA_3 = Machine(16, 1024, 16, 0, 0, 128 << 10, 1024, 32)
RDNA_3_LARGE = Machine(16, 1536, 24, 0, 0, 128 << 10, 1024, 32)

MACHINES = {
    **dict.fromkeys(("gfx900", "gfx906", "gfx908"), GCN),
    **dict.fromkeys(("gfx90a", "gfx942"), CDNA),
    "gfx950": CDNA_4,
    **dict.fromkeys(("gfx1030", "gfx1031", "gfx1032", "gfx1034", "gfx1035", "gfx1036"), RDNA_2),
    **dict.fromkeys(("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153"), RDNA_3),
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"), RDNA_3_LARGE),
}
