"""What the kernels of a program take of an AMD GPU, and their wide loads, dot and matrix instructions."""

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
    """One kernel on one target.

    Attributes
    ----------
    kernel, target : str
    vgpr, sgpr : int
        Registers of a wave.
    vgpr_spills, sgpr_spills : int
        Registers that did not fit and went to memory.
    scratch : int
        Bytes of memory of a thread.
    lds : int
        Bytes of a threadgroup, known when compiling.
    waves : int
        Waves that one SIMD holds at a time (occupancy), in threadgroups of the largest declared size.
    wide_loads, dots, matrices : int
        Instructions: loads of 128 bits, dot products, matrix products.
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
        """Registers that went to memory, and bytes of memory that stand in for registers."""
        return self.vgpr_spills + self.sgpr_spills + self.scratch


def resources_of(assembly: str, code: bytes) -> list[Resources]:
    """Return the resources of every kernel of a program.

    Parameters
    ----------
    assembly : str
        What instructions are counted in.
    code : bytes
        The code object made of it.
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
    """Return the instructions of one function: from its label to its end."""
    begin = re.search(rf"^{re.escape(function)}:", assembly, re.MULTILINE)
    end = re.compile(r"^\.Lfunc_end\d+:", re.MULTILINE).search(assembly, begin.end()) if begin else None
    return assembly[begin.end() : end.start()] if begin and end else ""
