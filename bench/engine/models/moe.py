"""Moe: the mixture of experts of a layer, with its norm and residual sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hiprt import Array, current_stream, kernels
from hiprt.bench.engine.models.config import Config, Mixture
from hiprt.bench.engine.models.linear import Linear, gated
from hiprt.bench.engine.models.weights import ROUTER_BITS, Part, Weights
from hiprt.kernels.ops.experts.projected import folded_router, projected_gate_up, reads_folded
from hiprt.kernels.ops.experts.routed import routed_gate_up
from hiprt.kernels.tuning.target import target_of

__all__ = ["Moe"]


@dataclass(frozen=True)
class Moe:
    """``x`` plus the weighted answers of the experts that its router chooses, and of the shared expert.

    Attributes
    ----------
    config : Config
    mixture : Mixture
    norm : Array, shape (hidden_size,)
    router : Linear
        It has a row for each expert, then one for the gate of the shared expert.
    gate_up, down : Linear
        Stacks with a matrix for each expert. The shared expert is the last one where it is as wide as the others.
    shared : tuple of 2 Linear, optional
        The gate_up and down matrices of the shared expert.
    folded : Array, optional
        The router folded with the matrix in front of it, whose product leaves the logits, where a kernel does.
    """

    config: Config
    mixture: Mixture
    norm: Array
    router: Linear
    gate_up: Linear
    down: Linear
    shared: tuple[Linear, Linear] | None
    folded: Array | None = None

    @classmethod
    def build(cls, config: Config, weights: Weights, at: str) -> Moe:
        """Take the weights of the layer with this name."""
        mixture, hidden, own = config.mixture, config.hidden_size, f"{at}.mlp"
        assert mixture is not None
        routes = [Part(f"{own}.gate", mixture.experts)]
        if mixture.shared:
            routes.append(Part(f"{own}.shared_expert_gate", 1))
        is_member = mixture.shared == mixture.inner
        gate_up = weights.experts(own, ("gate_proj", "up_proj"), mixture.experts, mixture.inner, hidden, is_member)
        down = weights.experts(own, ("down_proj",), mixture.experts, hidden, mixture.inner, is_member)
        shared = None
        if is_member:
            shared = gate_up.member(mixture.experts), down.member(mixture.experts)
        elif mixture.shared:
            one = f"{own}.shared_expert"
            halves = [Part(f"{one}.{name}_proj", mixture.shared) for name in ("gate", "up")]
            last = weights.matrix([Part(f"{one}.down_proj", hidden)], mixture.shared)
            shared = weights.matrix(halves, hidden), last
        norm = weights.norm(f"{at}.post_attention_layernorm", hidden)
        router, own_config = weights.matrix(routes, hidden, ROUTER_BITS), weights.shard.own(config)
        assert own_config.mixture is not None
        return cls(own_config, own_config.mixture, norm, router, gate_up, down, shared)

    def __call__(self, x: Array, fused: bool = False) -> Array:
        """Take rows of the residual stream; `fused` asks for kernels that do several ops, for a few rows."""
        return self.fused(x) if fused and self.is_fusable else self.taken(x)

    def decode(self, mixed: Array, output: Linear, x: Array, fused: bool) -> Array:
        """Take `x` plus the product of what a mixer has mixed."""
        if not fused or self.folded is None:
            return self(output.project(mixed, residual=x, fused=fused), fused)
        matrices = output.codes, x, self.router.codes, self.folded, self.gate_up.codes
        x, inner, chosen, shares = projected_gate_up(
            mixed, *matrices, **self.routes, out_group_size=output.group_size, out_bits=output.bits
        )
        return kernels.moe_down(inner, chosen, shares, *self.down.codes, **self.down.form, residual=x)

    def ready(self, output: Linear) -> Moe:
        """Return it with the router folded with the last matrix of the mixer in front."""
        is_read = reads_folded(target_of(current_stream())) and output.is_fusable and self.is_fusable
        is_whole = output.ranks is None and self.down.ranks is None
        if not (is_read and is_whole and self.router.is_fusable and self.router.bits == ROUTER_BITS):
            return self
        folded = folded_router(
            self.router.codes,
            output.codes,
            norm=self.norm,
            router_group_size=self.router.group_size,
            router_bits=self.router.bits,
            out_group_size=output.group_size,
            out_bits=output.bits,
        )
        return replace(self, folded=folded)

    def taken(self, x: Array, *, is_prompt: bool = False) -> Array:
        """Take rows of the residual stream op by op; a prompt has the gate, and the shared expert, in the products."""
        mixture, rows = self.mixture, len(x)
        normed = kernels.rms_norm(x, self.norm, self.config.rms_norm_eps)
        routes = self.router.project(normed, fused=is_prompt)
        is_joined = is_prompt and self.is_fusable
        logits = routes if is_joined else kernels.contiguous(routes[:, : mixture.experts])
        is_shared = is_joined and mixture.shared > 0
        chosen, shares = kernels.moe_route(logits, mixture.chosen, normalize=mixture.is_normalized, shared=is_shared)
        wide = normed.reshape(rows, 1, -1)
        if is_prompt:
            answers = self.gate_up.gather_mlp(self.down, wide, chosen)
        else:
            answers = self.down.gather(gated(self.gate_up.gather(wide, chosen)), chosen)
        if self.shared is None or is_joined:
            return self.down.added(kernels.moe_combine(answers, shares), x)
        gate_up, down = self.shared
        shared = down(gate_up.project(normed, is_gate=True))
        gate = kernels.contiguous(routes[:, mixture.experts :])
        return self.down.added(kernels.moe_combine(answers, shares, shared, gate), x)

    def rows_alike(self, _dtype: np.dtype[Any], _fused: bool) -> int:
        """Return how many rows a call takes on a GPU, each with the bits that it has by itself."""
        return 1

    def prefill(self, x: Array) -> Array:
        """Take any number of rows, a few of them as decoding does."""
        is_short = len(x) <= target_of(current_stream()).table.prompt_tokens
        return self.fused(x) if is_short and self.is_fusable else self.taken(x, is_prompt=True)

    @property
    def is_fusable(self) -> bool:
        """Whether the fused kernels read the stacks, and no shared expert stands beside them."""
        is_member = self.mixture.shared in (0, self.mixture.inner)
        return is_member and self.gate_up.is_fusable and self.down.is_fusable

    @property
    def routes(self) -> dict[str, Any]:
        """How a token's experts are chosen, and the formats of their matrices, as keywords of ops."""
        return {
            "k": self.mixture.chosen,
            "norm": self.norm,
            "eps": self.config.rms_norm_eps,
            "normalize": self.mixture.is_normalized,
            "shared": self.mixture.shared > 0,
            "router_group_size": self.router.group_size,
            "router_bits": self.router.bits,
            **self.gate_up.form,
        }

    def fused(self, x: Array) -> Array:
        """Take a few rows with two to four kernels."""
        down = self.down
        inner, chosen, shares = self.routed(x)
        residual = x if down.ranks is None else None
        answers = kernels.moe_down(inner, chosen, shares, *down.codes, **down.form, residual=residual)
        return answers if down.ranks is None else down.added(answers, x)

    def routed(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the gated products of the experts that rows choose, the experts, and their shares."""
        mixture, router, up = self.mixture, self.router, self.gate_up
        if router.is_fusable:
            return routed_gate_up(x, *router.codes, *up.codes, **self.routes)
        eps, norm, shared = self.config.rms_norm_eps, self.norm, mixture.shared > 0
        routes = router.project(x, norm=norm, eps=eps)
        chosen, shares = kernels.moe_route(routes, mixture.chosen, normalize=mixture.is_normalized, shared=shared)
        return kernels.moe_gate_up(x, chosen, *up.codes, **up.form, norm=norm, eps=eps), chosen, shares
