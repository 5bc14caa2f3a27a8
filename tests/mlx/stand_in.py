"""A small model of random weights, in the place of one that mlx-lm's tests download.

The tests ask for ``mlx-community/Qwen1.5-0.5B-Chat-4bit`` by name. What they check is how mlx-lm loads, caches and
generates: no text of that model. `make` writes a folder that the package ``huggingface_hub`` takes for its cache
(``HF_HUB_CACHE``), with a model of the same kind: Qwen2's layers, its chat template's form, and a tokenizer of bytes,
in which token 0 is ``!`` as in Qwen's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

__all__ = ["NAME", "make"]

NAME = "mlx-community/Qwen1.5-0.5B-Chat-4bit"
REVISION = "0" * 40
WIDTH, HEADS, LAYERS, INNER = 128, 2, 2, 256
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def make(cache: Path) -> None:
    """Write the model into a folder that is huggingface_hub's cache."""
    entry = cache / f"models--{NAME.replace('/', '--')}"
    folder = entry / "snapshots" / REVISION
    folder.mkdir(parents=True)
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text(REVISION)
    (folder / "README.md").write_text("---\nlanguage: en\n---\nRandom weights.\n")
    size = write_tokenizer(folder)
    write_model(folder, size)


def write_tokenizer(folder: Path) -> int:
    """Write a tokenizer of bytes and the special tokens; return how many tokens it has."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({each: i for i, each in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(["hello"])  # a word that a test takes for one token
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer.get_vocab_size()


def write_model(folder: Path, vocabulary: int) -> None:
    """Write the configuration, and random weights in float16."""
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": WIDTH,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "tie_word_embeddings": False,
        "vocab_size": vocabulary,
        "eos_token_id": vocabulary - 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return (random.normal(size=(rows, columns)) / np.sqrt(columns)).astype(np.float16)

    ones = np.ones(WIDTH, np.float16)
    tensors = {"model.embed_tokens.weight": matrix(vocabulary, WIDTH) * np.float16(8), "model.norm.weight": ones}
    tensors["lm_head.weight"] = matrix(vocabulary, WIDTH) * np.float16(4)
    tensors["lm_head.weight"][-len(SPECIALS) :] = 0  # no text of greedy choices ends
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        tensors |= {f"{name}.{norm}_layernorm.weight": ones for norm in ("input", "post_attention")}
        for part in "qkvo":
            tensors[f"{name}.self_attn.{part}_proj.weight"] = matrix(WIDTH, WIDTH)
            if part != "o":
                tensors[f"{name}.self_attn.{part}_proj.bias"] = matrix(1, WIDTH)[0]
        tensors |= {f"{name}.mlp.{part}_proj.weight": matrix(INNER, WIDTH) for part in ("gate", "up")}
        tensors[f"{name}.mlp.down_proj.weight"] = matrix(WIDTH, INNER)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
