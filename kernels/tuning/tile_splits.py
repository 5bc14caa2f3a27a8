"""Tile splits: among how many threadgroups the width of a tile of a quantised product is divided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiprt.kernels.ops.arrivals import COUNTERS

if TYPE_CHECKING:
    from hiprt.kernels.tuning.target import Target

__all__ = ["split_of"]

MOST_SPLIT = 8
COLUMNS, DEPTH = 64, 32  # of a tile, and of a step
LANES, WAVES = 64, 2  # of a wave, and waves of a threadgroup
SIMDS, RESIDENT = 4, 2  # of a compute unit, and the waves that each holds
# In vector instructions of a SIMD, by the model of ``bench/roofline`` for an MI300X: what unpacking takes in a step
# of a wave, the matrix instructions for one of its rows, a load from memory, which is on its way for two steps, and the
# end of a tile that is shared, where sums are written, counted and read; and the bytes of sums that a compute unit
# writes or reads meanwhile.
UNPACKING, ROW, LATENCY, STEPS_AHEAD = 51, 1, 446, 2
ARRIVAL = 4 * LATENCY
BYTES = 33


def split_of(columns: int, width: int, count: int, rows: int, target: Target) -> int:
    """Return the threadgroups that share the width of each tile of `rows` rows, of a product with one matrix.

    Few tiles leave compute units without waves, and waves that are alone wait for memory. Sharing a tile costs writing
    and reading its sums.
    """
    tiles = -(-count // rows) * -(-columns // COLUMNS)
    has_waves = "blocks" in target.features and target.wave == LANES
    if not has_waves or not 0 < tiles <= COUNTERS:
        return 1
    simds = target.compute_units * SIMDS
    slots = simds * RESIDENT // WAVES

    def cost(split: int) -> float:
        steps = -(-(width // DEPTH) // split)
        rounds, rest = divmod(tiles * split, slots)
        waves = -(-rest * WAVES // simds)
        step = rounds * step_of(RESIDENT, rows) + (step_of(waves, rows) if waves else 0)
        sums = 8.0 * tiles * split * rows * COLUMNS / (BYTES * target.compute_units)
        return steps * step + (sums + ARRIVAL if split > 1 else 0.0)

    return min(splits(width // DEPTH), key=cost)


def splits(steps: int) -> list[int]:
    """Return the numbers of threadgroups among which some steps can be divided, so that each has some."""
    return [split for split in range(1, MOST_SPLIT + 1) if split == 1 or (split - 1) * -(-steps // split) < steps]


def step_of(waves: int, rows: int) -> int:
    """Return how long a step of some waves of a SIMD takes."""
    return max(waves * (UNPACKING + ROW * rows // WAVES), LATENCY // STEPS_AHEAD)
