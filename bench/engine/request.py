"""A request: what ``hiprt generate`` is asked to write."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hiprt.bench.story import CHECKPOINT

__all__ = ["PROMPT", "Request"]

PROMPT = "Once upon a time there was a clever fox named Mia."
MOST_TEXTS = 8


@dataclass(frozen=True)
class Request:
    """What `hiprt.bench.engine.generate.generate` is asked to write.

    Attributes
    ----------
    model : Path or str
        The model directory.
    prompt : str or tuple of str
        What the text begins with; a tuple has the beginning of each of several texts.
    tokens : int
        The most tokens that are generated for each text.
    temperature : float
        How evenly tokens are drawn; 0 takes the likeliest token.
    seed : int
        The seed of the draws, from 0 to 2**32 - 1; text i of several has ``seed + i``.
    eager : bool
        Whether every kernel is launched by itself.
    verify : bool
        Whether every step also runs eagerly, and the logits are compared bit by bit.
    rerecord : bool
        Whether every step is recorded again, as in an engine that issues each launch for each token.
    batch : int
        How many texts are written side by side from one prompt. With several prompts it is 0 or their number.
    plain : bool
        Whether weights that are not quantised stay as they are.

    Raises
    ------
    ValueError
        A value is out of range, or two of them exclude each other.
    """

    model: Path | str = CHECKPOINT
    prompt: str | tuple[str, ...] = PROMPT
    tokens: int = 200
    temperature: float = 0.0
    seed: int = 0
    eager: bool = False
    verify: bool = False
    rerecord: bool = False
    batch: int = 0
    plain: bool = False

    @property
    def prompts(self) -> list[str]:
        """The prompt of each text."""
        given = [self.prompt] if isinstance(self.prompt, str) else list(self.prompt)
        return given * (self.batch or 1) if len(given) == 1 else given

    def __post_init__(self) -> None:
        for prompt in self.prompts:
            try:
                prompt.encode()
            except UnicodeEncodeError as error:
                raise ValueError(f"prompt: character {error.start + 1} is no valid UTF-8") from None
        if self.tokens < 1:
            raise ValueError(f"tokens={self.tokens}: must be at least 1")
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature}: must be 0 or more")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed}: must be from 0 to 2**32 - 1")
        if not 1 <= len(self.prompts) <= MOST_TEXTS:
            raise ValueError(f"{len(self.prompts)} texts: from 1 to {MOST_TEXTS} are written side by side")
        if self.batch and self.batch != len(self.prompts):
            raise ValueError(f"batch={self.batch} with {len(self.prompts)} prompts: give one, or one for each text")
        if self.eager and self.verify:
            raise ValueError("verify compares graph steps with eager ones: do not ask for eager as well")
        if self.eager and self.rerecord:
            raise ValueError("rerecord is a way to use graphs: do not ask for eager as well")
