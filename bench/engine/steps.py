"""Steps: what a decoder launches for a token of every text and for a chunk of a prompt, recorded as graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from hiprt import Array, Stream, kernels, use_stream
from hiprt.bench.engine.draft import Draft
from hiprt.bench.engine.models.model import Model
from hiprt.bench.engine.speculation import Speculation, speculate
from hiprt.bench.engine.state import State
from hiprt.graphs import Step
from hiprt.kernels.tuning.target import target_of

__all__ = ["Steps"]


class Steps:
    """The steps of a decoder, whose kernels are chosen by timing before they are recorded, where that is wanted.

    Parameters
    ----------
    model : Model
    state : State
    speculation : Speculation or None
        What guesses tokens in each step.
    stream : Stream
        The stream on which the steps run.
    keep : bool
        Whether steps are kept; see `Decoder`.
    seconds : float
        How long `kernels.timed_choices` may take, on a device without a measured table.

    Attributes
    ----------
    decode : Step
        Takes the next token of every text.
    fill : Step
        Takes a chunk of a prompt: of the text with this number, of this size.
    draw : Step
        Draws the first token behind each prompt.
    """

    def __init__(
        self, model: Model, state: State, speculation: Speculation | None, stream: Stream, keep: bool, seconds: float
    ) -> None:
        choices = target_of(stream).choices
        # Ranks take what is kept alone: each timing for itself might choose other bits of what all of them compute.
        self.chooses = choices is not None and choices.are_wanted and model.ranks is None
        self.seconds, self.tried = seconds, set[int]()
        if self.chooses:
            with use_stream(stream), self.choosing():
                state.try_out(model)
        # The steps hold functions, not methods: a decoder in no cycle gives its memory back as soon as it is dropped.
        made: Callable[..., Step[..., Any]] = partial(Step, stream=stream, keep=keep, overwrite=True)
        if speculation is None:
            self.decode = made(partial(advance, model, state), name="decode")
        else:
            self.decode = made(partial(advance_several, model, state, speculation), name="speculate")
        draft = None if speculation is None else speculation.draft
        self.fill = made(partial(fill, model, state, draft), name="prefill")
        self.fill.ladder.many = 0  # a graph for each text and size of a chunk is what is wanted
        self.draw = made(partial(draw, state), name="draw")

    def take_chunk(self, sequence: int, size: int, *, eager: bool) -> Array:
        """Take a chunk of a text's prompt, and return the logits of its last token."""
        if self.chooses and size not in self.tried:
            return self.choose_chunk(sequence, size)
        logits: Array = (self.fill.eager if eager else self.fill)(sequence, size)
        return logits

    def choose_chunk(self, sequence: int, size: int) -> Array:
        """Take the first chunk of a size op by op, so that its kernels are chosen before a step is recorded of them."""
        self.tried.add(size)
        with self.choosing():
            logits: Array = self.fill.eager(sequence, size)
        return logits

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Let kernels be chosen by timing in the block, for what is left of the seconds."""
        start = time.monotonic()
        with kernels.timed_choices(self.seconds):
            yield
        self.seconds = max(0.0, self.seconds - (time.monotonic() - start))

    def forget(self) -> None:
        """Record all steps anew when they are called next: arrays have moved."""
        for step in (self.decode, self.fill, self.draw):
            step.forget()


def advance(model: Model, state: State) -> Array:
    """Launch one step: take the tokens in the step block, write the next ones there; return the logits."""
    tokens, position = state.block[0], state.block[1]
    if state.blocks is not None:
        state.blocks.locate(position)
    logits = model.decode(tokens, position, state.layers)
    follow(state, logits)
    return logits


def advance_several(model: Model, state: State, speculation: Speculation) -> Array:
    """Launch one step that guesses, of a single text; return its logits."""
    return speculate(model, state.layers, state.block[:, 0], state.tokens[0], speculation)


def fill(model: Model, state: State, draft: Draft | None, sequence: int, size: int) -> Array:
    """Launch one chunk of a prompt; return the logits of its last token, which are kept for the first draw."""
    tokens, position = state.chunk[0, :size], state.chunk[1, :size]
    if state.blocks is not None:
        state.blocks.locate(position, sequence)
    logits = model.prefill(tokens, position, state.layers, sequence)
    kernels.contiguous(logits, out=state.logits[sequence : sequence + 1])
    if draft is not None:
        draft.prefill(tokens, position)
    return logits


def draw(state: State) -> None:
    """Launch the first draw of every text."""
    follow(state, state.logits)


def follow(state: State, logits: Array) -> None:
    """Launch the draw of the tokens that follow, and move the step block to them."""
    kernels.advance(state.block, state.tokens, state.sampler.draw(logits, state.tokens, state.block[1]))
    if state.logprobs is not None:
        state.logprobs.record(logits, state.block)
