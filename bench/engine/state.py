"""What the texts of a decoder keep on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hiprt import Array, Stream, current_stream, kernels, zeros
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.logprobs import Logprobs
from hiprt.bench.engine.models.model import LayerState, Model, PagedKeyValue, Recurrent
from hiprt.bench.engine.sampling import Sampler, Sampling
from hiprt.kernels.ops.elementwise.copies import copy_into

__all__ = ["State", "grow_layers"]

IDLE = -(2**31)  # the position of no text: it stays there, and nothing is written for it


@dataclass
class State:
    """What texts keep on the device.

    Attributes
    ----------
    layers : list of LayerState
    block : Array of int32, shape (4, batch)
        The step block. Its rows: the token, the position, the length of the prompt, the capacity.
    tokens : Array of int32, shape (batch, capacity)
        The prompts, and behind them what was drawn.
    sampler : Sampler
    chunk : Array of int32, shape (2, tokens)
        A chunk of a prompt: its tokens, and their positions.
    logits : Array, shape (batch, vocab_size)
        The logits from which the first token behind each prompt is drawn.
    logprobs : Logprobs or None
        How likely the tokens were, where that is asked for.
    kv_bits : int or None
        The bits of the elements of keys and values, where these are not in the dtype of the model.
    blocks : Blocks or None
        Those that have the keys and values, where the texts share a pool.
    """

    layers: list[LayerState]
    block: Array
    tokens: Array
    sampler: Sampler
    chunk: Array
    logits: Array
    logprobs: Logprobs | None = None
    kv_bits: int | None = None
    blocks: Blocks | None = None

    @classmethod
    def empty(
        cls,
        model: Model,
        batch: int,
        capacity: int,
        chunk: int,
        sampling: Sampling,
        logprobs: int | None = None,
        kv_bits: int | None = None,
        blocks: Blocks | None = None,
    ) -> State:
        """Allocate the state of some texts on the current stream.

        Parameters
        ----------
        model : Model
        batch : int
            How many texts there are.
        capacity : int
            The tokens of a text for which there is memory.
        chunk : int
            The most tokens of a prompt that one step takes.
        sampling : Sampling
            How tokens are drawn.
        logprobs : int, optional
            How many of the likeliest tokens of each place are told, with the log probability of its own.
        kv_bits, blocks : optional
            As in `Model.state`.
        """
        width = model.config.vocab_size
        return cls(
            model.state(batch, capacity, kv_bits, blocks),
            zeros((4, batch), np.int32),
            zeros((batch, capacity), np.int32),
            Sampler(sampling, batch, width, model.dtype),
            zeros((2, chunk), np.int32),
            zeros((batch, width), model.dtype),
            None if logprobs is None else Logprobs(logprobs, batch, capacity),
            kv_bits,
            blocks,
        )

    def try_out(self, model: Model) -> None:
        """Run a step of a model op by op, before the first text begins."""
        model.decode(self.block[0], self.block[1], self.layers)
        for layer in self.layers:
            layer.reset()

    def start(self, prompts: Sequence[Sequence[int]], temperature: float, seed: int, kept: int = 0) -> None:
        """Begin the texts, on the current stream; `Decoder.start` explains the parameters."""
        texts = np.zeros(self.tokens.shape, np.int32)
        for text, prompt in zip(texts, prompts):
            text[: len(prompt)] = prompt
        batch, capacity = texts.shape
        lengths = [len(prompt) for prompt in prompts]
        self.tokens.set(texts)
        self.block.set(np.array([texts[:, kept].tolist(), [kept] * batch, lengths, [capacity] * batch]))
        self.sampler.set(temperature, seed)
        if not kept:
            for layer in self.layers:
                layer.reset()

    def begin(self, sequence: int, prompt: Sequence[int]) -> None:
        """Put another text in the place of one, on the current stream, and leave it idle; see `Decoder.begin`."""
        text = np.zeros(self.tokens.shape[1], np.int32)
        text[: len(prompt)] = prompt
        self.tokens[sequence].set(text)
        self.stop(sequence)
        for layer in self.layers:
            layer.reset(sequence)

    def stop(self, sequence: int) -> None:
        """Leave a text idle, on the current stream."""
        self.block[1, sequence : sequence + 1].set([IDLE])

    def go_on(self, sequence: int, prompt: Sequence[int]) -> None:
        """Let the next step take the last token of a text's prompt, on the current stream."""
        values = prompt[-1], len(prompt) - 1, len(prompt), self.tokens.shape[1]
        for row, value in zip(range(4), values):
            self.block[row, sequence : sequence + 1].set([value])

    @property
    def is_rewindable(self) -> bool:
        """Whether every layer keeps its positions apart, so that a text can go back to any of them."""
        return not any(isinstance(layer, Recurrent) for layer in self.layers)

    @property
    def kv_bytes(self) -> int:
        """The bytes of memory for keys and values."""
        return sum(layer.nbytes for layer in self.layers if not isinstance(layer, Recurrent))

    def copy_recurrent(self) -> list[Recurrent]:
        """Return copies of what the recurrent layers keep, made on the current stream."""
        recurrent = [layer for layer in self.layers if isinstance(layer, Recurrent)]
        return [Recurrent(kernels.copy(layer.conv), kernels.copy(layer.delta)) for layer in recurrent]

    def restore(self, saved: Sequence[Recurrent]) -> None:
        """Put copies of the recurrent layers back, on the current stream."""
        recurrent = (layer for layer in self.layers if isinstance(layer, Recurrent))
        for layer, source in zip(recurrent, saved, strict=True):
            copy_into(layer.conv, source.conv, current_stream())
            copy_into(layer.delta, source.delta, current_stream())

    def kept(self, positions: int, recurrent: Sequence[Recurrent] | None = None) -> dict[str, Array]:
        """Return, by name, what all layers keep of so many first positions of each text, but for what is in blocks.

        Parameters
        ----------
        positions : int
        recurrent : sequence of Recurrent, optional
            What stands for that of the recurrent layers.
        """
        copies = iter(recurrent or ())
        layers = (next(copies, layer) if isinstance(layer, Recurrent) else layer for layer in self.layers)
        return {
            f"layers.{index}.{name}": part
            for index, layer in enumerate(layers)
            if not isinstance(layer, PagedKeyValue)
            for name, part in layer.parts(positions).items()
        }

    def give(self, tokens: Sequence[int], position: int, stream: Stream) -> None:
        """Write the next chunk of a prompt, which begins at this position of its text."""
        size = len(tokens)
        self.chunk[0, :size].set(tokens, stream)
        self.chunk[1, :size].set(np.arange(position, position + size), stream)

    def stand_at(self, positions: Sequence[int], stream: Stream) -> None:
        """Set the position of each text."""
        self.block[1].set(positions, stream)

    def grow(self, model: Model, old: int, capacity: int) -> None:
        """Move what depends on the capacity to larger arrays, on the current stream.

        Where memory runs out, what has been moved keeps its contents, and all of it can be moved again.
        """
        batch = len(self.tokens)
        tokens = zeros((batch, capacity), np.int32)
        copy_into(tokens[:, :old], self.tokens[:, :old], current_stream())
        self.tokens = tokens
        if self.logprobs is not None:
            self.logprobs.grow(capacity)
        grow_layers(model, self.layers, batch, old, capacity, self.kv_bits)


def grow_layers(
    model: Model, layers: list[LayerState], batch: int, old: int, capacity: int, kv_bits: int | None
) -> None:
    """Put larger arrays with the first `old` positions in the place of those that grow with a text, in a list."""
    for index, (layer, larger) in enumerate(zip(layers, model.state(batch, capacity, kv_bits))):
        if not isinstance(layer, Recurrent | PagedKeyValue):
            assert not isinstance(larger, PagedKeyValue)
            for source, target in zip(layer.parts(old).values(), larger.parts(old).values()):
                copy_into(target, source, current_stream())
            layers[index] = larger
