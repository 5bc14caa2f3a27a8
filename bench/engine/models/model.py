"""Model: what a decoder asks of a model of any family, and the state that layers keep of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hiprt import Array, kernels
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.models.config import Config
from hiprt.distributed import Communicator

__all__ = ["KeyValue", "LayerState", "Model", "PagedKeyValue", "QuantizedKeyValue", "Recurrent"]


@dataclass(frozen=True)
class KeyValue:
    """What a layer of attention keeps of each sequence.

    Attributes
    ----------
    keys, values : Array, shape (sequences, key heads, capacity, head_dim)
        Only positions up to the current one are read.
    """

    keys: Array
    values: Array

    @property
    def nbytes(self) -> int:
        """The bytes of its memory."""
        return self.keys.nbytes + self.values.nbytes

    def reset(self, sequence: int | None = None) -> None:
        """Begin a text, in one sequence or in all: nothing has to be cleared."""

    def sequence(self, index: int) -> KeyValue:
        """Return what is kept of one sequence: arrays without the first axis."""
        return KeyValue(self.keys[index], self.values[index])

    def parts(self, positions: int) -> dict[str, Array]:
        """Return, by name, what is kept of so many first positions of each sequence."""
        return {"keys": self.keys[:, :, :positions], "values": self.values[:, :, :positions]}


@dataclass(frozen=True)
class QuantizedKeyValue:
    """What a layer of attention keeps of each sequence in 8 bits.

    Attributes
    ----------
    keys, values : Array of int8, shape (sequences, key heads, capacity, head_dim)
        Codes. Only positions up to the current one are read.
    key_scales, value_scales : Array of float32, shape (sequences, key heads, capacity, head_dim / 64)
        What the codes of each group of 64 are multiplied with.
    """

    keys: Array
    values: Array
    key_scales: Array
    value_scales: Array

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """Everything, in the order in which ops take it."""
        return self.keys, self.values, self.key_scales, self.value_scales

    @property
    def nbytes(self) -> int:
        """The bytes of its memory."""
        return sum(part.nbytes for part in self.arrays)

    def reset(self, sequence: int | None = None) -> None:
        """Begin a text, in one sequence or in all: nothing has to be cleared."""

    def sequence(self, index: int) -> QuantizedKeyValue:
        """Return what is kept of one sequence: arrays without the first axis."""
        return QuantizedKeyValue(*(part[index] for part in self.arrays))

    def parts(self, positions: int) -> dict[str, Array]:
        """Return, by name, what is kept of so many first positions of each sequence."""
        names = "keys", "values", "key_scales", "value_scales"
        return {name: part[:, :, :positions] for name, part in zip(names, self.arrays)}


@dataclass(frozen=True)
class PagedKeyValue:
    """What a layer of attention keeps of sequences that share a pool of blocks.

    Attributes
    ----------
    keys, values : Array, shape (key heads, blocks, block rows, head_dim)
        The pool.
    table : Array of int32, shape (sequences, blocks of a sequence) or (blocks of a sequence,)
        Of all sequences, or of one; `Blocks` says what is in it.
    slots : Array of int32, shape (rows,)
        Where in the pool the rows of a step go; `Blocks` says when they are found.
    """

    keys: Array
    values: Array
    table: Array
    slots: Array

    @property
    def nbytes(self) -> int:
        """The bytes of the pool."""
        return self.keys.nbytes + self.values.nbytes

    def reset(self, sequence: int | None = None) -> None:
        """Begin a text, in one sequence or in all: nothing has to be cleared."""

    def sequence(self, index: int) -> PagedKeyValue:
        """Return what is kept of one sequence."""
        return PagedKeyValue(self.keys, self.values, self.table[index], self.slots)

    @property
    def rows(self) -> tuple[Array, Array]:
        """The keys and values of the pool without blocks, each of shape (key heads, rows, head_dim)."""
        heads, _, _, width = self.keys.shape
        return self.keys.reshape(heads, -1, width), self.values.reshape(heads, -1, width)

    def gather(self) -> tuple[Array, Array]:
        """Return copies of the keys and values of one sequence in the order of its tokens, made on the current stream.

        Their shape is (key heads, rows of a sequence, head_dim). What lies behind its last block is of any other.
        """
        heads, _, _, width = self.keys.shape
        keys, values = (kernels.take(pool, self.table, axis=1) for pool in (self.keys, self.values))
        return keys.reshape(heads, -1, width), values.reshape(heads, -1, width)


@dataclass(frozen=True)
class Recurrent:
    """What a gated-delta layer keeps of each sequence.

    Attributes
    ----------
    conv : Array, shape (sequences, taps - 1, channels)
        The last inputs of the convolution.
    delta : Array of float32, shape (sequences, value heads, value width, key width)
    """

    conv: Array
    delta: Array

    def reset(self, sequence: int | None = None) -> None:
        """Begin a text, in one sequence or in all: clear what the text before has left."""
        for part in (self.conv, self.delta):
            (part if sequence is None else part[sequence]).fill_bytes(0)

    def parts(self, positions: int) -> dict[str, Array]:
        """Return, by name, what is kept of each sequence, whatever the positions."""
        return {"conv": self.conv, "delta": self.delta}


LayerState = KeyValue | QuantizedKeyValue | PagedKeyValue | Recurrent


class Model(Protocol):
    """A model on the device."""

    @property
    def config(self) -> Config:
        """The sizes and constants."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of activations, caches and logits."""

    @property
    def identity(self) -> str:
        """What tells files that are made with the model from those of another: a digest of its config and weights."""

    @property
    def fused(self) -> bool:
        """Whether decoding uses kernels that do several ops at once; results differ by rounding only."""

    @property
    def ranks(self) -> Communicator | None:
        """The ranks that have other parts of the model."""

    def check(self) -> None:
        """Raise if what was computed is no result, because a rank is gone that has a part of the model."""

    def state(
        self, batch: int, capacity: int, kv_bits: int | None = None, blocks: Blocks | None = None
    ) -> list[LayerState]:
        """Allocate, on the current stream, what the layers keep of `batch` sequences of up to `capacity` tokens.

        Parameters
        ----------
        batch, capacity : int
        kv_bits : int, optional
            8 for keys and values in 8 bits; by default they are in the dtype of the model.
        blocks : Blocks, optional
            Those in which keys and values are kept, in the dtype of the model; by default each sequence has memory for
            its whole capacity.

        Raises
        ------
        ValueError
            The heads of the model cannot be kept in so many bits.
        """

    def decode(self, tokens: Array, position: Array, state: list[LayerState], likeliest: Array | None = None) -> Array:
        """Take one token of each sequence.

        Parameters
        ----------
        tokens, position : Array of int32, shape (sequences,)
        state : list of LayerState
            Is updated in place.
        likeliest : Array of int32, shape (sequences,), optional
            Receives the place of the largest logit of each sequence, by the rules of `argmax`; it may be `tokens`.

        Returns
        -------
        Array, shape (sequences, vocab_size)
        """

    def verify(self, tokens: Array, position: Array, state: list[LayerState]) -> Array:
        """Take a few consecutive tokens of the only sequence.

        Parameters
        ----------
        tokens, position : Array of int32, shape (tokens,)
            At most 8.
        state : list of LayerState
            Is updated in place; no layer is recurrent.

        Returns
        -------
        Array, shape (tokens, vocab_size)
            The logits behind each token, with the bits that `decode` gives for one token after the other.
        """

    def prefill(self, tokens: Array, position: Array, state: list[LayerState], sequence: int) -> Array:
        """Take consecutive tokens of one sequence.

        Parameters
        ----------
        tokens, position : Array of int32, shape (tokens,)
        state : list of LayerState
            Is updated in place, for this sequence only.
        sequence : int
            The index of the sequence.

        Returns
        -------
        Array, shape (1, vocab_size)
            The logits behind the last token.
        """
