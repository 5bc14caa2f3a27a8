"""Small random Qwen3 checkpoints in MLX's layout, written by the safetensors library."""

import json

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from hiprt.array import dtype_of
from hiprt.kernels.reference.quantize import quantize

CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 96,
    "intermediate_size": 160,
    "vocab_size": 259,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000,
    "rope_scaling": None,
    "tie_word_embeddings": True,
    "max_position_embeddings": 1024,
    "bos_token_id": 256,
    "eos_token_id": 256,
    "quantization": {"group_size": 32, "bits": 4},
}


def tokenizer():
    """Return a tokenizer whose tokens are the bytes and three special ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name in ("<|endoftext|>", "<|a|>", "<|b|>")])
    return made


def shapes(config):
    """Return the shapes of matrices and vectors by name."""
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, groups = config["num_attention_heads"] * width, config["num_key_value_heads"] * width
    matrices = {"model.embed_tokens": (config["vocab_size"], hidden)}
    vectors = {"model.norm": hidden}
    if not config["tie_word_embeddings"]:
        matrices["lm_head"] = (config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        matrices |= {
            f"{at}.self_attn.q_proj": (heads, hidden),
            f"{at}.self_attn.k_proj": (groups, hidden),
            f"{at}.self_attn.v_proj": (groups, hidden),
            f"{at}.self_attn.o_proj": (hidden, heads),
            f"{at}.mlp.gate_proj": (inner, hidden),
            f"{at}.mlp.up_proj": (inner, hidden),
            f"{at}.mlp.down_proj": (hidden, inner),
        }
        vectors |= {f"{at}.input_layernorm": hidden, f"{at}.post_attention_layernorm": hidden}
        vectors |= {f"{at}.self_attn.q_norm": width, f"{at}.self_attn.k_norm": width}
    return matrices, vectors


def tensors(config, dtype="float16", seed=0):
    """Return random weights by name."""
    rng = np.random.default_rng(seed)
    matrices, vectors = shapes(config)
    made = {}
    for name, (rows, columns) in matrices.items():
        spread = 1.0 if name == "model.embed_tokens" else 2.0 / np.sqrt(columns)
        weights = (rng.standard_normal((rows, columns)) * spread).astype(dtype_of(dtype))
        section = config["quantization"]
        own = section.get(name, section)
        parts = quantize(weights, own["group_size"], own["bits"])
        made |= {f"{name}.{part}": value for part, value in zip(("weight", "scales", "biases"), parts)}
    for name, size in vectors.items():
        made[f"{name}.weight"] = (1 + 0.2 * rng.standard_normal(size)).astype(dtype_of(dtype))
    return made


def write(folder, *, dtype="float16", shards=1, seed=0, weights=None, **changes):
    """Write a checkpoint and return its folder; `changes` go into config.json, where None removes a value."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**CONFIG, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer().save(str(folder / "tokenizer.json"))
    made = tensors({**CONFIG, **config}, dtype, seed) if weights is None else weights
    if shards == 1:
        save_file(made, folder / "model.safetensors")
        return folder
    names = sorted(made)
    places = {name: f"model-{index % shards + 1:05d}-of-{shards:05d}.safetensors" for index, name in enumerate(names)}
    for shard in set(places.values()):
        save_file({name: made[name] for name in names if places[name] == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return folder
