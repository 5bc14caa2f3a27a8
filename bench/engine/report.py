"""What ``hiprt generate`` has written, and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Report"]


@dataclass
class Report:
    """What was written, and what it cost.

    Attributes
    ----------
    text : str
        Without the prompt; the first one of several.
    texts : list of str
        All of them.
    tokens : int
        Generated, the ones that ended a text included, in all texts.
    token_ids : list of int
        Of the first text.
    tok_s : float
        Generated tokens a second, from the first to the last; verification is not counted.
    prefill_tok_s : float
        Tokens of the prompts a second, up to the first generated one.
    first_token_ms : float
        From the start of the prompt to the first generated token.
    nodes_per_token, edges : int
        Of the graph; 0 without one.
    launches_per_token : float
        Kernels and graphs handed to HIP for each step behind the prompt.
    rungs : dict
        How often each rung of the ladder was taken, prompt included.
    only_replay_after : int
        Steps until nothing but replay followed.
    reasons : dict
        Why other rungs than replay were taken, and how often.
    changed_nodes_per_token : float
        Nodes whose arguments differed from those in the nearest executable graph, a token, after the first 4.
    planned_bytes, lower_bound_bytes : int
        What the intermediates of the decode graph take, and the most of them that is live at once; 0 where no graph is
        kept.
    peak_bytes : int
        Most device memory that was in use, by everything.
    graph_peak_bytes : int
        The same for the model, its state and the intermediates of the decode step's graph.
    eager_peak_bytes : int or None
        For the model, its state and the intermediates of a step run eagerly; None if that was not verified.
    verified : bool or None
        Whether graph and eager gave the same bits; None if that was not asked.
    mismatch : str
        The first difference, when they did not.
    stop : str
        ``eos``, ``length``, ``interrupted`` or ``mismatch``.
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
    texts: list[str] = field(default_factory=list)
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

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        values = asdict(self)
        whole = int(self.launches_per_token)
        return {**values, "launches_per_token": whole if whole == self.launches_per_token else self.launches_per_token}
