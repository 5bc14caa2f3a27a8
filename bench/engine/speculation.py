"""Speculation: a step that guesses the next tokens of a text and checks all guesses at once.

The guesses are what followed the text's last tokens where these came before, or those of a smaller model. The model
takes the newest token and the guesses as rows of one step; a guess is right where it is the likeliest token behind the
row in front of it. Guess, check and what is taken stay on the device, so that each step is the same executable graph.
"""

from __future__ import annotations

import numpy as np

from hiprt import Array, Stream, kernels, zeros
from hiprt.bench.engine.draft import Draft
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.model import LayerState, Model
from hiprt.bench.engine.sampling import Sampling
from hiprt.event import Event

__all__ = ["MOST_DRAFTS", "Speculation", "check_drafts", "check_speculation", "speculate"]

MOST_DRAFTS = 7  # with the token in front of them they are rows of one product of few vectors
SLOTS = 2  # steps whose tokens are kept: one is read while the next one runs


class Speculation:
    """How many tokens a step guesses, and what the last steps took, on the device.

    Parameters
    ----------
    drafts : int
        How many tokens each step guesses, 1 to `MOST_DRAFTS`.
    draft : Draft, optional
        The model that guesses so many; by default the text itself does.

    Attributes
    ----------
    drafts, draft
    taken : Array of int32, shape (SLOTS, drafts + 2)
        For each of the last steps how many tokens it took, then these.
    steps : Array of int32, shape (1,)
        How many steps the text has had.
    """

    def __init__(self, drafts: int, draft: Draft | None = None) -> None:
        check_drafts(drafts)
        self.drafts, self.draft = drafts, draft
        self.taken, self.steps = zeros((SLOTS, drafts + 2), np.int32), zeros(1, np.int32)

    def start(self) -> None:
        """Begin a text, on the current stream."""
        self.steps.set([0])

    def read(self, step: int, after: Event, stream: Stream) -> list[int]:
        """Return the tokens that a step took, of which 1 is the first; `SLOTS` steps can be read."""
        count, *tokens = self.taken[(step - 1) % SLOTS].numpy(stream, after=after).tolist()
        return [int(token) for token in tokens[:count]]

    def guess(self, block: Array, tokens: Array) -> Array:
        """Launch the guesses; return what `draft_ngram` returns."""
        if self.draft is not None:
            return self.draft.guess(block)
        return kernels.draft_ngram(block, tokens, self.drafts)


def speculate(model: Model, layers: list[LayerState], block: Array, tokens: Array, speculation: Speculation) -> Array:
    """Launch one step of a text: guess, take the newest token and the guesses, keep what is right.

    Parameters
    ----------
    model : Model
    layers : list of LayerState
        What the layers keep of the text.
    block : Array of int32, shape (4,)
        The text's step block.
    tokens : Array of int32, shape (capacity,)
        The text.
    speculation : Speculation

    Returns
    -------
    Array, shape (drafts + 1, vocab_size)
        The logits behind the newest token and behind each guess.
    """
    draft = speculation.guess(block, tokens)
    logits = model.verify(draft[0], draft[1], layers)
    kernels.accept_draft(block, tokens, draft, kernels.argmax(logits), speculation.taken, speculation.steps)
    return logits


def check_drafts(drafts: int) -> None:
    """Raise ValueError where a step cannot guess so many tokens, whatever the model."""
    if not 1 <= drafts <= MOST_DRAFTS:
        raise ValueError(f"speculate={drafts}: must be from 1 to {MOST_DRAFTS}")


def check_speculation(config: Config, sampling: Sampling) -> None:
    """Raise ValueError where a model or its draws do not go with guesses."""
    if any(mixer != "attention" for mixer, _ in config.layers):
        cause = "the model has recurrent layers, whose state cannot go back behind a wrong guess"
        raise ValueError(f"speculate: {cause}")
    if not sampling.is_greedy:
        rules = ", ".join(f"{name}={value}" for name, value in sampling.changed.items())
        raise ValueError(f"speculate takes the likeliest token of all, it does not go with {rules}: set temperature=0")
