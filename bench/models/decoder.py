"""Decoder: one text in the making, a token a step.

What a step depends on (token, position, the prompt's length, temperature, seed) lives on the device and is moved on
by the step itself, so that every step of a text launches the same executable graph with nothing written to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hiprt import Array, Stream, kernels, use_stream, zeros
from hiprt.bench.models.model import LayerState, Model
from hiprt.graphs import Step

__all__ = ["Decoder", "State", "bucket"]

BUCKET = 256


def bucket(length: int) -> int:
    """Return the capacity for a text of some length: the next multiple of 256, so that few graphs are made."""
    return -(-max(length, 1) // BUCKET) * BUCKET


@dataclass(frozen=True)
class State:
    """What a text keeps on the device.

    Attributes
    ----------
    layers : list of LayerState
    block : Array of int32, shape (4,)
        The step block: token, position, length of the prompt, capacity.
    tokens : Array of int32, shape (capacity,)
        The prompt, then what was drawn.
    temperature : Array of float32, shape (1,)
    seed : Array of uint32, shape (1,)
    """

    layers: list[LayerState]
    block: Array
    tokens: Array
    temperature: Array
    seed: Array

    @classmethod
    def empty(cls, model: Model, capacity: int) -> State:
        """Allocate on the current stream."""
        layers = model.state(1, capacity)
        return cls(layers, zeros(4, np.int32), zeros(capacity, np.int32), zeros(1, np.float32), zeros(1, np.uint32))


class Decoder:
    """The state of one text: key-value cache, tokens, step block, and the step that moves them on.

    Parameters
    ----------
    model : Model
    stream : Stream
        Where the steps run.
    capacity : int
        Tokens there is room for, prompt included.
    keep : bool
        False records each step again, as an engine does that issues every launch for each token.

    Attributes
    ----------
    logits : Array, shape (1, vocab_size)
        What the last step computed; the next one overwrites it.
    state : State
        What it keeps on the device.
    position : int
        Tokens taken so far.
    graph : Step
        The decode step.
    eager_steps : int
        How many steps ran without a graph because the caller asked for it.
    """

    logits: Array

    def __init__(self, model: Model, stream: Stream, capacity: int, *, keep: bool = True) -> None:
        self.model = model
        self.stream = stream
        self.capacity = capacity
        with use_stream(stream):
            self.state = State.empty(model, capacity)
        # Not a method of ours: a decoder in no cycle gives its memory back as soon as it is dropped.
        self.graph = Step(partial(advance, model, self.state), name="decode", stream=stream, keep=keep, overwrite=True)
        self.position = self.length = self.eager_steps = 0

    def start(self, prompt: Sequence[int], temperature: float = 0.0, seed: int = 0) -> None:
        """Begin a text.

        Parameters
        ----------
        prompt : sequence of int
            Its first tokens, at least one.
        temperature : float
            0 takes the likeliest token; higher values draw more evenly.
        seed : int
            Of the draws; each position has its own.

        Raises
        ------
        ValueError
            The prompt is empty, too long, or holds a token that the model lacks.
        """
        vocabulary = self.model.config.vocab_size
        if not prompt or not all(0 <= token < vocabulary for token in prompt):
            raise ValueError(f"the prompt needs tokens from 0 to {vocabulary - 1}, it is {list(prompt)}")
        if len(prompt) >= self.capacity:
            raise ValueError(f"a prompt of {len(prompt)} tokens is too long for a capacity of {self.capacity}")
        text = np.zeros(self.capacity, np.int32)
        text[: len(prompt)] = prompt
        self.state.tokens.set(text, self.stream)
        self.state.block.set(np.array([prompt[0], 0, len(prompt), self.capacity], np.int32), self.stream)
        self.state.temperature.set([temperature], self.stream)
        self.state.seed.set([seed], self.stream)
        with use_stream(self.stream):
            for layer in self.state.layers:
                layer.reset()
        self.position, self.length = 0, len(prompt)

    @property
    def is_in_prompt(self) -> bool:
        """Whether the next step takes a token of the prompt that is not its last."""
        return self.position + 1 < self.length

    def step(self) -> None:
        """Take the next token, as one graph launch."""
        self.check_room()
        self.logits = self.graph()
        self.position += 1

    def step_eager(self) -> None:
        """Take the next token, launching each kernel by itself."""
        self.check_room()
        self.logits = self.graph.eager()
        self.position += 1
        self.eager_steps += 1

    def check_room(self) -> None:
        """Refuse to step before `start` and behind the end of the cache."""
        if not self.length:
            raise ValueError("the decoder has no prompt: call start first")
        if self.position + 1 >= self.capacity:
            raise ValueError(f"the text has reached the decoder's capacity of {self.capacity} tokens")

    def token(self) -> int:
        """Return the token that follows those taken so far: the prompt's, else the one the last step drew."""
        return int(self.state.tokens[self.position : self.position + 1].numpy(self.stream)[0])


def advance(model: Model, state: State) -> Array:
    """Launch one step, from the token in the step block to the next one; returns the logits."""
    token, position = state.block[0:1], state.block[1:2]
    logits = model.decode(token, position, state.layers)
    drawn = kernels.sample(logits, state.temperature, state.seed, position)
    kernels.advance(state.block, state.tokens, drawn)
    return logits
