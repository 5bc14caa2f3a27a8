"""GatedDelta: the recurrent part of a layer that mixes positions, with its norm and residual sum."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from hiprt import Array, array, kernels, zeros
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.models.config import Config, Delta
from hiprt.bench.engine.models.linear import Linear, split
from hiprt.bench.engine.models.model import LayerState, Recurrent
from hiprt.bench.engine.models.weights import Part, Weights
from hiprt.kernels.ops.norm.gated_rms_norm import gated_heads_norm

__all__ = ["GatedDelta"]

EPS = 1e-6  # for the norms of queries and keys: a constant of the published code


@dataclass(frozen=True)
class GatedDelta:
    """Convolution, gated delta rule and gated norm.

    Attributes
    ----------
    config : Config
    delta : Delta
    norm : Array, shape (hidden_size,)
    projection : Linear
        Its rows are the queries, keys and values of all heads, the gate of the output, and two gates for each value
        head: how much the rule corrects, and how much it keeps.
    conv : Array, shape (channels, taps)
    a_log : Array of float32, shape (value heads,)
    dt_bias : Array, shape (value heads,)
    scale : Array of float32, shape (2, key width)
        What a query and a key of mean square 1 are multiplied with: ``1 / width`` and ``1 / sqrt(width)``.
    output_norm : Array, shape (value width,)
    output : Linear
    """

    config: Config
    delta: Delta
    norm: Array
    projection: Linear
    conv: Array
    a_log: Array
    dt_bias: Array
    scale: Array
    output_norm: Array
    output: Linear

    @property
    def qk_eps(self) -> float:
        """What is added to the mean of a query's or key's squares; the published constant is added to their sum."""
        return EPS / self.delta.key_width

    @classmethod
    def build(cls, config: Config, weights: Weights, at: str) -> GatedDelta:
        """Take the weights of the layer with this name."""
        delta, hidden, own = config.delta, config.hidden_size, f"{at}.linear_attn"
        assert delta is not None
        width = float(delta.key_width)
        scale = np.outer([1 / width, width**-0.5], np.ones(delta.key_width)).astype(np.float32)
        return cls(
            config,
            delta,
            weights.norm(f"{at}.input_layernorm", hidden),
            weights.matrix(projection_of(delta, weights, own), hidden),
            weights.conv(f"{own}.conv1d", delta.channels, delta.taps),
            weights.vector(f"{own}.A_log", delta.value_heads, np.dtype(np.float32)),
            weights.vector(f"{own}.dt_bias", delta.value_heads),
            array(scale),
            weights.vector(f"{own}.norm.weight", delta.value_width),
            weights.matrix([Part(f"{own}.out_proj", hidden)], delta.values),
        )

    def state(
        self, batch: int, capacity: int, dtype: np.dtype[Any], kv_bits: int | None, blocks: Blocks | None
    ) -> LayerState:
        """Allocate the state on the current stream; it has no keys and values, and does not grow with the text."""
        delta = self.delta
        shape = (batch, delta.value_heads, delta.value_width, delta.key_width)
        return Recurrent(zeros((batch, delta.taps - 1, delta.channels), dtype), zeros(shape, np.float32))

    def decode(self, x: Array, position: Array, state: LayerState, fused: bool) -> Array:
        """Take one row of each sequence, as `Mixer.decode`."""
        assert isinstance(state, Recurrent)
        if not fused:
            return self.mix(x, state)
        delta, eps = self.delta, self.config.rms_norm_eps
        return kernels.gdn_step(
            self.projection.project(x, norm=self.norm, eps=eps, fused=True),
            self.conv,
            state.conv,
            self.a_log,
            self.dt_bias,
            state.delta,
            key_heads=delta.key_heads,
            value_heads=delta.value_heads,
            key_width=delta.key_width,
            value_width=delta.value_width,
            qk_eps=self.qk_eps,
            norm=self.output_norm,
            eps=eps,
        )

    def prefill(self, x: Array, position: Array, state: LayerState, sequence: int) -> Array:
        """Take the rows of one sequence."""
        assert isinstance(state, Recurrent)
        delta, eps, one = self.delta, self.config.rms_norm_eps, slice(sequence, sequence + 1)
        made = self.projection.project(x, norm=self.norm, eps=eps, fused=True)
        inputs = kernels.gdn_inputs(
            made.reshape(1, *made.shape),
            self.conv,
            state.conv[one],
            self.a_log,
            self.dt_bias,
            key_heads=delta.key_heads,
            value_heads=delta.value_heads,
            key_width=delta.key_width,
            value_width=delta.value_width,
            gates=delta.channels + delta.values,
            qk_eps=self.qk_eps,
        )
        answer = kernels.gated_delta(*inputs, state.delta[one])
        z = made[:, delta.channels : delta.channels + delta.values]
        normed = gated_heads_norm(answer.reshape(answer.shape[1:]), z, self.output_norm, eps)
        return self.output.project(normed.reshape(len(x), -1), residual=x, fused=True)

    def mix(self, x: Array, state: Recurrent) -> Array:
        """Do what `decode` does; each op is a kernel."""
        delta, sequences, eps = self.delta, len(x), self.config.rms_norm_eps
        key_heads, heads = delta.key_heads, delta.value_heads
        made = self.projection.project(x, norm=self.norm, eps=eps)
        steps, z, b, a = split(made, delta.channels, delta.values, heads, heads)
        steps, b, a = (part.reshape(sequences, -1, part.shape[-1]) for part in (steps, b, a))
        mixed = kernels.astype(kernels.conv_step(steps, state.conv, self.conv), np.float32)
        q, k, v = (
            part.reshape(*steps.shape[:2], count, -1)
            for part, count in zip(split(mixed, delta.keys, delta.keys, delta.values), (key_heads, key_heads, heads))
        )
        q, k = (kernels.rms_norm(part, self.scale[i], self.qk_eps) for i, part in enumerate((q, k)))
        kept, corrected = kernels.gated_delta_gates(a, b, self.a_log, self.dt_bias)
        answer = kernels.astype(kernels.gated_delta(q, k, v, kept, corrected, state.delta), x.dtype)
        shape = (sequences * heads, delta.value_width)
        normed = kernels.gated_rms_norm(answer.reshape(shape), z.reshape(shape), self.output_norm, eps)
        return normed.reshape(sequences, -1)


def projection_of(delta: Delta, weights: Weights, own: str) -> list[Part]:
    """Return the parts of the projection in the order of `GatedDelta.projection`.

    Checkpoints of Qwen3.5 have a module for each. Those of Qwen3-Next have two modules, in which the parts of a key
    head stand together.
    """
    heads = delta.value_heads
    if not weights.has(f"{own}.in_proj_qkvz"):
        sizes = {"qkv": delta.channels, "z": delta.values, "b": heads, "a": heads}
        return [Part(f"{own}.in_proj_{name}", rows) for name, rows in sizes.items()]
    repeat = heads // delta.key_heads
    widths = np.cumsum([0, delta.key_width, delta.key_width, repeat * delta.value_width, repeat * delta.value_width])
    rows = np.arange(delta.key_heads * widths[-1]).reshape(delta.key_heads, -1)
    parts = [rows[:, start:end].reshape(-1) for start, end in pairwise(widths)]
    gates = np.arange(2 * heads).reshape(delta.key_heads, 2, repeat)
    return [
        Part(f"{own}.in_proj_qkvz", rows.size, np.concatenate(parts)),
        Part(f"{own}.in_proj_ba", 2 * heads, np.concatenate([gates[:, i].reshape(-1) for i in (0, 1)])),
    ]
