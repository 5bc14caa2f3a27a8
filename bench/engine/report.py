"""A report: what ``hiprt generate`` has written, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Choice", "Report"]

# What the interfaces of servers call the ends of a text.
FINISH_REASONS = {"eos": "stop", "stop": "stop string"}


@dataclass
class Choice:
    """One text.

    Attributes
    ----------
    index : int
    prompt : str
    prompt_tokens : int
    text : str
        The text without its prompt.
    token_ids : list of int
        The generated tokens, the one that ended the text included.
    finish_reason : str
        Why the text ended: ``stop`` by a stop token, ``stop string`` before a text that was to end it, ``length``,
        ``positions`` where the model was trained for no more, ``interrupted`` or ``mismatch``.
    logprobs : list of dict or None
        For each token ``id``, ``token`` (its text), ``logprob`` (the natural logarithm of its probability), and
        ``top_logprobs`` with the same of the likeliest tokens at its place; None where that was not asked for.
    """

    index: int
    prompt: str
    prompt_tokens: int
    text: str
    token_ids: list[int]
    finish_reason: str
    logprobs: list[dict[str, Any]] | None = None

    def __post_init__(self) -> None:
        self.finish_reason = FINISH_REASONS.get(self.finish_reason, self.finish_reason)


@dataclass
class Report:
    """What was written, and what it cost.

    Attributes
    ----------
    text : str
        The text without its prompt; the first one of several.
    choices : list of Choice
        Every text.
    tokens : int
        How many tokens were generated in all texts, those that ended a text included.
    token_ids : list of int
        The generated tokens of the first text.
    tok_s : float
        Generated tokens a second, from the first to the last; time spent on verification is left out.
    prefill_tok_s : float
        Tokens of the prompts a second, up to the first generated one.
    first_token_ms : float
        From the start of the prompt to the first generated token.
    nodes_per_token, edges : int
        The size of the decode step's graph; 0 without one.
    launches_per_token : float
        Kernels and graphs handed to HIP for each step behind the prompt.
    rungs : dict
        How often each rung was taken, for the prompt as well.
    only_replay_after : int
        The number of the last step that was not a replay.
    reasons : dict
        How often each reason for another rung than replay was given.
    changed_nodes_per_token : float
        How many nodes had other arguments than those in the nearest executable graph, on average over the tokens
        after the first 4.
    planned_bytes, lower_bound_bytes : int
        The bytes that the decode graph's intermediates take, and the most of them that are live at once; 0 where no
        graph is kept.
    peak_bytes : int
        The most device memory that was in use at a time.
    graph_peak_bytes : int
        The bytes of the model, its state and the intermediates of the decode step's graph.
    eager_peak_bytes : int or None
        The same bytes where a step runs eagerly; None if nothing was verified.
    verified : bool or None
        Whether graph and eager steps gave the same bits; None if nothing was verified.
    mismatch : str
        The first difference between them; empty without one.
    stop : str
        Why the text ended: ``eos`` by a stop token, ``stop`` before a text that was to end it, ``length``,
        ``positions`` where the model was trained for no more, ``interrupted`` or ``mismatch``.
    cached_tokens : int or None
        How many tokens of the prompts came from a prompt cache; None without one.
    kv_bits : int or None
        The bits of the elements of keys and values; None where they are in the dtype of the model.
    kv_blocks : int or None
        The tokens of a block of keys and values; None where each text had memory for the longest.
    kv_bytes : int
        The bytes of keys and values for which there was memory when the texts began.
    speculate : int or None
        How many tokens each step guessed; None where none.
    draft : str or None
        The directory of the model that guessed; None where the text itself did, or nothing was guessed.
    acceptance : float or None
        The part of the guesses that was right, from 0 to 1; None without guesses.
    tokens_per_step : float or None
        How many tokens a step took, right guesses and the token behind them; None without guesses.
    sampling : dict
        The rules of the draws, where they differ from taking the likeliest token.
    tp : int
        Over how many ranks the model was split; bytes are those of this one.
    """

    prompt: str
    prompt_tokens: int
    model: str
    provider: str
    device: str
    temperature: float
    seed: int
    text: str = ""
    tokens: int = 0
    choices: list[Choice] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    tok_s: float = 0.0
    prefill_tok_s: float = 0.0
    first_token_ms: float = 0.0
    nodes_per_token: int = 0
    edges: int = 0
    launches_per_token: float = 0.0
    rungs: dict[str, int] = field(default_factory=dict)
    only_replay_after: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    changed_nodes_per_token: float = 0.0
    planned_bytes: int = 0
    lower_bound_bytes: int = 0
    peak_bytes: int = 0
    graph_peak_bytes: int = 0
    eager_peak_bytes: int | None = None
    verified: bool | None = None
    mismatch: str = ""
    stop: str = "length"
    cached_tokens: int | None = None
    kv_bits: int | None = None
    kv_blocks: int | None = None
    kv_bytes: int = 0
    speculate: int | None = None
    draft: str | None = None
    acceptance: float | None = None
    tokens_per_step: float | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    tp: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        values = asdict(self)
        whole = int(self.launches_per_token)
        return {**values, "launches_per_token": whole if whole == self.launches_per_token else self.launches_per_token}
