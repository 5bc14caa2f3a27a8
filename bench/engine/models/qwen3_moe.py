"""Qwen3 MoE: Qwen3 whose MLPs are mixtures of experts, in every layer or in some.

Source: the Qwen3 technical report (arXiv:2505.09388); names are those of the published checkpoints.
"""

from __future__ import annotations

from dataclasses import replace

from hiprt.bench.engine.models.config import REMEDY, Config, Mixture
from hiprt.bench.engine.settings import Settings

__all__ = ["experts_name", "read", "sparse"]

MOST_EXPERTS = 100_000


def read(settings: Settings) -> Config:
    """Return the config of a mixture of experts.

    Raises
    ------
    CheckpointError
        A value is missing, of another type or not supported.
    """
    return sparse(Config.read(settings), settings, is_normalized=False)


def experts_name(settings: Settings) -> str:
    """Return the name that the number of experts has: files of transformers 5 have another one."""
    values = settings.values
    return "num_local_experts" if "num_local_experts" in values and "num_experts" not in values else "num_experts"


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
        get(experts_name(settings), int),
        get("num_experts_per_tok", int),
        get("moe_intermediate_size", int),
        get("shared_expert_intermediate_size", int, 0),
        get("norm_topk_prob", bool, is_normalized),
    )
    wrong = {
        f"num_experts is {mixture.experts}, not from 1 to {MOST_EXPERTS}": not 1 <= mixture.experts <= MOST_EXPERTS,
        f"num_experts_per_tok is {mixture.chosen}, not from 1 to {mixture.experts}": not (
            1 <= mixture.chosen <= mixture.experts
        ),
        f"moe_intermediate_size is {mixture.inner}": mixture.inner < 1,
        f"shared_expert_intermediate_size is {mixture.shared}": mixture.shared < 0,
    }
    settings.refuse(wrong, REMEDY)
    every, dense = get("decoder_sparse_step", int, 1), get("mlp_only_layers", list, [])
    layers = [
        (mixer, "moe" if index not in dense and (index + 1) % max(every, 1) == 0 else "mlp")
        for index, (mixer, _) in enumerate(config.layers)
    ]
    return replace(config, mixture=mixture, layers=tuple(layers))
