"""Qwen3-Next and Qwen3.5: gated-delta layers, some of gated attention, and mixtures with a shared expert.

Sources: Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024; names are those of the published checkpoints, whose
two generations differ in how they divide the projection of a gated-delta layer.
"""

from __future__ import annotations

from dataclasses import replace

from hiprt.bench.engine.models.config import REMEDY, Config, Delta
from hiprt.bench.engine.models.qwen3_moe import experts_name, sparse
from hiprt.bench.engine.settings import Settings, short

__all__ = ["read"]

# The sizes of a gated-delta layer, in the order in which `Delta` has them.
SIZES = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)
MIXERS = {"linear_attention": "delta", "full_attention": "attention"}


def read(settings: Settings) -> Config:
    """Return the config of a hybrid; where the settings have no experts, its layers have gated MLPs.

    Raises
    ------
    CheckpointError
        A value is missing, of another type or not supported.
    """
    get = settings.get
    config = Config.read(settings, rotary=0.25)
    every = get("full_attention_interval", int, 4)
    pattern = ["linear_attention" if (i + 1) % max(every, 1) else "full_attention" for i in range(len(config.layers))]
    kinds = get("layer_types", list, pattern)
    delta = Delta(*(get(name, int) for name in SIZES))
    unknown = sorted({short(kind) for kind in kinds if not (isinstance(kind, str) and kind in MIXERS)})
    wrong = {
        "attention without its output gate is not supported": not get("attn_output_gate", bool, True),
        f"layer_types with {', '.join(unknown)} are not supported": bool(unknown),
        f"layer_types has {len(kinds)} entries for {len(config.layers)} layers": len(kinds) != len(config.layers),
        **{f"{name} is {size}": size < 1 for name, size in zip(SIZES, vars(delta).values())},
        f"linear_num_value_heads {delta.value_heads} is no multiple of linear_num_key_heads {delta.key_heads}": bool(
            delta.value_heads % max(delta.key_heads, 1)
        ),
        f"linear_conv_kernel_dim is {delta.taps}, not from 2 to 8": not 2 <= delta.taps <= 8,
    }
    settings.refuse(wrong, REMEDY)
    layers = tuple((MIXERS[kind], feed) for kind, (_, feed) in zip(kinds, config.layers))
    config = replace(config, layers=layers, delta=delta, is_gated=True)
    return sparse(config, settings, is_normalized=True) if get(experts_name(settings), int, 0) else config
