"""Presets: models with random weights: the sizes of published ones, and a small one of each family."""

from __future__ import annotations

from typing import Any

from numpy.typing import DTypeLike

from hiprt import bfloat16
from hiprt.array import dtype_of
from hiprt.bench.engine.models.families import read
from hiprt.bench.engine.models.random_weights import RandomWeights
from hiprt.bench.engine.models.shard import Shard
from hiprt.bench.engine.models.transformer import Transformer
from hiprt.bench.engine.settings import Settings
from hiprt.distributed import Communicator

__all__ = ["MINIS", "PRESETS", "preset", "settings_of"]

COMMON = {
    "head_dim": 128,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
MINI = {
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 259,
    "max_position_embeddings": 65536,
}
MIXTURE = {"norm_topk_prob": True, "intermediate_size": 6144}
MINI_MIXTURE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}


def dense(hidden: int, layers: int, heads: int, inner: int, **others: Any) -> dict[str, Any]:
    """Return the settings of a dense model."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {**COMMON, "model_type": "qwen3", **sizes, "intermediate_size": inner, **others}


MOE = {**dense(2048, 48, 32, 6144), **MIXTURE, "model_type": "qwen3_moe", "num_key_value_heads": 4}
HYBRID = {
    **dense(2048, 40, 16, 512),
    "model_type": "qwen3_5_moe_text",
    "num_key_value_heads": 2,
    "head_dim": 256,
    "vocab_size": 248320,
    "rope_theta": 1e7,
    "max_position_embeddings": 262144,
    "full_attention_interval": 4,
    "partial_rotary_factor": 0.25,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
MINI_HYBRID = {
    **HYBRID,
    **MINI,
    **MINI_MIXTURE,
    "num_hidden_layers": 4,
    "shared_expert_intermediate_size": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}
MINIS: dict[str, dict[str, Any]] = {
    "qwen3-mini": {**dense(128, 2, 4, 192), **MINI, "tie_word_embeddings": True},
    "qwen3-moe-mini": {**MOE, **MINI, **MINI_MIXTURE, "num_hidden_layers": 2},
    "qwen3.5-mini": MINI_HYBRID,
    "qwen3-next-mini": {**MINI_HYBRID, "model_type": "qwen3_next"},
}
PRESETS: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": dense(1024, 28, 16, 3072, tie_word_embeddings=True),
    "qwen3-1.7b": dense(2048, 28, 16, 6144, tie_word_embeddings=True),
    "qwen3-4b": dense(2560, 36, 32, 9728, tie_word_embeddings=True),
    "qwen3-8b": dense(4096, 36, 32, 12288),
    "qwen3-32b": dense(5120, 64, 64, 25600),
    "qwen3-30b-a3b": {**MOE, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
    "qwen3.5-35b-a3b": {
        **HYBRID,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    **MINIS,
}


def settings_of(name: str) -> Settings:
    """Return what the config.json of a preset says.

    Raises
    ------
    ValueError
        There is no such preset.
    """
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}: take one of {', '.join(PRESETS)}")
    return Settings(PRESETS[name], name)


def preset(
    name: str,
    *,
    dtype: DTypeLike = bfloat16,
    form: tuple[int, int] = (64, 4),
    fused: bool = True,
    seed: int = 0,
    ranks: Communicator | None = None,
) -> Transformer:
    """Make a preset on the current stream's device; its weights are drawn there.

    Parameters
    ----------
    name : str
        One of the keys of `PRESETS`.
    dtype : dtype
        float16, bfloat16 or float32.
    form : (int, int)
        The group size and bits of the weights.
    fused : bool
        Whether decoding uses kernels that do several ops at once.
    seed : int
        The seed of the draws.
    ranks : Communicator, optional
        The ranks over which the model is split; every rank makes its part.

    Raises
    ------
    ValueError
        There is no such preset, or it cannot be split like that.
    """
    config = read(settings_of(name))
    weights = RandomWeights(dtype_of(dtype), form, seed, Shard.of(config, ranks, form[0], name))
    return Transformer.build(config, weights, fused)
