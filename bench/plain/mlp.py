"""Mlp: a gated feed-forward part with a matrix for the gate, one for up and one for down."""

from __future__ import annotations

from dataclasses import dataclass

from hiprt import Array, kernels
from hiprt.bench.engine.models import mlp
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.plain.rows import rows_of

__all__ = ["Gated", "Mlp"]


@dataclass(frozen=True)
class Gated:
    """``down(silu(gate(x)) * up(x))``.

    Attributes
    ----------
    gate, up, down : Linear
    """

    gate: Linear
    up: Linear
    down: Linear

    @classmethod
    def of(cls, gate_up: Linear, down: Linear) -> Gated:
        """Take the halves of a matrix, or of each matrix of a stack."""
        rows = gate_up.weight.shape[-2]
        return cls(rows_of(gate_up, range(rows // 2)), rows_of(gate_up, range(rows // 2, rows)), down)

    def __call__(self, x: Array) -> Array:
        """Take rows that are normed."""
        up = self.up(x)
        return self.down(kernels.multiply(kernels.silu(self.gate(x)), up))

    def gather(self, x: Array, indices: Array) -> Array:
        """Take rows that are normed to the experts that each has chosen: shape (n, k, columns of the result)."""
        up = self.up.gather(x, indices)
        return self.down.gather(kernels.multiply(kernels.silu(self.gate.gather(x, indices)), up), indices)


@dataclass(frozen=True)
class Mlp:
    """The feed-forward part of a layer, with its norm and residual sum.

    Attributes
    ----------
    own : mlp.Mlp
        The engine's, for its norm.
    inner : Gated
    """

    own: mlp.Mlp
    inner: Gated

    @classmethod
    def of(cls, own: mlp.Mlp) -> Mlp:
        """Take the weights of the engine's."""
        return cls(own, Gated.of(own.gate_up, own.down))

    def __call__(self, x: Array) -> Array:
        """Take rows of the residual stream."""
        return kernels.add(x, self.inner(kernels.rms_norm(x, self.own.norm, self.own.config.rms_norm_eps)))
