"""The resources of an AMD GPU that a program's kernels use, and their wide loads, dot and matrix instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hiprt.kernels.offline.amd_targets import MACHINES
from hiprt.kernels.offline.code_object import CodeObject

__all__ = ["Resources", "resources_of"]

INSTRUCTIONS = {
    "wide_loads": re.compile(r"^\s+(?:global|flat|buffer)_load_(?:b128|dwordx4)\b", re.MULTILINE),
    "dots": re.compile(r"^\s+v_(?:dual_)?dot\w+", re.MULTILINE),
    "matrices": re.compile(r"^\s+v_(?:mfma|smfmac|wmma|swmmac)_\w+", re.MULTILINE),
}


@dataclass(frozen=True, order=True)
class Resources:
    """The resources that one kernel uses on one target.

    Attributes
    ----------
    kernel, target : str
    vgpr, sgpr : int
        The registers that a wave uses.
    vgpr_spills, sgpr_spills : int
        The registers that did not fit and went to memory.
    scratch : int
        The bytes of memory that a thread uses in their place.
    lds : int
        The bytes of LDS of a threadgroup that are known at compile time.
    waves : int
        The waves that one SIMD holds at a time (occupancy), in threadgroups of the largest declared size.
    wide_loads, dots, matrices : int
        The numbers of instructions that load 128 bits, and that compute dot products and matrix products.
    """

    kernel: str
    target: str
    vgpr: int
    sgpr: int
    vgpr_spills: int
    sgpr_spills: int
    scratch: int
    lds: int
    waves: int
    wide_loads: int
    dots: int
    matrices: int

    @property
    def spills(self) -> int:
        """The registers that went to memory plus the bytes that stand in for registers; 0 where nothing spilled."""
        return self.vgpr_spills + self.sgpr_spills + self.scratch


def resources_of(assembly: str, code: bytes) -> list[Resources]:
    """Return the resources of every kernel of a program.

    Parameters
    ----------
    assembly : str
        The program's assembly, in which instructions are counted.
    code : bytes
        The code object that was made of the assembly.
    """
    made = CodeObject(code)
    machine = MACHINES[made.target.partition(":")[0]]
    found = []
    for kernel in made.kernels:
        number, text = kernel.numbers, text_of(assembly, kernel.name)
        vgpr, sgpr, lds = number["vgpr_count"], number["sgpr_count"], number["group_segment_fixed_size"]
        waves = machine.occupancy(
            vgprs=vgpr,
            sgprs=sgpr,
            lds=lds,
            threads=number["max_flat_workgroup_size"],
            wave=number["wavefront_size"],
        )
        counts = {name: len(pattern.findall(text)) for name, pattern in INSTRUCTIONS.items()}
        spilled = number["vgpr_spill_count"], number["sgpr_spill_count"], number["private_segment_fixed_size"]
        found.append(Resources(kernel.name, made.target, vgpr, sgpr, *spilled, lds, waves, **counts))
    return found


def text_of(assembly: str, function: str) -> str:
    """Return the instructions of one function, from its label to its end."""
    begin = re.search(rf"^{re.escape(function)}:", assembly, re.MULTILINE)
    end = re.compile(r"^\.Lfunc_end\d+:", re.MULTILINE).search(assembly, begin.end()) if begin else None
    return assembly[begin.end() : end.start()] if begin and end else ""
