"""Decode models: transformers whose step for one token is made of hiprt's ops."""

from __future__ import annotations

from hiprt.bench.checkpoint import Checkpoint
from hiprt.bench.models import qwen3, qwen3_moe, qwen3_next
from hiprt.bench.models.checkpoint_weights import CheckpointWeights
from hiprt.bench.models.config import Config
from hiprt.bench.models.decoder import Decoder, bucket
from hiprt.bench.models.model import KeyValue, LayerState, Model, Recurrent
from hiprt.bench.models.transformer import Transformer
from hiprt.bench.settings import Settings

__all__ = [
    "ARCHITECTURES",
    "Decoder",
    "KeyValue",
    "LayerState",
    "Model",
    "Recurrent",
    "Transformer",
    "bucket",
    "load",
    "read",
]

ARCHITECTURES = {
    "qwen3": qwen3.read,
    "qwen3_moe": qwen3_moe.read,
    "qwen3_next": qwen3_next.read,
    "qwen3_5": qwen3_next.read,
    "qwen3_5_text": qwen3_next.read,
    "qwen3_5_moe": qwen3_next.read,
    "qwen3_5_moe_text": qwen3_next.read,
}
FORM = (64, 4)


def read(settings: Settings) -> Config:
    """Return the config of a model of any family.

    Raises
    ------
    CheckpointError
        Its architecture is unknown, or a value is missing, of another type or not supported.
    """
    name = settings.get("model_type", str)
    unknown = f"model_type {name!r} is not supported"
    settings.refuse({unknown: name not in ARCHITECTURES}, f"use a model of type {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name](settings)


def load(checkpoint: Checkpoint, *, fused: bool = True, form: tuple[int, int] | None = FORM) -> Transformer:
    """Upload a checkpoint's weights on the current stream.

    Parameters
    ----------
    checkpoint : Checkpoint
    fused : bool
        Whether decoding uses kernels that do several ops at once.
    form : (int, int), optional
        Group size and bits that plain weights are quantised to; None leaves them plain.

    Raises
    ------
    CheckpointError
        Its architecture is unknown, or its tensors do not fit its config.json.
    """
    config = read(checkpoint.settings)
    weights = CheckpointWeights(checkpoint, form)
    model = Transformer.build(config, weights, fused)
    weights.finish()
    return model
