"""Qwen3 dense in plain numpy float32: what a 4-bit checkpoint computes, one token at a time.

Run as ``python -m hiprt.bench.story.reference`` it scores the checkpoint that is shipped here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (importing it makes bfloat16 known to numpy)
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from hiprt.bench.story import CHECKPOINT
from hiprt.bench.story.prompts import score
from hiprt.kernels.reference.quantize import dequantize

Floats = NDArray[np.float32]

# How many tokens a score asks for after each prompt.
SCORED_TOKENS = 60


class Model:
    """A checkpoint directory with its key-value cache.

    Attributes
    ----------
    config : dict
        What config.json says.
    tokenizer : Tokenizer
    weights : dict
        Dequantised float32 arrays by name, such as ``model.layers.0.mlp.up_proj``.
    """

    def __init__(self, directory: Path = CHECKPOINT) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text())
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.weights = load_weights(directory, self.config)
        self._layers: int = self.config["num_hidden_layers"]
        shape = (self.config["max_position_embeddings"], self.config["num_key_value_heads"], self.config["head_dim"])
        self._keys = [np.zeros(shape, np.float32) for _ in range(self._layers)]
        self._values = [np.zeros(shape, np.float32) for _ in range(self._layers)]
        pairs = np.arange(0, self.config["head_dim"], 2, dtype=np.float64) / self.config["head_dim"]
        self._frequencies = float(self.config["rope_theta"]) ** -pairs

    def step(self, token: int, position: int) -> Floats:
        """Take one token at one position; return the logits of the token after it.

        Positions before this one must have been taken already.
        """
        embedding = self.weights["model.embed_tokens"]
        x = embedding[token]
        for layer in range(self._layers):
            name = f"model.layers.{layer}"
            x = x + self._attention(layer, self._norm(x, f"{name}.input_layernorm"), position)
            x = x + self._mlp(f"{name}.mlp", self._norm(x, f"{name}.post_attention_layernorm"))
        head = embedding if self.config["tie_word_embeddings"] else self.weights["lm_head"]
        logits: Floats = head @ self._norm(x, "model.norm")
        return logits

    def write(self, prompt: str, count: int = SCORED_TOKENS) -> str:
        """Return the text of at most count tokens that the model finds most likely after a prompt."""
        tokens = self.tokenizer.encode(prompt).ids or [self.config["bos_token_id"]]
        for position, token in enumerate(tokens):
            logits = self.step(token, position)
        written: list[int] = []
        while len(written) < count and int(logits.argmax()) != self.config["eos_token_id"]:
            written.append(int(logits.argmax()))
            logits = self.step(written[-1], len(tokens) + len(written) - 1)
        text: str = self.tokenizer.decode(written)
        return text

    def _attention(self, layer: int, x: Floats, position: int) -> Floats:
        name = f"model.layers.{layer}.self_attn"
        heads, groups, width = (self.config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))
        q, k, v = (self.weights[f"{name}.{part}_proj"] @ x for part in "qkv")
        q = self._rotate(self._norm(q.reshape(heads, width), f"{name}.q_norm"), position)
        self._keys[layer][position] = self._rotate(self._norm(k.reshape(groups, width), f"{name}.k_norm"), position)
        self._values[layer][position] = v.reshape(groups, width)
        keys, values = self._keys[layer][: position + 1], self._values[layer][: position + 1]
        q = q.reshape(groups, heads // groups, width)
        scores = np.einsum("ghd,tgd->ght", q, keys) / np.float32(np.sqrt(width))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = np.einsum("ght,tgd->ghd", scores, values)
        out: Floats = self.weights[f"{name}.o_proj"] @ mixed.reshape(-1)
        return out

    def _mlp(self, name: str, x: Floats) -> Floats:
        gate = self.weights[f"{name}.gate_proj"] @ x
        up = self.weights[f"{name}.up_proj"] @ x
        silu = gate * 0.5 * (1 + np.tanh(gate / 2))
        out: Floats = self.weights[f"{name}.down_proj"] @ (silu * up)
        return out

    def _norm(self, x: Floats, name: str) -> Floats:
        mean = np.mean(x * x, axis=-1, keepdims=True)
        out: Floats = x / np.sqrt(mean + np.float32(self.config["rms_norm_eps"])) * self.weights[name]
        return out

    def _rotate(self, x: Floats, position: int) -> Floats:
        """Rotate each pair (i, i + width/2) of every head by the angle of this position."""
        angles = position * self._frequencies
        cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        low, high = np.split(x, 2, axis=-1)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def load_weights(directory: Path, config: dict[str, Any]) -> dict[str, Floats]:
    """Read model.safetensors and dequantise what is quantised, in float32 arithmetic."""
    stored = load_file(directory / "model.safetensors")
    group_size, bits = config["quantization"]["group_size"], config["quantization"]["bits"]
    weights: dict[str, Floats] = {}
    for name, array in stored.items():
        base, _, part = name.rpartition(".")
        if part != "weight":
            continue
        if f"{base}.scales" in stored:
            scales, biases = (stored[f"{base}.{kind}"].astype(np.float32) for kind in ("scales", "biases"))
            weights[base] = dequantize(array, scales, biases, group_size, bits)
        else:
            weights[base] = array.astype(np.float32)
    return weights


if __name__ == "__main__":
    model = Model()
    result = score(model.write)
    print(*result.faults, sep="\n")
    print(f"{result.sentences} sentences, {result.rate:.1%} parse")
