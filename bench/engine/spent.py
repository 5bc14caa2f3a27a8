"""The time that groups of texts took, for prompts and for the tokens behind them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Spent"]


@dataclass
class Spent:
    """What groups of texts took.

    Attributes
    ----------
    first : float or None
        Seconds to the first token of the first group; None before it.
    prompts, texts : float
        Seconds to the first tokens, and from those to the last ones.
    prompt_tokens : int
    tokens : float
        The generated tokens that the seconds of `texts` are for.
    """

    first: float | None = None
    prompts: float = 0.0
    texts: float = 0.0
    prompt_tokens: int = 0
    tokens: float = 0.0

    def add(self, times: list[float], tokens: int, prompt_tokens: int) -> None:
        """Add a group of texts with so many tokens, and the seconds from the start of its prompts to each step."""
        if not times:
            return
        self.first = times[0] if self.first is None else self.first
        self.prompts += times[0]
        self.prompt_tokens += prompt_tokens
        # A text of one token has no later one: its time is that of the prompt.
        self.texts += times[-1] - times[0] if len(times) > 1 else times[0]
        self.tokens += tokens * max(len(times) - 1, 1) / len(times)
