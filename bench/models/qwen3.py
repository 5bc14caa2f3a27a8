"""Qwen3 dense: grouped-query attention with a norm on each head's query and key, and a gated MLP.

Source: the Qwen3 technical report (arXiv:2505.09388); tensor names are those of the published checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Array, array, kernels
from hiprt.bench.checkpoint import Checkpoint, CheckpointError, Quantized
from hiprt.bench.models.linear import Linear

__all__ = ["Config", "Layer", "Qwen3"]


@dataclass(frozen=True)
class Config:
    """Sizes and constants of a model, under the names of config.json.

    Attributes
    ----------
    hidden_size, intermediate_size, vocab_size : int
    num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim : int
    rms_norm_eps, rope_theta : float
    tie_word_embeddings : bool
        Whether the embedding also turns the last state into logits.
    max_position_embeddings : int
        The longest text the model was trained for.
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    tie_word_embeddings: bool
    max_position_embeddings: int

    @classmethod
    def read(cls, checkpoint: Checkpoint) -> Config:
        """Read config.json.

        Raises
        ------
        CheckpointError
            A value is missing, of another type or not supported.
        """
        heads = checkpoint.setting("num_attention_heads", int)
        rope = checkpoint.setting("rope_parameters", dict, {})
        config = cls(
            checkpoint.setting("hidden_size", int),
            checkpoint.setting("intermediate_size", int),
            checkpoint.setting("vocab_size", int),
            checkpoint.setting("num_hidden_layers", int),
            heads,
            checkpoint.setting("num_key_value_heads", int),
            checkpoint.setting("head_dim", int, checkpoint.setting("hidden_size", int) // max(heads, 1)),
            checkpoint.setting("rms_norm_eps", float),
            checkpoint.setting("rope_theta", float, rope.get("rope_theta")),
            checkpoint.setting("tie_word_embeddings", bool, False),
            checkpoint.setting("max_position_embeddings", int),
        )
        config.check(checkpoint, rope)
        return config

    def check(self, checkpoint: Checkpoint, rope: dict[str, object]) -> None:
        """Refuse what this model does not compute."""
        scaling = checkpoint.setting("rope_scaling", dict, {})
        kinds = {table.get("rope_type", table.get("type", "default")) for table in (rope, scaling)}
        wrong = {
            "attention_bias true": checkpoint.setting("attention_bias", bool, False),
            "use_sliding_window true": checkpoint.setting("use_sliding_window", bool, False),
            "another hidden_act than silu": checkpoint.setting("hidden_act", str, "silu") != "silu",
            "scaled rotary positions": kinds != {"default"},
            "sizes that are not positive": min(value for value in vars(self).values() if type(value) is int) < 1,
        }
        causes = [cause for cause, holds in wrong.items() if holds]
        if not causes and (self.num_attention_heads % self.num_key_value_heads or self.head_dim % 2):
            causes = [f"{self.num_attention_heads} heads of {self.head_dim} over {self.num_key_value_heads} key heads"]
        if causes:
            where = checkpoint.path / "config.json"
            raise CheckpointError(f"{where}: qwen3 with {causes[0]} is not supported", "use a plain dense Qwen3 model")


@dataclass(frozen=True)
class Layer:
    """The weights of one layer."""

    input_norm: Array
    query: Linear
    key: Linear
    value: Linear
    query_norm: Array
    key_norm: Array
    output: Linear
    mlp_norm: Array
    gate: Linear
    up: Linear
    down: Linear

    @staticmethod
    def read(checkpoint: Checkpoint, config: Config, name: str, dtype: np.dtype[Any]) -> list[Quantized | NDArray[Any]]:
        """Return one layer's weights on the host, in the order of the attributes."""
        hidden, inner, width = config.hidden_size, config.intermediate_size, config.head_dim
        queries, pairs = config.num_attention_heads * width, config.num_key_value_heads * width

        def vector(part: str, size: int) -> NDArray[Any]:
            return checkpoint.tensor(f"{name}.{part}.weight", (size,), dtype)

        def matrix(part: str, rows: int, columns: int) -> Quantized:
            return checkpoint.quantized(f"{name}.{part}", rows, columns, dtype)

        return [
            vector("input_layernorm", hidden),
            matrix("self_attn.q_proj", queries, hidden),
            matrix("self_attn.k_proj", pairs, hidden),
            matrix("self_attn.v_proj", pairs, hidden),
            vector("self_attn.q_norm", width),
            vector("self_attn.k_norm", width),
            matrix("self_attn.o_proj", hidden, queries),
            vector("post_attention_layernorm", hidden),
            matrix("mlp.gate_proj", inner, hidden),
            matrix("mlp.up_proj", inner, hidden),
            matrix("mlp.down_proj", hidden, inner),
        ]

    def attend(self, x: Array, position: Array, keys: Array, values: Array, config: Config) -> Array:
        """Write this position's key and value into the cache, then mix the values up to it."""
        width, eps, base = config.head_dim, config.rms_norm_eps, config.rope_theta
        normed = kernels.rms_norm(x, self.input_norm, eps)
        query = kernels.rms_norm(self.query(normed).reshape(-1, width), self.query_norm, eps)
        key = kernels.rms_norm(self.key(normed).reshape(-1, width), self.key_norm, eps)
        kernels.kv_write(keys, kernels.rope(key, position, base=base), position)
        kernels.kv_write(values, self.value(normed).reshape(-1, width), position)
        query = kernels.rope(query, position, base=base)
        mixed = kernels.attention(query, keys, values, position, scale=width**-0.5)
        return kernels.add(x, self.output(mixed.reshape(1, -1)))

    def feed(self, x: Array, config: Config) -> Array:
        """Apply the gated MLP."""
        normed = kernels.rms_norm(x, self.mlp_norm, config.rms_norm_eps)
        return kernels.add(x, self.down(kernels.silu_mul(self.gate(normed), self.up(normed))))


@dataclass(frozen=True)
class Qwen3:
    """A model on the device.

    Attributes
    ----------
    config : Config
    dtype : numpy.dtype
        Of scales, norms, states and logits.
    embedding : Linear
    layers : tuple of Layer
    norm : Array
    head : Linear
        The embedding again where the two are tied.
    """

    config: Config
    dtype: np.dtype[Any]
    embedding: Linear
    layers: tuple[Layer, ...]
    norm: Array
    head: Linear

    @classmethod
    def load(cls, checkpoint: Checkpoint) -> Qwen3:
        """Upload a checkpoint's weights on the current stream; its scales give the dtype.

        Raises
        ------
        CheckpointError
            A tensor is missing, or has another shape or dtype than config.json says.
        """
        config = Config.read(checkpoint)
        hidden, vocab = config.hidden_size, config.vocab_size
        dtype = checkpoint.dtype_of("model.embed_tokens")
        # Everything is checked before the first byte is uploaded.
        words = checkpoint.quantized("model.embed_tokens", vocab, hidden, dtype)
        layers = [Layer.read(checkpoint, config, f"model.layers.{n}", dtype) for n in range(config.num_hidden_layers)]
        norm = checkpoint.tensor("model.norm.weight", (hidden,), dtype)
        untied = None if config.tie_word_embeddings else checkpoint.quantized("lm_head", vocab, hidden, dtype)
        checkpoint.warn_unused()
        embedding = Linear.upload(words)
        return cls(
            config,
            dtype,
            embedding,
            tuple(Layer(*map(upload, parts)) for parts in layers),
            array(norm),
            embedding if untied is None else Linear.upload(untied),
        )

    @property
    def cache_shape(self) -> tuple[int, int]:
        """Key heads and their width: what one layer keeps of each position, for keys and for values."""
        return self.config.num_key_value_heads, self.config.head_dim

    def logits(self, token: Array, position: Array, caches: Sequence[tuple[Array, Array]]) -> Array:
        """Take one token at one position.

        Parameters
        ----------
        token, position : Array of int32, shape (1,)
        caches : sequence of (keys, values)
            One pair a layer, each of shape (key heads, capacity, head_dim); this position is written.

        Returns
        -------
        Array, shape (1, vocab_size)
        """
        x = self.embedding.rows(token)
        for layer, (keys, values) in zip(self.layers, caches):
            x = layer.feed(layer.attend(x, position, keys, values, self.config), self.config)
        return self.head(kernels.rms_norm(x, self.norm, self.config.rms_norm_eps))


def upload(part: Quantized | NDArray[Any]) -> Any:
    """Copy a matrix or a vector to the device."""
    return Linear.upload(part) if isinstance(part, Quantized) else array(part)
