"""Transformer: a model of any family, put together as its config says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

import numpy as np

from hiprt import Array, kernels
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.models.alone import alone
from hiprt.bench.engine.models.attention import Attention
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.gated_delta import GatedDelta
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.mlp import Mlp
from hiprt.bench.engine.models.model import KeyValue, LayerState, QuantizedKeyValue
from hiprt.bench.engine.models.moe import Moe
from hiprt.bench.engine.models.weights import Part, Weights
from hiprt.distributed import Communicator
from hiprt.kernels.ops.quantized.product_argmax import product_argmax

__all__ = ["Layer", "Transformer"]


class Mixer(Protocol):
    """The part of a layer that mixes positions."""

    @property
    def output(self) -> Linear:
        """The matrix of its last product."""

    def state(
        self, batch: int, capacity: int, dtype: np.dtype[Any], kv_bits: int | None, blocks: Blocks | None
    ) -> LayerState:
        """Allocate what it keeps of `batch` sequences of up to `capacity` tokens, on the current stream."""

    def decode(self, x: Array, position: Array, state: LayerState, fused: bool) -> Array:
        """Take one row of each sequence; return what `output` multiplies."""

    def prefill(self, x: Array, position: Array, state: LayerState, sequence: int) -> Array:
        """Take the rows of one sequence."""


class Feed(Protocol):
    """The part of a layer that treats each row by itself."""

    def __call__(self, x: Array, fused: bool = False) -> Array:
        """Take rows of the residual stream; `fused` asks for kernels that do several ops, for a few rows."""

    def decode(self, mixed: Array, output: Linear, x: Array, fused: bool) -> Array:
        """Take `x` plus the product of what a mixer has mixed."""

    def ready(self, output: Linear, /) -> Feed:
        """Return it with what it makes of its weights and of a mixer's last matrix, once these are on the device."""

    def rows_alike(self, dtype: np.dtype[Any], fused: bool, /) -> int:
        """Return how many rows a call takes on a GPU, each with the bits that it has by itself."""

    def prefill(self, x: Array) -> Array:
        """Take any number of rows."""


MIXERS: dict[str, type[Attention] | type[GatedDelta]] = {"attention": Attention, "delta": GatedDelta}
FEEDS: dict[str, type[Mlp] | type[Moe]] = {"mlp": Mlp, "moe": Moe}


@dataclass(frozen=True)
class Layer:
    """One layer; both of its parts take the residual stream and return it."""

    mixer: Mixer
    feed: Feed

    def decode(self, x: Array, position: Array, state: LayerState, fused: bool) -> Array:
        """Take one row of each sequence."""
        return self.feed.decode(self.mixer.decode(x, position, state, fused), self.mixer.output, x, fused)

    def verify(self, x: Array, position: Array, state: LayerState, fused: bool) -> Array:
        """Take consecutive rows of the only sequence, each with the bits that `decode` gives it."""
        assert isinstance(self.mixer, Attention)
        assert isinstance(state, KeyValue | QuantizedKeyValue)
        mixed, output = self.mixer.verify(x, position, state, fused), self.mixer.output

        def feed(mixed: Array, x: Array) -> Array:
            return self.feed.decode(mixed, output, x, fused)

        most = min(output.rows_alike(x.dtype, fused=fused), self.feed.rows_alike(x.dtype, fused))
        return alone(feed, mixed, x, most=most)

    def prefill(self, x: Array, position: Array, state: LayerState, sequence: int) -> Array:
        """Take the rows of one sequence."""
        return self.feed.prefill(self.mixer.prefill(x, position, state, sequence))


@dataclass(frozen=True)
class Transformer:
    """A model on the device, as `Model` describes it.

    Attributes
    ----------
    config : Config
    identity : str
        A digest of the config and the weights.
    dtype : numpy.dtype
        The dtype of scales, norms, states and logits.
    fused : bool
        Whether decoding uses kernels that do several ops at once.
    embedding : Linear
    layers : tuple of Layer
    norm : Array
    head : Linear
        The matrix that turns the last state into logits; the embedding itself where the two are tied.
    ranks : Communicator, optional
        The ranks that have other parts of the model, as `hiprt.bench.engine.models.shard` says.
    """

    config: Config
    identity: str
    dtype: np.dtype[Any]
    fused: bool
    embedding: Linear
    layers: tuple[Layer, ...]
    norm: Array
    head: Linear
    ranks: Communicator | None = None

    @classmethod
    def build(cls, config: Config, weights: Weights, fused: bool) -> Transformer:
        """Make a model of its weights.

        Raises
        ------
        CheckpointError
            A tensor is missing, or has another shape or dtype than config.json says.
        """
        vocab, hidden = config.vocab_size, config.hidden_size
        embedding = weights.matrix([Part("embed_tokens", vocab)], hidden)
        parts = [
            (
                MIXERS[mixer].build(config, weights, f"layers.{index}"),
                FEEDS[feed].build(config, weights, f"layers.{index}"),
            )
            for index, (mixer, feed) in enumerate(config.layers)
        ]
        ranks, head = weights.shard.communicator, embedding
        if not config.tie_word_embeddings:
            head = weights.matrix([Part("lm_head", vocab)], hidden)
        norm = weights.norm("norm", hidden)
        weights.wait()
        layers = [Layer(mixer, feed.ready(mixer.output)) for mixer, feed in parts]
        if config.tie_word_embeddings and ranks is not None:
            head = embedding.cut(ranks.part(vocab), slice(0, hidden))
        identity = sha256(f"{config} {weights.dtype} {weights.identity}".encode()).hexdigest()
        return cls(config, identity, weights.dtype, fused, embedding, tuple(layers), norm, head, ranks)

    def check(self) -> None:
        """Raise if a rank is gone that has a part of the model; what was computed since is no result then.

        Raises
        ------
        RankError
        """
        if self.ranks is not None:
            self.ranks.check()

    def state(
        self, batch: int, capacity: int, kv_bits: int | None = None, blocks: Blocks | None = None
    ) -> list[LayerState]:
        """Allocate what the layers keep of `batch` sequences of up to `capacity` tokens; see `Model.state`."""
        return [layer.mixer.state(batch, capacity, self.dtype, kv_bits, blocks) for layer in self.layers]

    def decode(self, tokens: Array, position: Array, state: list[LayerState], likeliest: Array | None = None) -> Array:
        """Take one token of each sequence; see `Model.decode`."""
        x = self.embedding.rows(tokens, self.dtype)
        for layer, kept in zip(self.layers, state):
            x = layer.decode(x, position, kept, self.fused)
        return self.logits(x, self.fused, likeliest)

    def verify(self, tokens: Array, position: Array, state: list[LayerState]) -> Array:
        """Take a few consecutive tokens of the only sequence; see `Model.verify`."""
        x = self.embedding.rows(tokens, self.dtype)
        for layer, kept in zip(self.layers, state):
            x = layer.verify(x, position, kept, self.fused)
        return alone(partial(self.logits, fused=self.fused), x, most=self.head.rows_alike(x.dtype, fused=self.fused))

    def prefill(self, tokens: Array, position: Array, state: list[LayerState], sequence: int) -> Array:
        """Take consecutive tokens of one sequence; see `Model.prefill`."""
        return self.logits(self.rows(tokens, position, state, sequence)[-1:], self.fused)

    def rows(self, tokens: Array, position: Array, state: list[LayerState], sequence: int) -> Array:
        """Take consecutive tokens of one sequence, as `prefill`; return the row of the residual stream behind each."""
        x = self.embedding.rows(tokens, self.dtype)
        for layer, kept in zip(self.layers, state):
            x = layer.prefill(x, position, kept, sequence)
        return x

    def logits(self, x: Array, fused: bool, likeliest: Array | None = None) -> Array:
        """Return the logits of a few rows of the residual stream; `likeliest` receives where each row is largest."""
        head, eps = self.head, self.config.rms_norm_eps
        if likeliest is not None and self.ranks is None and fused and head.is_fusable:
            made, _ = product_argmax(x, *head.codes, **head.form, norm=self.norm, eps=eps, places=likeliest)
            return made
        made = head.project(x, norm=self.norm, eps=eps, fused=fused)
        if self.ranks is not None:
            made = self.ranks.all_gather(made, self.config.vocab_size)
        if likeliest is not None:
            kernels.argmax(made, out=likeliest)
        return made
