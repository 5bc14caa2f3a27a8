"""Table: the shapes of launches that a family of targets prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hiprt.kernels.tuning.rings import Ring, RingCost

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """Numbers that plans take from the target instead of from themselves.

    The defaults are those of a large GPU; they were chosen on an NVIDIA H200 and serve every family that has measured
    nothing else.

    Attributes
    ----------
    attention_groups : int
        Threadgroups that keep the GPU busy: the positions of a cache are shared out until there are as many.
    attention_unsplit_capacity : int
        Positions of a cache up to which one threadgroup reads all: a second kernel would cost more than a split saves.
    loop_bytes : int
        Bytes of weights that one plain loop of the CPU device reads: a few microseconds.
    loop_elements : int
        Elements that one plain loop of the CPU device takes.
    rings : mapping of (int, int) to Ring
        The best ring for a matrix of 4 bits in groups of 64, by rows and width, where one was measured.
    ring_cost : RingCost
        Ranks rings for all other matrices.
    """

    attention_groups: int = 128
    attention_unsplit_capacity: int = 256
    loop_bytes: int = 16384
    loop_elements: int = 16384
    rings: Mapping[tuple[int, int], Ring] = field(default_factory=dict)
    ring_cost: RingCost = field(default_factory=RingCost)
