"""Decoder: texts in the making, a token of each a step.

What a step depends on (token, position, the prompt's length, temperature, seed) lives on the device and is moved on
by the step itself, so that every step of a text launches the same executable graph with nothing written to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

from hiprt import Array, Event, Stream, kernels, use_stream
from hiprt.bench.engine.models.model import Model
from hiprt.bench.engine.state import State
from hiprt.graphs import Step

__all__ = ["CHUNK", "Decoder", "Mark", "bucket", "chunks"]

BUCKET = 256
CHUNK = 512  # most tokens of a prompt that are taken together


def bucket(length: int) -> int:
    """Return the capacity for a text of some length: the next multiple of 256, so that few graphs are made."""
    return -(-max(length, 1) // BUCKET) * BUCKET


def chunks(length: int, most: int = CHUNK) -> list[int]:
    """Return the sizes in which a prompt is taken: powers of two, so that all prompts share few graphs."""
    sizes = [most] * (length // most)
    rest = length % most
    return sizes + [1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1]


class Mark(NamedTuple):
    """A point behind a step: the event, and the tokens each text had then."""

    event: Event
    lengths: tuple[int, ...]


@dataclass
class Room:
    """How many tokens there may be.

    Attributes
    ----------
    capacity : int
        That memory is there for.
    limit : int
        That it may grow to.
    """

    capacity: int
    limit: int


class Decoder:
    """The state of a few texts: caches, tokens, step block, and the steps that move them on.

    Parameters
    ----------
    model : Model
    stream : Stream
        Where the steps run.
    capacity : int
        Tokens of a text there is room for, prompt included.
    keep : bool
        False records each step again, as an engine does that issues every launch for each token.
    batch : int
        Texts that are written side by side.
    limit : int, optional
        Capacity up to which the caches grow, to twice their size a time; they do not by default.
    chunk : int
        Most tokens of a prompt that are taken together: a power of two.

    Attributes
    ----------
    logits : Array, shape (batch, vocab_size)
        What the last step computed, or the last chunk, for its text alone; the next one overwrites it.
    state : State
        What it keeps on the device.
    positions : list of int
        Tokens taken of each text.
    graph : Step
        The decode step.
    filling : Step
        The steps that take chunks of prompts.
    eager_steps : int
        How many steps ran without a graph because the caller asked for it.
    """

    logits: Array

    def __init__(
        self,
        model: Model,
        stream: Stream,
        capacity: int,
        *,
        keep: bool = True,
        batch: int = 1,
        limit: int | None = None,
        chunk: int = CHUNK,
    ) -> None:
        if chunk < 1 or chunk & (chunk - 1):
            raise ValueError(f"chunk={chunk}: must be a power of two")
        self.model, self.stream, self.chunk = model, stream, chunk
        self.room = Room(capacity, max(capacity, limit or capacity))
        with use_stream(stream):
            self.state = state = State.empty(model, batch, capacity, chunk)
        # Not methods of ours: a decoder in no cycle gives its memory back as soon as it is dropped.
        made = partial(Step, stream=stream, keep=keep, overwrite=True)
        self.graph = made(partial(advance, model, state), name="decode")
        self.filling = made(partial(fill, model, state), name="prefill")
        self.drawing = made(partial(draw, state), name="draw")
        self.positions = self.lengths = [0] * batch
        self.prompts: list[Sequence[int]] = []
        self.events: list[Event] = []
        self.eager_steps = 0

    @property
    def capacity(self) -> int:
        """Tokens of a text there is memory for."""
        return self.room.capacity

    @property
    def batch(self) -> int:
        """Texts that are written side by side."""
        return len(self.positions)

    @property
    def position(self) -> int:
        """Tokens taken of the longest text."""
        return max(self.positions)

    def start(self, prompt: Sequence[int] | Sequence[Sequence[int]], temperature: float = 0.0, seed: int = 0) -> None:
        """Begin the texts.

        Parameters
        ----------
        prompt : sequence of int, or a sequence of them
            The first tokens, at least one: the same for all texts, or those of each.
        temperature : float
            0 takes the likeliest token; higher values draw more evenly.
        seed : int
            Of the first text's draws, the next number of the next text's; each position has its own.

        Raises
        ------
        ValueError
            A prompt is empty, too long, or holds a token that the model lacks, or there is not one for each text.
        """
        prompts = prompts_of(prompt, self.batch)
        vocabulary = self.model.config.vocab_size
        for each in prompts:
            if not each or not all(0 <= token < vocabulary for token in each):
                raise ValueError(f"the prompt needs tokens from 0 to {vocabulary - 1}, it is {list(each)}")
        longest = max(map(len, prompts))
        if longest >= self.room.limit:
            raise ValueError(f"a prompt of {longest} tokens is too long for a capacity of {self.room.limit}")
        if longest >= self.capacity:
            self.grow(longest + 1)
        with use_stream(self.stream):
            self.state.start(prompts, temperature, seed)
        self.prompts, self.positions, self.lengths = prompts, [0] * self.batch, [*map(len, prompts)]

    @property
    def is_in_prompt(self) -> bool:
        """Whether the next step takes a token of a prompt that is not its last."""
        return any(position + 1 < length for position, length in zip(self.positions, self.lengths))

    def prefill(self, *, eager: bool = False) -> Iterator[int]:
        """Take the prompts in chunks, and draw the first token behind each.

        Parameters
        ----------
        eager : bool
            Launch each kernel by itself.

        Yields
        ------
        int
            Tokens taken so far of all prompts, behind each chunk. A decoder that was not taken to the end must start
            again.
        """
        fill, draw = (step.eager if eager else step for step in (self.filling, self.drawing))
        taken = 0
        for sequence, prompt in enumerate(self.prompts):
            for size in chunks(len(prompt), self.chunk):
                at = self.positions[sequence]
                self.state.give(prompt[at : at + size], at, self.stream)
                self.logits = fill(sequence, size)
                self.positions[sequence] += size
                self.eager_steps += eager
                taken += size
                if taken == sum(self.lengths):
                    self.state.stand_at([length - 1 for length in self.lengths], self.stream)
                    draw()
                yield taken

    def step(self) -> None:
        """Take the next token of each text, as one graph launch."""
        self.make_room()
        self.logits = self.graph()
        self.positions = [position + 1 for position in self.positions]

    def step_eager(self) -> None:
        """Take the next token of each text, launching each kernel by itself."""
        self.make_room()
        self.logits = self.graph.eager()
        self.positions = [position + 1 for position in self.positions]
        self.eager_steps += 1

    def make_room(self) -> None:
        """Refuse to step before `start` and behind the limit; grow before the end of the caches."""
        if not self.prompts:
            raise ValueError("the decoder has no prompt: call start first")
        needed = self.position + 2
        if needed > self.room.limit:
            raise ValueError(f"the text has reached the decoder's capacity of {self.room.limit} tokens")
        if needed > self.capacity:
            self.grow(needed)

    def grow(self, needed: int) -> None:
        """Move to caches of at least twice the size; the next step is recorded, and changes the graph there is."""
        self.room.capacity = min(self.room.limit, bucket(max(needed, 2 * self.capacity)))
        with use_stream(self.stream):
            self.state.grow(self.model, self.capacity)
        for step in (self.graph, self.filling, self.drawing):
            step.forget()

    def token(self, sequence: int = 0) -> int:
        """Return the token that follows those taken so far: the prompt's, else the one the last step drew."""
        return self.read_token(sequence, self.positions[sequence], self.stream)

    def read_token(self, sequence: int, position: int, stream: Stream) -> int:
        """Return one token."""
        return int(self.state.tokens[sequence, position : position + 1].numpy(stream)[0])

    def mark(self) -> Mark:
        """Return the point behind the last step, from which `read` reads while later ones run; two are kept."""
        while len(self.events) < 2:
            self.events.append(Event(timing=False))
        event = self.events.pop(0)
        self.events.append(event)
        event.record(self.stream)
        return Mark(event, tuple(self.positions))

    def read(self, mark: Mark, stream: Stream) -> list[int]:
        """Return the token that each text had drawn at a mark, waiting for no later step.

        Parameters
        ----------
        mark : Mark
        stream : Stream
            To read on, another one than the steps'.
        """
        mark.event.wait(stream)
        return [self.read_token(i, at, stream) for i, at in enumerate(mark.lengths)]


def prompts_of(prompt: Sequence[int] | Sequence[Sequence[int]], batch: int) -> list[Sequence[int]]:
    """Return the prompt of each text."""
    if not prompt or not isinstance(prompt[0], Sequence):
        return [cast("Sequence[int]", prompt)] * batch
    if len(prompt) != batch:
        raise ValueError(f"{len(prompt)} prompts for {batch} texts")
    return list(cast("Sequence[Sequence[int]]", prompt))


def advance(model: Model, state: State) -> Array:
    """Launch one step, from the tokens in the step block to the next ones; returns the logits."""
    tokens, position = state.block[0], state.block[1]
    logits = model.decode(tokens, position, state.layers)
    kernels.advance(state.block, state.tokens, kernels.sample(logits, state.temperature, state.seed, position))
    return logits


def fill(model: Model, state: State, sequence: int, size: int) -> Array:
    """Launch one chunk of a prompt; returns the logits of its last token, and keeps them for the first draw."""
    tokens, position = state.chunk[0, :size], state.chunk[1, :size]
    logits = model.prefill(tokens, position, state.layers, sequence)
    kernels.contiguous(logits, out=state.logits[sequence : sequence + 1])
    return logits


def draw(state: State) -> None:
    """Launch the first draw of every text."""
    drawn = kernels.sample(state.logits, state.temperature, state.seed, state.block[1])
    kernels.advance(state.block, state.tokens, drawn)
