"""A request: what ``hiprt generate`` is asked to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiprt.bench.engine.blocks import check_blocks
from hiprt.bench.engine.logprobs import MOST
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.speculation import check_drafts
from hiprt.bench.story import CHECKPOINT
from hiprt.kernels.ops.quantized.formats import MODES, Format, format_of

__all__ = ["DRAW", "PROMPT", "Prompt", "Request", "check_kv_bits"]

PROMPT = "Once upon a time there was a clever fox named Mia."
Prompt = str | tuple[int, ...]
DRAW = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "seed")


@dataclass(frozen=True)
class Request:
    """What `hiprt.bench.engine.generation.generate` is asked to write.

    Attributes
    ----------
    model : Path or str
        The model directory.
    prompt : str or tuple of str, optional
        What the text begins with; a tuple has the beginning of each of several texts. By default it is `PROMPT`, where
        there are no `prompt_ids`.
    prompt_ids : tuple of (tuple of int)
        Beginnings of texts as tokens, which follow those of `prompt`.
    tokens : int
        The most tokens that are generated for each text.
    temperature, top_p, min_p, repetition_penalty, presence_penalty : float, optional
    top_k, seed : int, optional
        How tokens are drawn, as `Sampling` says. What is not given is the model's own, where its directory has
        generation_config.json, else takes the likeliest token.
    stops : tuple of str
        Texts that end the text before them.
    eager : bool
        Whether every kernel is launched by itself.
    verify : bool
        Whether every step also runs eagerly, and the logits are compared bit by bit.
    rerecord : bool
        Whether every step is recorded again, as in an engine that issues each launch for each token.
    batch : int
        How many texts are written from one prompt. With several prompts it is 0 or their number.
    plain : bool
        Whether weights that are not quantised stay as they are.
    q_mode : str
        The mode in which they are quantised otherwise, with its default group size and bits.
    chat_template : bool
        Whether a prompt is a question in the checkpoint's chat template, where it has one.
    system_prompt : str
        What the chat template is told before the prompt; empty for nothing.
    template_values : mapping of str to object
        What else the chat template reads, as ``enable_thinking``.
    logprobs : int, optional
        How many of the likeliest tokens are told for each place, with the log probability of the token that was drawn;
        by default none of it is.
    load_cache : Path or str, optional
        A prompt cache, from which the texts begin as far as their prompts agree with it. Without a prompt its text is
        the prompt.
    save_cache : Path or str, optional
        Where the prompt's cache is written to, once the prompt has been taken.
    kv_bits : int, optional
        8 for keys and values in 8 bits, of which each group of 64 has a scale; by default they are in the dtype of the
        model.
    kv_blocks : int, optional
        The tokens of a block of keys and values: a power of two from 16 to 4,096. Texts written side by side share a
        pool of such blocks, of which each takes what its own length needs; by default each has memory for the longest.
    speculate : int, optional
        How many tokens each step guesses from the text so far and checks, 1 to 7; the text is that which single steps
        write. By default none.
    draft : Path or str, optional
        The directory of a smaller model with the same tokenizer, which guesses these tokens; weights of it that are not
        quantised become codes of 4 bits.
    tp : int
        Over how many ranks, each a process with a device, the model is split.

    Raises
    ------
    ValueError
        A value is out of range, or two of them exclude each other.
    """

    model: Path | str = CHECKPOINT
    prompt: str | tuple[str, ...] | None = None
    prompt_ids: tuple[tuple[int, ...], ...] = ()
    tokens: int = 200
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stops: tuple[str, ...] = ()
    eager: bool = False
    verify: bool = False
    rerecord: bool = False
    batch: int = 0
    plain: bool = False
    q_mode: str = "affine"
    chat_template: bool = True
    system_prompt: str = ""
    template_values: Mapping[str, Any] = field(default_factory=dict)
    logprobs: int | None = None
    load_cache: Path | str | None = None
    save_cache: Path | str | None = None
    kv_bits: int | None = None
    kv_blocks: int | None = None
    speculate: int | None = None
    draft: Path | str | None = None
    tp: int = 1

    @property
    def form(self) -> Format | None:
        """The format to which weights are quantised that are not; None leaves them plain."""
        return None if self.plain else format_of("load", None, None, self.q_mode)

    def sampling(self, defaults: Mapping[str, Any]) -> Sampling:
        """Return how tokens are drawn.

        Parameters
        ----------
        defaults : mapping of str to object
            What holds where the request says nothing.

        Raises
        ------
        ValueError
            A value is out of range.
        """
        given = {name: value for name in DRAW if (value := getattr(self, name)) is not None}
        try:
            return Sampling(**{**defaults, **given})
        except ValueError as error:
            # What is given has been checked without defaults.
            raise ValueError(f"generation_config.json: {error}: give another one" if defaults else str(error)) from None

    @property
    def prompts(self) -> list[Prompt]:
        """The prompt of each text: a text, or tokens."""
        first = () if self.prompt_ids else (PROMPT,)
        texts = first if self.prompt is None else (self.prompt,) if isinstance(self.prompt, str) else self.prompt
        given: list[Prompt] = [*texts, *self.prompt_ids]
        return given * (self.batch or 1) if len(given) == 1 else given

    def __post_init__(self) -> None:
        given = [prompt for prompt in self.prompts if isinstance(prompt, str)]
        for name, texts in (("prompt", given), ("system_prompt", [self.system_prompt])):
            for text in texts:
                try:
                    text.encode()
                except UnicodeEncodeError as error:
                    raise ValueError(f"{name}: character {error.start + 1} is no valid UTF-8") from None
        if self.system_prompt and not self.chat_template:
            raise ValueError("a system prompt is part of the chat template: do not leave the template out")
        if not all(self.prompt_ids):
            raise ValueError("prompt_ids: a prompt needs a token at least")
        if self.logprobs is not None and not 0 <= self.logprobs <= MOST:
            raise ValueError(f"logprobs={self.logprobs}: must be from 0 to {MOST}")
        if self.tokens < 1:
            raise ValueError(f"tokens={self.tokens}: must be at least 1")
        self.sampling({})
        if self.tp < 1:
            raise ValueError(f"tp={self.tp}: must be at least 1")
        if self.tp > 1 and (self.load_cache is not None or self.save_cache is not None):
            raise ValueError(f"a prompt cache is of a whole model: it does not go with tp={self.tp}")
        check_kv_bits(self.kv_bits)
        if self.kv_blocks is not None:
            check_blocks(self.kv_blocks)
            others = "kv_bits", "speculate", "load_cache", "save_cache"
            given = [name for name in others if getattr(self, name) is not None]
            if given:
                raise ValueError(f"kv_blocks={self.kv_blocks}: it does not go with {given[0]}, leave that out")
        if self.draft is not None and (self.speculate is None or self.load_cache is not None):
            cause = "say by speculate how many tokens it guesses" if self.speculate is None else "leave load_cache out"
            raise ValueError(f"draft={self.draft}: {cause}")
        if self.speculate is not None:
            check_drafts(self.speculate)
            if self.tp > 1:
                raise ValueError(f"speculate={self.speculate}: guesses are not checked over ranks, tp={self.tp}")
            if self.logprobs is not None:
                raise ValueError(f"speculate={self.speculate}: it tells no likely tokens, leave logprobs out")
        if self.save_cache is not None and len(self.prompts) > 1:
            raise ValueError(f"a prompt cache is of one text: save_cache with {len(self.prompts)} of them")
        if self.save_cache is not None and not Path(self.save_cache).absolute().parent.is_dir():
            raise ValueError(f"save_cache={self.save_cache}: there is no such folder")
        if self.save_cache is not None and Path(self.save_cache).exists() and not Path(self.save_cache).is_file():
            raise ValueError(f"save_cache={self.save_cache}: it is no file, give the name of one")
        if not all(self.stops):
            raise ValueError("stop: an empty text would end every text")
        if self.batch < 0 or not self.prompts:
            raise ValueError(f"batch={self.batch} of {len(self.prompts)} prompts: at least one text must be asked for")
        if self.batch and self.batch != len(self.prompts):
            raise ValueError(f"batch={self.batch} with {len(self.prompts)} prompts: give one, or one for each text")
        if self.q_mode not in MODES:
            raise ValueError(f"q_mode={self.q_mode}: must be one of {', '.join(MODES)}")
        if self.eager and self.verify:
            raise ValueError("verify compares graph steps with eager ones: do not ask for eager as well")
        if self.eager and self.rerecord:
            raise ValueError("rerecord is a way to use graphs: do not ask for eager as well")


def check_kv_bits(kv_bits: int | None) -> None:
    """Raise ValueError where keys and values cannot be kept in so many bits, whatever the model."""
    if kv_bits is not None and kv_bits != 8:
        raise ValueError(f"kv_bits={kv_bits}: must be 8, or left out for the dtype of the model")
