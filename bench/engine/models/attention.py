"""Attention: the part of a layer that mixes positions, with its norm and residual sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np

from hiprt import Array, kernels, zeros
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.models.alone import Each, alone, together
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.linear import Linear, split
from hiprt.bench.engine.models.model import KeyValue, LayerState, PagedKeyValue, QuantizedKeyValue, Recurrent
from hiprt.bench.engine.models.weights import Part, Weights
from hiprt.kernels.ops.quantized_cache.coded_heads import GROUP_SIZE, INT8, WIDTHS

__all__ = ["Attention"]


class Turns(TypedDict):
    """How heads are normed and turned, as keywords of ops."""

    heads: int
    base: float
    dims: int | None
    eps: float


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention with a norm on each head's query and key.

    Attributes
    ----------
    config : Config
    norm : Array, shape (hidden_size,)
    projection : Linear
        Its rows are the queries of all heads, the keys, the values, and the gate where there is one.
    query_norm, key_norm : Array, shape (head_dim,)
    output : Linear
    """

    config: Config
    norm: Array
    projection: Linear
    query_norm: Array
    key_norm: Array
    output: Linear

    @property
    def scale(self) -> float:
        """What scores are multiplied with."""
        return float(self.config.head_dim**-0.5)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many rows of the projection are queries, keys and values; the rows of the gate follow."""
        config = self.config
        keys = config.num_key_value_heads * config.head_dim
        return config.num_attention_heads * config.head_dim, keys, keys

    @property
    def turns(self) -> Turns:
        """How heads are normed and turned, as keywords of ops."""
        config = self.config
        return {
            "heads": config.num_attention_heads,
            "base": config.rope_theta,
            "dims": config.rotary_dims,
            "eps": config.rms_norm_eps,
        }

    @classmethod
    def build(cls, config: Config, weights: Weights, at: str) -> Attention:
        """Take the weights of the layer with this name."""
        heads, groups, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        hidden, own = config.hidden_size, f"{at}.self_attn"
        if config.is_gated:
            # In checkpoints the gate of a head follows its query.
            rows = np.arange(2 * heads * width).reshape(heads, 2, width)
            query, gate = (Part(f"{own}.q_proj", 2 * heads * width, rows[:, i].reshape(-1)) for i in (0, 1))
            parts, last = [query], [gate]
        else:
            parts, last = [Part(f"{own}.q_proj", heads * width)], []
        parts += [Part(f"{own}.{name}_proj", groups * width) for name in "kv"]
        return cls(
            weights.shard.own(config),
            weights.norm(f"{at}.input_layernorm", hidden),
            weights.matrix(parts + last, hidden),
            weights.norm(f"{own}.q_norm", width),
            weights.norm(f"{own}.k_norm", width),
            weights.matrix([Part(f"{own}.o_proj", hidden)], heads * width),
        )

    def state(
        self, batch: int, capacity: int, dtype: np.dtype[Any], kv_bits: int | None, blocks: Blocks | None
    ) -> LayerState:
        """Allocate the caches of keys and values on the current stream; see `Model.state`."""
        width = self.config.head_dim
        *rows, _ = shape = (batch, self.config.num_key_value_heads, capacity, width)
        if blocks is not None:
            pool = (shape[1], blocks.count, blocks.rows, width)
            return PagedKeyValue(zeros(pool, dtype), zeros(pool, dtype), blocks.table, blocks.slots)
        if kv_bits is None:
            return KeyValue(zeros(shape, dtype), zeros(shape, dtype))
        if width not in WIDTHS:
            cause = f"kv_bits={kv_bits}: the model has heads of {width} elements"
            raise ValueError(f"{cause}; caches in 8 bits take those of 64, 128 or 256")
        scales = (*rows, width // GROUP_SIZE)
        return QuantizedKeyValue(*(zeros(shape, INT8) for _ in range(2)), *(zeros(scales) for _ in range(2)))

    def decode(self, x: Array, position: Array, state: LayerState, fused: bool) -> Array:
        """Take one row of each sequence, as `Mixer.decode`."""
        assert not isinstance(state, Recurrent)
        return self.take(x, position, state, fused, together)

    def verify(self, x: Array, position: Array, state: KeyValue | QuantizedKeyValue, fused: bool) -> Array:
        """Take consecutive rows of the first sequence; return what `decode` returns for each, bit for bit."""
        project = partial(alone, most=self.projection.rows_alike(x.dtype, fused=fused))
        return self.take(x, position, state.sequence(0), fused, project)

    def take(
        self,
        x: Array,
        position: Array,
        state: KeyValue | QuantizedKeyValue | PagedKeyValue,
        fused: bool,
        project: Each,
    ) -> Array:
        """Take a few rows, multiplied first by `project`; return what `output` multiplies.

        `state` has the caches of each row, or those of all.
        """
        made = project(partial(self.projected, fused=fused), x)
        gate = self.gate_of(made)
        if isinstance(state, QuantizedKeyValue):
            query = self.quantize(made, position, state)
            mixed = kernels.quantized_attention(query, *state.arrays, position, scale=self.scale, gate=gate)
        elif isinstance(state, PagedKeyValue):
            query = self.place(made, position, state)
            pool = state.keys, state.values, state.table
            mixed = kernels.paged_attention(query, *pool, position, scale=self.scale, gate=gate)
        elif fused:
            given = made, self.query_norm, self.key_norm, position, state.keys, state.values
            mixed = kernels.norm_rope_attention(*given, **self.turns, scale=self.scale, gate=gate)
        else:
            query = self.write(made, position, state.keys, state.values)
            mixed = kernels.attention(query, state.keys, state.values, position, scale=self.scale, gate=gate)
        return mixed.reshape(len(x), -1)

    def prefill(self, x: Array, position: Array, state: LayerState, sequence: int) -> Array:
        """Take the rows of one sequence."""
        assert not isinstance(state, Recurrent)
        made, state = self.projected(x, fused=True), state.sequence(sequence)
        gate = self.gate_of(made)
        if isinstance(state, QuantizedKeyValue):
            query = self.quantize(made, position, state)
            # Tiles of queries read each position many times, so it is made a number once; the last one is the largest.
            keys = kernels.dequantize_cache(state.keys, state.key_scales, position[-1:], x.dtype)
            values = kernels.dequantize_cache(state.values, state.value_scales, position[-1:], x.dtype)
        elif isinstance(state, PagedKeyValue):
            query = self.place(made, position, state)
            keys, values = state.gather()
        else:
            keys, values = state.keys, state.values
            query = kernels.norm_rope_write(made, self.query_norm, self.key_norm, position, keys, values, **self.turns)
        mixed = kernels.prefill_attention(query, keys, values, position, scale=self.scale, gate=gate)
        return self.output.project(mixed.reshape(len(x), -1), residual=x, fused=True)

    def quantize(self, made: Array, position: Array, state: QuantizedKeyValue) -> Array:
        """Write the keys and values of a projection's rows; return the queries."""
        given = made, self.query_norm, self.key_norm, position, *state.arrays
        return kernels.norm_rope_quantize(*given, **self.turns)

    def place(self, made: Array, position: Array, state: PagedKeyValue) -> Array:
        """Write the keys and values of a projection's rows into their blocks; return the queries."""
        given, slots = (made, self.query_norm, self.key_norm, position, *state.rows), state.slots[: len(made)]
        return kernels.norm_rope_write(*given, **self.turns, slots=slots)

    def projected(self, x: Array, fused: bool) -> Array:
        """Return the projection of the normed rows."""
        return self.projection.project(x, norm=self.norm, eps=self.config.rms_norm_eps, fused=fused)

    def gate_of(self, made: Array) -> Array | None:
        """Return the columns of a projection that are the gate."""
        return made[:, sum(self.sizes) :] if self.config.is_gated else None

    def write(self, made: Array, position: Array, keys: Array, values: Array) -> Array:
        """Write the keys and values of a projection's rows; return the queries."""
        config, eps = self.config, self.config.rms_norm_eps
        base, dims = config.rope_theta, config.rotary_dims
        q, k, v = (part.reshape(len(made), -1, config.head_dim) for part in split(made, *self.sizes))
        q, k = kernels.rms_norm(q, self.query_norm, eps), kernels.rms_norm(k, self.key_norm, eps)
        kernels.kv_write(keys, kernels.rope(k, position, base=base, dims=dims), position)
        kernels.kv_write(values, v, position)
        return kernels.rope(q, position, base=base, dims=dims)
