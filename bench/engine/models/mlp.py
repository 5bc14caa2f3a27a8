"""Mlp: the gated feed-forward part of a layer, with its norm and residual sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hiprt import Array
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.weights import Part, Weights

__all__ = ["Mlp"]


@dataclass(frozen=True)
class Mlp:
    """``x + down(silu(gate(norm(x))) * up(norm(x)))``.

    Attributes
    ----------
    config : Config
    norm : Array, shape (hidden_size,)
    gate_up : Linear
        Its rows are those of the gate, then those of the up projection.
    down : Linear
    """

    config: Config
    norm: Array
    gate_up: Linear
    down: Linear

    @classmethod
    def build(cls, config: Config, weights: Weights, at: str) -> Mlp:
        """Take the weights of the layer with this name."""
        hidden, inner = config.hidden_size, config.intermediate_size
        gate_up = [Part(f"{at}.mlp.{name}_proj", inner) for name in ("gate", "up")]
        return cls(
            weights.shard.own(config),
            weights.norm(f"{at}.post_attention_layernorm", hidden),
            weights.matrix(gate_up, hidden),
            weights.matrix([Part(f"{at}.mlp.down_proj", hidden)], inner),
        )

    def __call__(self, x: Array, fused: bool = False) -> Array:
        """Take rows of the residual stream; `fused` asks for kernels that do several ops, for a few rows."""
        inner = self.gate_up.project(x, norm=self.norm, eps=self.config.rms_norm_eps, is_gate=True, fused=fused)
        return self.down.project(inner, residual=x, fused=fused)

    def decode(self, mixed: Array, output: Linear, x: Array, fused: bool) -> Array:
        """Take `x` plus the product of what a mixer has mixed."""
        return self(output.project(mixed, residual=x, fused=fused), fused)

    def ready(self, _output: Linear) -> Mlp:
        """Return it as it is."""
        return self

    def rows_alike(self, dtype: np.dtype[Any], fused: bool) -> int:
        """Return how many rows a call takes on a GPU, each with the bits that it has by itself."""
        rows = self.gate_up.rows_alike(dtype, is_gate=True, fused=fused)
        return min(rows, self.down.rows_alike(dtype, fused=fused))

    def prefill(self, x: Array) -> Array:
        """Take any number of rows."""
        return self(x, fused=True)
