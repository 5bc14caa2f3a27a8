"""Prompts of texts side by side, and the chunks in which steps take them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHUNK",
    "Chunk",
    "Prompts",
    "Tokens",
    "check_prompt",
    "check_tokens",
    "chunks",
    "is_single",
    "prompts_of",
    "tokens_of",
]

CHUNK = 512  # the most tokens of a prompt that one step takes
FEW = 16  # tokens that a step takes in hardly more time than one
Tokens = Sequence[int] | NDArray[np.integer[Any]]
Prompts = Tokens | Sequence[Tokens]


class Chunk(NamedTuple):
    """Tokens of a prompt that one step takes.

    Attributes
    ----------
    size : int
        How many, a power of two, so that all prompts share few graphs.
    repeated : int
        How many of them the step before has taken too.
    """

    size: int
    repeated: int = 0


def chunks(length: int, most: int = CHUNK, *, may_repeat: bool = False, step_tokens: int = 0) -> list[Chunk]:
    """Return a prompt's chunks.

    A step reads all weights, so that one of few tokens takes hardly less than one of some more: what is left of a
    prompt is one chunk with some tokens of the one before, where that saves two steps, or one by at most half again as
    many tokens. With `step_tokens` it is one where each step that is saved costs at most so many tokens.

    Parameters
    ----------
    length : int
        The tokens of the prompt.
    most : int
        The size of the largest chunk, a power of two.
    may_repeat : bool
        Whether a step may take tokens that were taken: it writes their keys and values once more, and what recurrent
        layers keep has no place for that.
    step_tokens : int
        That of the device's tuning table.
    """
    found, rest = [Chunk(most)] * (length // most), length % most
    while rest:
        whole, part = 1 << (rest - 1).bit_length(), 1 << (rest.bit_length() - 1)
        repeated = whole - rest
        saved = rest.bit_count() - 1
        worth = step_tokens * saved if step_tokens else rest // 2 + (FEW if saved > 1 else 0)
        if may_repeat and repeated <= min(length - rest, worth):
            return [*found, Chunk(whole, repeated)]
        found.append(Chunk(part))
        rest -= part
    return found


def is_single(prompt: Prompts) -> bool:
    """Whether a prompt is one that all texts have, and no sequence of them."""
    return not len(prompt) or not isinstance(prompt[0], Sequence | np.ndarray)


def tokens_of(prompt: Tokens) -> list[int]:
    """Return the tokens of a prompt; raise TypeError where one is no integer."""
    return [index(token) for token in prompt]


def prompts_of(prompt: Prompts, batch: int) -> list[list[int]]:
    """Return the prompt of each text, of one that all have or of a sequence of them."""
    if is_single(prompt):
        return [tokens_of(cast("Tokens", prompt))] * batch
    if len(prompt) != batch:
        raise ValueError(f"{len(prompt)} prompts for {batch} texts")
    return [tokens_of(each) for each in cast("Sequence[Tokens]", prompt)]


def check_tokens(prompt: Sequence[int], vocabulary: int) -> None:
    """Raise ValueError where a prompt has no token, or one that a model lacks."""
    wrong = next((token for token in prompt if not 0 <= token < vocabulary), "none")
    if not prompt or wrong != "none":
        raise ValueError(f"the prompt needs tokens from 0 to {vocabulary - 1}, it has {wrong}")


def check_prompt(prompt: Sequence[int], vocabulary: int, limit: int) -> None:
    """Raise ValueError where a text of so many tokens at most cannot begin with a prompt."""
    check_tokens(prompt, vocabulary)
    if len(prompt) >= limit:
        raise ValueError(f"a prompt of {len(prompt)} tokens is too long for a capacity of {limit}")
