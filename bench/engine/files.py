"""Files of a model directory: what is read of them, and what is wrong where they cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hiprt.bench.engine.errors import DOWNLOAD, CheckpointError, summary

__all__ = ["read_json", "read_text", "require_file"]

MOST_BYTES = 64 << 20  # the index of the largest published model has 10 MiB


def require_file(path: Path) -> None:
    """Raise CheckpointError unless a path names a file: a pipe or a terminal would be waited for."""
    if not path.exists():
        raise CheckpointError(f"{path} is missing", "give a complete Hugging Face model directory")
    if not path.is_file():
        raise CheckpointError(f"{path} is no file", DOWNLOAD)


def read_text(path: Path) -> str:
    """Return the text of a file; raise CheckpointError where it is missing, too large, or no UTF-8."""
    require_file(path)
    if path.stat().st_size > MOST_BYTES:
        raise CheckpointError(f"{path} is larger than {MOST_BYTES >> 20} MiB", DOWNLOAD)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({summary(error)})", DOWNLOAD) from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; raise CheckpointError where it holds none."""
    text = read_text(path)
    try:
        value = json.loads(text)
    except (RecursionError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({summary(error)})", DOWNLOAD) from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object", DOWNLOAD)
    return value
