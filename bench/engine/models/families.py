"""Families: which architectures there are, and how their settings are read."""

from __future__ import annotations

from hiprt.bench.engine.models import qwen3, qwen3_moe, qwen3_next
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.settings import Settings, short

__all__ = ["FAMILIES", "read"]

FAMILIES = {
    "qwen3": qwen3.read,
    "qwen3_moe": qwen3_moe.read,
    "qwen3_next": qwen3_next.read,
    "qwen3_5": qwen3_next.read,
    "qwen3_5_text": qwen3_next.read,
    "qwen3_5_moe": qwen3_next.read,
    "qwen3_5_moe_text": qwen3_next.read,
}


def read(settings: Settings) -> Config:
    """Return the config of a model of any family.

    Raises
    ------
    CheckpointError
        Its architecture is unknown, or a value is missing, of another type or not supported.
    """
    name = settings.get("model_type", str)
    unknown = f"model_type {short(name)} is not supported"
    settings.refuse({unknown: name not in FAMILIES}, f"use a model of type {', '.join(FAMILIES)}")
    return FAMILIES[name](settings)
