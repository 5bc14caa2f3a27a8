"""Decode models: transformers whose step for one token is made of hiprt's ops."""

from __future__ import annotations

from hiprt.bench.checkpoint import Checkpoint, CheckpointError
from hiprt.bench.models.decoder import Decoder, bucket
from hiprt.bench.models.qwen3 import Qwen3

__all__ = ["ARCHITECTURES", "Decoder", "Qwen3", "bucket", "load"]

ARCHITECTURES = {"qwen3": Qwen3}


def load(checkpoint: Checkpoint) -> Qwen3:
    """Upload a checkpoint's weights on the current stream.

    Raises
    ------
    CheckpointError
        Its architecture is unknown, or its tensors do not fit its config.json.
    """
    name = checkpoint.setting("model_type", str)
    if name not in ARCHITECTURES:
        cause = f"{checkpoint.path / 'config.json'}: model_type {name!r} is not supported"
        raise CheckpointError(cause, f"use a model of type {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name].load(checkpoint)
