"""A small model that tells stories: their grammar, its training, its checkpoint and how it is scored."""

from __future__ import annotations

from pathlib import Path

__all__ = ["CHECKPOINT"]

CHECKPOINT = Path(__file__).parent / "checkpoint"
