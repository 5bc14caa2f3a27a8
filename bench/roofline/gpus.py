"""What the roofline models assume of GPUs that are not here, and what was measured on one that was."""

from __future__ import annotations

from dataclasses import dataclass

from hiprt.kernels.tuning.target import Target, make_target
from hiprt.provider import ROCM

__all__ = ["GPUS", "H200", "MEASURED", "SIMDS", "Gpu"]

SIMDS = 4  # of what HIP counts as a compute unit


@dataclass(frozen=True)
class Gpu:
    """The assumptions about a GPU.

    Attributes
    ----------
    name, arch : str
    units, wave : int
        The compute units as HIP counts them, and the lanes of a wave.
    bandwidth : float
        The bytes that a kernel can read in a second.
    latency : float
        The seconds that a load takes when the memory is busy.
    issue : float
        The vector instructions of whole waves in a second.
    node : float
        The seconds from one node of a graph to the next that depends on it.
    matrix : float
        The floating-point operations of its matrix instructions in a second, for factors of 16 bits.
    """

    name: str
    arch: str
    units: int
    wave: int
    bandwidth: float
    latency: float
    issue: float
    node: float
    matrix: float = 0.0

    @property
    def target(self) -> Target:
        """The target that plans see."""
        return make_target(self.arch, self.units, self.wave, ROCM)


# Bandwidths, latencies and rates are estimates from data sheets and published microbenchmarks. A serial node costs
# 3.9 us on gfx1100 (ROCm/rocm-systems, issue 10834). The H200's bandwidth and its 0.89 us for a node of a chain were
# measured (bench/results/2026-11-22-h200-decode.json, 2026-11-22-h200-graph.json). Matrix instructions of a SIMD
# make 256 operations a clock on gfx1151 and 512 on gfx1201 and gfx942, whose vector instructions take 4 clocks.
GPUS = (
    Gpu("Radeon 8060S", "gfx1151", 20, 32, 215e9, 0.6e-6, 232e9, 3.9e-6, 256 * 232e9),
    Gpu("Radeon AI PRO R9700", "gfx1201", 32, 32, 640e9, 0.7e-6, 282e9, 3.9e-6, 512 * 282e9),
    Gpu("Instinct MI300X", "gfx942", 304, 64, 5300e9, 0.85e-6, 638e9, 3.9e-6, 512 * 4 * 638e9),
)
H200 = Gpu("NVIDIA H200", "sm_90", 132, 32, 4550e9, 0.8e-6, 0.0, 0.89e-6)
# Tokens a second of one sequence by preset: bench/results/2026-11-22-h200-decode.json, mode graph, context 16.
MEASURED = {
    "qwen3-0.6b": 2005.31,
    "qwen3-1.7b": 1528.58,
    "qwen3-4b": 901.4,
    "qwen3-8b": 614.88,
    "qwen3-32b": 192.14,
}
