"""Prompts of texts side by side, and the chunks in which steps take them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHUNK",
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
Tokens = Sequence[int] | NDArray[np.integer[Any]]
Prompts = Tokens | Sequence[Tokens]


def chunks(length: int, most: int = CHUNK) -> list[int]:
    """Return the sizes of a prompt's chunks: powers of two, so that all prompts share few graphs.

    Parameters
    ----------
    length : int
        The tokens of the prompt.
    most : int
        The size of the largest chunk, a power of two.
    """
    sizes = [most] * (length // most)
    rest = length % most
    return sizes + [1 << bit for bit in reversed(range(rest.bit_length())) if rest >> bit & 1]


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
