"""Attention: queries, keys and values by a matrix each, norms of heads, rotations, caches, and a gate of the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiprt import Array, kernels
from hiprt.bench.engine.models import attention
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.model import KeyValue, LayerState
from hiprt.bench.plain.rows import rows_of

__all__ = ["Attention"]


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention with a norm on each head's query and key.

    Attributes
    ----------
    own : attention.Attention
        The engine's, for its sizes, norms and output matrix.
    query : Linear
        With a gate, the rows of each head's query are followed by those of its gate.
    key, value : Linear
    """

    own: attention.Attention
    query: Linear
    key: Linear
    value: Linear

    @classmethod
    def of(cls, own: attention.Attention) -> Attention:
        """Take the weights of the engine's."""
        queries, keys, values = own.sizes
        ends = np.cumsum([queries, keys, values])
        key, value = (rows_of(own.projection, range(ends[i], ends[i + 1])) for i in (0, 1))
        if not own.config.is_gated:
            return cls(own, rows_of(own.projection, range(queries)), key, value)
        order = np.stack([np.arange(queries), ends[2] + np.arange(queries)])
        order = order.reshape(2, own.config.num_attention_heads, -1).transpose(1, 0, 2)
        return cls(own, rows_of(own.projection, order.reshape(-1)), key, value)

    def decode(self, x: Array, position: Array, state: LayerState) -> Array:
        """Take one row of each sequence."""
        assert isinstance(state, KeyValue)
        own, config, n = self.own, self.own.config, x.shape[0]
        width, eps, base, dims = config.head_dim, config.rms_norm_eps, config.rope_theta, config.rotary_dims
        normed = kernels.rms_norm(x, own.norm, eps)
        queries, keys, values = self.query(normed), self.key(normed), self.value(normed)
        queries = queries.reshape(n, config.num_attention_heads, -1)
        gate = None
        if config.is_gated:
            gate = kernels.contiguous(queries[..., width:]).reshape(n, -1)
            queries = kernels.contiguous(queries[..., :width])
        queries = kernels.rms_norm(queries, own.query_norm, eps)
        keys = kernels.rms_norm(keys.reshape(n, -1, width), own.key_norm, eps)
        queries, keys = (kernels.rope(each, position, base=base, dims=dims) for each in (queries, keys))
        kernels.kv_write(state.keys, keys, position)
        kernels.kv_write(state.values, values.reshape(n, -1, width), position)
        mixed = kernels.attention(queries, state.keys, state.values, position, scale=own.scale).reshape(n, -1)
        if gate is not None:
            mixed = kernels.multiply(mixed, kernels.sigmoid(gate))
        return kernels.add(x, own.output(mixed))
