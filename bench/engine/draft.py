"""Draft: a smaller model of the same vocabulary that guesses the next tokens of a text, on the device."""

from __future__ import annotations

import numpy as np

from hiprt import Array, array, empty, kernels
from hiprt.bench.engine.models.config import Config
from hiprt.bench.engine.models.model import Model
from hiprt.bench.engine.state import grow_layers

__all__ = ["Draft", "check_draft"]


class Draft:
    """A model that guesses, and what its layers keep of the text.

    Parameters
    ----------
    model : Model
    drafts : int
        How many tokens each step guesses.
    capacity : int
        The tokens of the text for which there is memory.
    kv_bits : int, optional
        As in `Model.state`.
    """

    def __init__(self, model: Model, drafts: int, capacity: int, kv_bits: int | None) -> None:
        self.model, self.drafts, self.kv_bits = model, drafts, kv_bits
        self.layers = model.state(1, capacity, kv_bits)
        self.places = array(np.arange(drafts + 1, dtype=np.int32))

    def prefill(self, tokens: Array, position: Array) -> None:
        """Launch a chunk of a prompt."""
        self.model.prefill(tokens, position, self.layers, 0)

    def guess(self, block: Array) -> Array:
        """Launch the guesses behind the token of a step block; return what `draft_ngram` returns."""
        draft = empty((2, self.drafts + 1), np.int32)
        kernels.contiguous(block[:1], out=draft[0, :1])
        kernels.add(block[1:2], self.places, out=draft[1])
        # The last guess is taken too: where all are right, the next step goes on behind it.
        for place in range(self.drafts + 1):
            one = slice(place, place + 1)
            following = draft[0, place + 1 : place + 2] if place < self.drafts else None
            self.model.decode(draft[0, one], draft[1, one], self.layers, following)
        return draft

    def grow(self, old: int, capacity: int) -> None:
        """Move the caches to larger arrays, on the current stream."""
        grow_layers(self.model, self.layers, 1, old, capacity, self.kv_bits)


def check_draft(config: Config, draft: Config) -> None:
    """Raise ValueError where the model of the second config cannot guess for that of the first."""
    if draft.vocab_size != config.vocab_size:
        sizes = f"{draft.vocab_size} tokens, the model {config.vocab_size}"
        raise ValueError(f"draft: it knows {sizes}: take one with the same tokenizer")
    if any(mixer != "attention" for mixer, _ in draft.layers):
        raise ValueError("draft: it has recurrent layers, whose state cannot go back behind a wrong guess")
