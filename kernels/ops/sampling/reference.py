"""From logits to the next token in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hiprt.kernels.ops.reduction.reference import argmax
from hiprt.kernels.reference.float64 import Floats, Host, double

__all__ = [
    "accept_draft",
    "advance",
    "draft_ngram",
    "filter_logits",
    "noise",
    "repetition_penalty",
    "sample",
]


def filter_logits(
    logits: Host, top_k: int | None = None, top_p: float | None = None, min_p: float | None = None
) -> NDArray[np.bool_]:
    """Return which logits every rule keeps."""
    values = double(logits).reshape(-1)
    shares = np.exp(values - values.max())
    falling = np.sort(values)[::-1]
    kept = np.ones(values.size, np.bool_)
    if top_k is not None and 0 < top_k < values.size:
        kept &= values >= falling[top_k - 1]
    if top_p is not None and top_p < 1:
        mass = np.cumsum(np.sort(shares)[::-1])
        reached = int(np.argmax(mass >= np.float32(top_p) * mass[-1]))
        kept &= values >= falling[reached]
    if min_p is not None and min_p > 0:
        kept &= shares >= np.float32(min_p)
    return kept.reshape(logits.shape)


def repetition_penalty(
    logits: Host, tokens: NDArray[np.int32], position: int, penalty: float, window: int = 20
) -> Floats:
    """Return logits in which tokens of the last positions are less likely."""
    result = double(logits).copy()
    end = min(position + 1, tokens.size)
    seen = tokens[max(end - window, 0) : max(end, 0)]
    seen = np.unique(seen[(seen >= 0) & (seen < result.size)])
    factor = np.float64(np.float32(penalty))
    flat = result.reshape(-1)
    flat[seen] = np.where(flat[seen] > 0, flat[seen] / factor, flat[seen] * factor)
    return flat.reshape(logits.shape)


def sample(logits: Host, temperature: float, seed: int, position: int) -> int:
    """Draw an index: Gumbel noise on ``logits / temperature``; the largest logit where temperature is not positive."""
    values = double(logits).reshape(-1)
    if temperature > 0:
        values = values / temperature - np.log(-np.log(noise(seed, position, values.size)))
    return int(argmax(values))


def noise(seed: int, position: int, size: int) -> Floats:
    """Return the uniform numbers of one draw, in (0, 1)."""
    first = scramble(np.array([seed], np.uint32) ^ np.uint32(0x9E3779B9))
    second = scramble(first ^ np.array([position], np.int64).astype(np.uint32))
    words = scramble(scramble(np.arange(size, dtype=np.uint32) + second) ^ first)
    return (double(words >> np.uint32(9)) + 0.5) * 2.0**-23


def scramble(h: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix the bits of each word, as in ``noise.h``."""
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x21F0AAAD)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x735A2D97)
    return h ^ (h >> np.uint32(15))


def advance(step: NDArray[np.int32], tokens: NDArray[np.int32], sampled: int) -> None:
    """Move the step block to the next position, in place."""
    position = int(step[1]) + 1
    if 0 <= position < len(tokens):
        if position >= step[2]:
            tokens[position] = sampled
        step[:2] = tokens[position], position


def draft_ngram(
    step: NDArray[np.int32], tokens: NDArray[np.int32], drafts: int, longest: int = 16
) -> NDArray[np.int32]:
    """Return the newest token and the tokens that followed the best place before, and the positions of all of them."""
    last = int(step[1])

    def agreement(end: int) -> int:
        most = min(end + 1, longest)
        return next((n for n in range(most) if tokens[end - n] != tokens[last - n]), most)

    best = max(range(last), key=lambda end: (agreement(end), end), default=-1)
    text = tokens[: last + 1].tolist()
    for _ in range(drafts):
        text.append(text[best - last] if best >= 0 else text[-1])
    return np.array([text[last:], range(last, last + drafts + 1)], np.int32)


def accept_draft(
    step: NDArray[np.int32], tokens: NDArray[np.int32], draft: NDArray[np.int32], chosen: NDArray[np.int32]
) -> list[int]:
    """Put the tokens that are taken behind the text, in place, and move the step block there; return them."""
    right = np.cumprod(chosen[:-1] == draft[0, 1:]).sum()
    position = int(step[1])
    taken = chosen[: right + 1][: max(len(tokens) - 1 - position, 0)]
    if len(taken):
        tokens[position + 1 : position + 1 + len(taken)] = taken
        step[:2] = taken[-1], position + len(taken)
    return [int(token) for token in taken]
