"""Qwen3 MoE: Qwen3 whose MLPs are mixtures of experts, in every layer or in some.

Source: the Qwen3 technical report (arXiv:2505.09388); names are those of the published checkpoints.
"""

from __future__ import annotations

from dataclasses import replace

from hiprt.bench.engine.models.config import REMEDY, Config, Mixture
from hiprt.bench.engine.settings import Settings

__all__ = ["read", "sparse"]


def read(settings: Settings) -> Config:
    """Return the config of a mixture of experts.

    Raises
    ------
    CheckpointError
        A value is missing, of another type or not supported.
    """
    return sparse(Config.read(settings), settings, is_normalized=False)


def sparse(config: Config, settings: Settings, is_normalized: bool) -> Config:
    """Return a config whose layers have mixtures where the settings say so.

    Parameters
    ----------
    config : Config
    settings : Settings
    is_normalized : bool
        Whether the shares of the chosen experts add up to 1, where the settings do not say.
    """
    get = settings.get
    mixture = Mixture(
        get("num_experts", int),
        get("num_experts_per_tok", int),
        get("moe_intermediate_size", int),
        get("shared_expert_intermediate_size", int, 0),
        get("norm_topk_prob", bool, is_normalized),
    )
    wrong = {
        f"{mixture.chosen} of {mixture.experts} experts cannot be chosen": not (
            1 <= mixture.chosen <= mixture.experts and mixture.inner > 0
        )
    }
    settings.refuse(wrong, REMEDY)
    every, dense = get("decoder_sparse_step", int, 1), get("mlp_only_layers", list, [])
    layers = [
        (mixer, "moe" if index not in dense and (index + 1) % max(every, 1) == 0 else "mlp")
        for index, (mixer, _) in enumerate(config.layers)
    ]
    return replace(config, mixture=mixture, layers=tuple(layers))
