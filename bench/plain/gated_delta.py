"""GatedDelta: four matrices, a convolution, norms of queries and keys, gates, the recurrence and a gated norm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hiprt import Array, kernels
from hiprt.bench.engine.models import gated_delta
from hiprt.bench.engine.models.linear import Linear, split
from hiprt.bench.engine.models.model import LayerState, Recurrent
from hiprt.bench.plain.rows import rows_of

__all__ = ["GatedDelta"]


@dataclass(frozen=True)
class GatedDelta:
    """The gated delta rule of a layer.

    Attributes
    ----------
    own : gated_delta.GatedDelta
        The engine's, for its sizes, vectors and output matrix.
    qkv, z, b, a : Linear
        What the convolution takes, the gate of the output, how much the rule corrects, and how much it keeps.
    """

    own: gated_delta.GatedDelta
    qkv: Linear
    z: Linear
    b: Linear
    a: Linear

    @classmethod
    def of(cls, own: gated_delta.GatedDelta) -> GatedDelta:
        """Take the weights of the engine's."""
        delta = own.delta
        ends = np.cumsum([0, delta.channels, delta.values, delta.value_heads, delta.value_heads])
        return cls(own, *(rows_of(own.projection, range(ends[i], ends[i + 1])) for i in range(4)))

    def decode(self, x: Array, position: Array, state: LayerState) -> Array:
        """Take one row of each sequence."""
        assert isinstance(state, Recurrent)
        own, delta, eps, n = self.own, self.own.delta, self.own.config.rms_norm_eps, x.shape[0]
        normed = kernels.rms_norm(x, own.norm, eps)
        qkv, z, b, a = self.qkv(normed), self.z(normed), self.b(normed), self.a(normed)
        mixed = kernels.conv_step(qkv.reshape(n, 1, -1), state.conv, own.conv)
        heads = delta.key_heads, delta.key_heads, delta.value_heads
        q, k, v = (
            part.reshape(n, 1, count, -1)
            for part, count in zip(split(mixed, delta.keys, delta.keys, delta.values), heads)
        )
        inverse = float(delta.key_width) ** -0.5
        q = kernels.multiply(kernels.rms_norm(q, None, own.qk_eps), inverse**2)
        k = kernels.multiply(kernels.rms_norm(k, None, own.qk_eps), inverse)
        rate = kernels.negative(kernels.exp(own.a_log))
        kept = kernels.exp(kernels.multiply(rate, kernels.softplus(kernels.add(a, own.dt_bias))))
        corrected = kernels.astype(kernels.sigmoid(b), np.float32)
        answer = kernels.gated_delta(q, k, v, kept.reshape(n, 1, -1), corrected.reshape(n, 1, -1), state.delta)
        opened = kernels.silu(kernels.astype(z.reshape(n, 1, delta.value_heads, -1), np.float32))
        scaled = kernels.astype(kernels.rms_norm(answer, own.output_norm, eps), np.float32)
        gated = kernels.astype(kernels.multiply(opened, scaled), x.dtype)
        return kernels.add(x, own.output(gated.reshape(n, -1)))
