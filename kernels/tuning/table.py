"""Table: the shapes of launches that a family of targets prefers."""

from __future__ import annotations

from dataclasses import dataclass

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
    """

    attention_groups: int = 128
