"""Prompts of texts side by side, and the chunks in which steps take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

__all__ = ["CHUNK", "check_prompt", "chunks", "prompts_of"]

CHUNK = 512  # the most tokens of a prompt that one step takes


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


def prompts_of(prompt: Sequence[int] | Sequence[Sequence[int]], batch: int) -> list[Sequence[int]]:
    """Return the prompt of each text, of one that all have or of a sequence of them."""
    if not prompt or not isinstance(prompt[0], Sequence):
        return [cast("Sequence[int]", prompt)] * batch
    if len(prompt) != batch:
        raise ValueError(f"{len(prompt)} prompts for {batch} texts")
    return list(cast("Sequence[Sequence[int]]", prompt))


def check_prompt(prompt: Sequence[int], vocabulary: int, limit: int) -> None:
    """Raise ValueError where a text of so many tokens at most cannot begin with a prompt."""
    wrong = next((token for token in prompt if not 0 <= token < vocabulary), "none")
    if not prompt or wrong != "none":
        raise ValueError(f"the prompt needs tokens from 0 to {vocabulary - 1}, it has {wrong}")
    if len(prompt) >= limit:
        raise ValueError(f"a prompt of {len(prompt)} tokens is too long for a capacity of {limit}")
