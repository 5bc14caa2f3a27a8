"""Models: transformers whose step for one token is made of hiprt's ops."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.models.checkpoint_weights import CheckpointWeights
from hiprt.bench.engine.models.families import FAMILIES, read
from hiprt.bench.engine.models.model import KeyValue, LayerState, Model, PagedKeyValue, QuantizedKeyValue, Recurrent
from hiprt.bench.engine.models.presets import PRESETS, preset
from hiprt.bench.engine.models.shard import Shard
from hiprt.bench.engine.models.transformer import Transformer
from hiprt.distributed import Communicator
from hiprt.kernels.ops.quantized.formats import Format

__all__ = [
    "FAMILIES",
    "FORM",
    "PRESETS",
    "KeyValue",
    "LayerState",
    "Model",
    "PagedKeyValue",
    "QuantizedKeyValue",
    "Recurrent",
    "Transformer",
    "load",
    "preset",
    "read",
]

FORM = Format("affine", 64, 4)  # to which plain weights are quantised


def load(
    checkpoint: Checkpoint,
    *,
    fused: bool = True,
    form: Format | None = FORM,
    progress: Callable[[int, int], object] = lambda copied, nbytes: None,
    ranks: Communicator | None = None,
) -> Transformer:
    """Upload a checkpoint's weights on the current stream.

    Parameters
    ----------
    checkpoint : Checkpoint
    fused : bool
        Whether decoding uses kernels that do several ops at once.
    form : Format, optional
        The format to which plain weights are quantised; None leaves them plain.
    progress : callable, optional
        Takes how many bytes of the weights have been copied to the device, and how many there are.
    ranks : Communicator, optional
        The ranks over which the model is split; every rank reads its part.

    Raises
    ------
    CheckpointError
        Its architecture is unknown, or its tensors do not fit its config.json.
    ValueError
        The model cannot be split over so many ranks.
    """
    config = read(checkpoint.settings)
    if config.num_hidden_layers > checkpoint.layers:
        cause = f"num_hidden_layers is {config.num_hidden_layers}, but the weights have {checkpoint.layers} layers"
        raise CheckpointError(f"{checkpoint.settings.where}: {cause}", "take config.json and weights from one model")
    shard = Shard.of(config, ranks, checkpoint.group_size(form), str(checkpoint.path))
    checkpoint.check_text()  # before the weights are copied, which may take minutes
    weights = CheckpointWeights(checkpoint, form, progress, shard)
    with closing(weights):
        model = Transformer.build(config, weights, fused)
        weights.finish()
    return model
