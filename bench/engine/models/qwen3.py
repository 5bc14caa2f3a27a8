"""Qwen3 dense: grouped-query attention with a norm on each head's query and key, and a gated MLP.

Source: the Qwen3 technical report (arXiv:2505.09388); tensor names are those of the published checkpoints.
"""

from __future__ import annotations

from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.settings import Settings

__all__ = ["read"]


def read(settings: Settings) -> Config:
    """Return the config of a dense model.

    Raises
    ------
    CheckpointError
        A value is missing, of another type or not supported.
    """
    return Config.read(settings)
