"""Streams: how the kernel of attention whose rows come through threadgroup memory shares out heads and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hiprt.kernels.ops.attention.grouped_heads import GroupedHeads
    from hiprt.kernels.tuning.target import Target

__all__ = ["TEMPLATE", "Streams", "resident_of", "shared_bytes", "streams_of", "threads_of"]

# The template parameters that the streams give to the kernel.
TEMPLATE = {"HEADS": "int", "SAME_KEYS": "int", "SIMDGROUPS": "int", "STAGES": "int"}
RUN = 16  # positions that a simdgroup takes at a time
TOGETHER = 2  # positions whose rows one copy brings
MOST_HEADS = 8  # columns of a matrix instruction
MOST_PARTS = 65536  # numbers of all parts of a cache, which the last threadgroup puts together alone


class Streams(NamedTuple):
    """How the kernel shares out its work.

    Attributes
    ----------
    heads : int
        The query heads that a threadgroup takes.
    splits : int
        The threadgroups that share the positions of a cache.
    simdgroups : int
        The simdgroups of a threadgroup, which take runs of positions in turn.
    stages : int
        The runs that each of them has on their way from memory.
    """

    heads: int
    splits: int
    simdgroups: int
    stages: int


# The simdgroups and stages for each width of a head, measured on an H200 on 2026-11-27 in whole decode steps. For heads
# of 128 they leave room on a processor for a threadgroup of the product before or behind, so that both start early.
MEASURED = {64: (8, 3), 128: (12, 1), 256: (8, 1)}
# Those where few query heads read the same keys of a short cache, measured on 2026-11-28: with 5 simdgroups a token of
# 0.6B takes 3 % less up to 80 positions, behind which two threadgroups share them, and 8 % more from there to 160.
MEASURED_FEW = {**MEASURED, 128: (10, 1)}
# Those where every fourth processor has heads of a text: 8 texts of 1.7B take 987 us with 5 simdgroups, 1,028 with 10.
MEASURED_MANY = {**MEASURED, 128: (5, 1)}
FEW = 2  # query heads that read the same keys
SHORT = 2048  # positions of a cache


def streams_of(call: GroupedHeads, dtype: np.dtype[Any], target: Target) -> Streams | None:
    """Return the streams for a call of attention; None where another kernel is to be taken."""
    if "streams" not in target.features or dtype.itemsize != 2 or call.width not in MEASURED or not call.heads:
        return None
    heads = next(size for size in range(MOST_HEADS, 0, -1) if call.repeat % size == 0)
    groups = max(1, call.heads // heads * call.alone)
    few = MEASURED_MANY if groups * 4 >= target.compute_units else MEASURED_FEW
    simdgroups, stages = (few if call.repeat <= FEW and call.capacity <= SHORT else MEASURED)[call.width]
    most = min(-(-call.capacity // (RUN * simdgroups)), MOST_PARTS // (heads * call.width))
    return Streams(heads, max(1, min(target.compute_units // groups, most)), simdgroups, stages)


def threads_of(template: Mapping[str, Any]) -> int:
    """Return the threads of a threadgroup."""
    return 32 * int(template["SIMDGROUPS"])


def resident_of(template: Mapping[str, Any]) -> int:
    """Return the threadgroups for which a processor should have registers: other kernels start beside this one."""
    return 1 if template["WIDTH"] == 256 or template["SIMDGROUPS"] > 8 else 2


def shared_bytes(template: Mapping[str, Any], _: Target) -> int:
    """Return the bytes of dynamic threadgroup memory of the kernel: keys and values of all stages."""
    copies = template["SIMDGROUPS"] * template["STAGES"] * 2 * RUN // TOGETHER
    return int(copies * (TOGETHER * template["WIDTH"] * 2 + 16))
