"""Plain: a model's decode step in plain ops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hiprt import Array
from hiprt.bench.engine.models import attention, gated_delta, mlp, moe
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.model import LayerState
from hiprt.bench.engine.models.transformer import Transformer
from hiprt.bench.plain.attention import Attention
from hiprt.bench.plain.gated_delta import GatedDelta
from hiprt.bench.plain.mlp import Mlp
from hiprt.bench.plain.moe import Moe

__all__ = ["Plain"]

PARTS: dict[type, Any] = {
    attention.Attention: Attention,
    gated_delta.GatedDelta: GatedDelta,
    mlp.Mlp: Mlp,
    moe.Moe: Moe,
}


@dataclass(frozen=True)
class Plain:
    """A model of the engine, whose decode step is written in plain ops.

    Attributes
    ----------
    own : Transformer
        The engine's model. Its matrices of several projections are copied apart, so that it takes memory as well.
    layers : tuple
        What mixes positions, and what treats rows by themselves, of each layer.
    """

    own: Transformer
    layers: tuple[tuple[Any, Any], ...]

    @classmethod
    def of(cls, own: Transformer) -> Plain:
        """Take the weights of the engine's model."""
        pairs = [(layer.mixer, layer.feed) for layer in own.layers]
        return cls(own, tuple((PARTS[type(mixer)].of(mixer), PARTS[type(feed)].of(feed)) for mixer, feed in pairs))

    @property
    def config(self) -> Config:
        """The sizes and constants."""
        return self.own.config

    def state(self, batch: int, capacity: int, kv_bits: int | None = None) -> list[LayerState]:
        """Allocate what the layers keep of `batch` sequences of up to `capacity` tokens.

        Raises
        ------
        ValueError
            `kv_bits` is given: plain ops take keys and values in the dtype of the model.
        """
        if kv_bits is not None:
            raise ValueError(f"kv_bits={kv_bits}: plain ops take keys and values in the dtype of the model")
        return self.own.state(batch, capacity)

    def decode(self, tokens: Array, position: Array, state: list[LayerState], likeliest: Array | None = None) -> Array:
        """Take one token of each sequence; see `Model.decode`."""
        x = self.own.embedding.rows(tokens, self.own.dtype)
        for (mixer, feed), kept in zip(self.layers, state):
            x = feed(mixer.decode(x, position, kept))
        return self.own.logits(x, False, likeliest)

    def prefill(self, tokens: Array, position: Array, state: list[LayerState], sequence: int) -> Array:
        """Take consecutive tokens of one sequence, one after the other; see `Model.prefill`."""
        one = slice(sequence, sequence + 1)
        mine: list[LayerState] = [
            replace(each, **{name: part[one] for name, part in vars(each).items()}) for each in state
        ]
        for place in range(len(tokens)):
            logits = self.decode(tokens[place : place + 1], position[place : place + 1], mine)
        return logits
