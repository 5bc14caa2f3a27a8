"""Moe: a mixture of experts whose router is a softmax, the places of its largest elements, and their shares."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hiprt import Array, kernels
from hiprt.bench.engine.models import moe
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.plain.mlp import Gated
from hiprt.bench.plain.rows import rows_of

__all__ = ["Moe"]


@dataclass(frozen=True)
class Moe:
    """The mixture of experts of a layer, with its norm and residual sum.

    Attributes
    ----------
    own : moe.Moe
        The engine's, for its norm and sizes.
    router : Linear
    experts : Gated
        Stacks with a matrix for each expert.
    shared : Gated, optional
        The expert that every token takes.
    opening : Linear, optional
        Its gate.
    """

    own: moe.Moe
    router: Linear
    experts: Gated
    shared: Gated | None
    opening: Linear | None

    @classmethod
    def of(cls, own: moe.Moe) -> Moe:
        """Take the weights of the engine's."""
        count = own.mixture.experts
        router = rows_of(own.router, range(count))
        experts = Gated.of(members(own.gate_up, count), members(own.down, count))
        if own.shared is None:
            return cls(own, router, experts, None, None)
        shared = Gated.of(*map(copied, own.shared))
        return cls(own, router, experts, shared, rows_of(own.router, range(count, count + 1)))

    def __call__(self, x: Array) -> Array:
        """Take rows of the residual stream."""
        mixture, n = self.own.mixture, x.shape[0]
        normed = kernels.rms_norm(x, self.own.norm, self.own.config.rms_norm_eps)
        gates = kernels.softmax(self.router(normed), axis=-1)
        k = mixture.chosen
        chosen = kernels.argpartition(gates, -k, axis=-1)[..., -k:]
        scores = kernels.take_along_axis(gates, chosen, axis=-1)
        if mixture.is_normalized:
            scores = kernels.divide(scores, kernels.sum(scores, axis=-1, keepdims=True))
        answers = self.experts.gather(normed.reshape(n, 1, -1), chosen)
        y = kernels.sum(kernels.multiply(answers, scores[..., None]), axis=-2)
        if self.shared is not None and self.opening is not None:
            y = kernels.add(y, kernels.multiply(kernels.sigmoid(self.opening(normed)), self.shared(normed)))
        return kernels.add(x, y)


def members(stack: Linear, count: int) -> Linear:
    """Return the first matrices of a stack; in memory of their own where there are more."""
    parts = (stack.weight, stack.scales, stack.biases)
    if len(stack.weight) == count:
        return stack
    first = [None if part is None else kernels.copy(part[:count]) for part in parts]
    assert first[0] is not None
    return replace(stack, weight=first[0], scales=first[1], biases=first[2])


def copied(matrix: Linear) -> Linear:
    """Return a matrix in memory of its own."""
    return rows_of(matrix, range(matrix.weight.shape[-2]))
