"""``mx.cuda``: MLX's backend of that name is not here; on NVIDIA's GPUs hiprt uses HIP."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether MLX's CUDA backend runs."""
    return False
