"""Generation: the loop from a prompt to text, with what it cost, for ``hiprt generate``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hiprt import Stream, allocator, flags, library, use_stream
from hiprt.bench.checkpoint import Checkpoint
from hiprt.bench.models import Decoder, Model, bucket, load

__all__ = ["CHECKPOINT", "PROMPT", "Report", "Request", "Text", "difference", "generate"]

CHECKPOINT = Path(__file__).parent / "story" / "checkpoint"
PROMPT = "Once upon a time there was a clever fox named Mia."
WARM_UP = 4  # tokens
CONTEXT = 8  # prompt tokens that decide how the first generated one is spelled
BROKEN = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True)
class Request:
    """What to write.

    Attributes
    ----------
    model : Path or str
        A model directory.
    prompt : str
    tokens : int
        Stop after so many.
    temperature : float
        0 takes the likeliest token.
    seed : int
        Of the draws.
    eager : bool
        Launch every kernel by itself.
    verify : bool
        Run every step eagerly as well, and compare the logits bit by bit.
    rerecord : bool
        Record every step again, as an engine does that issues each launch for each token.
    """

    model: Path | str = CHECKPOINT
    prompt: str = PROMPT
    tokens: int = 200
    temperature: float = 0.0
    seed: int = 0
    eager: bool = False
    verify: bool = False
    rerecord: bool = False

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"tokens={self.tokens}: must be at least 1")
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature={self.temperature}: must be 0 or more")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed}: must be from 0 to 2**32 - 1")
        if self.eager and self.verify:
            raise ValueError("verify compares graph steps with eager ones: do not ask for eager as well")
        if self.eager and self.rerecord:
            raise ValueError("rerecord is a way to use graphs: do not ask for eager as well")


@dataclass
class Report:
    """What was written, and what it cost.

    Attributes
    ----------
    text : str
        Without the prompt.
    tokens : int
        Generated, the one that ended the text included.
    tok_s : float
        Generated tokens a second, from the first to the last; verification is not counted.
    first_token_ms : float
        From the start of the prompt to the first generated token.
    nodes_per_token, edges : int
        Of the graph; 0 without one.
    launches_per_token : float
        Kernels and graphs handed to HIP for each token, those of the prompt included.
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
        The same for the model, its state and the graphs' intermediates.
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
    token_ids: list[int] = field(default_factory=list)
    tok_s: float = 0.0
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


class Text:
    """Tokens to text, piece by piece, where no piece ends inside a character.

    Parameters
    ----------
    tokenizer : Tokenizer
    prompt : sequence of int
        The tokens before; a tokenizer may spell the first token of a text differently.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int]) -> None:
        self.tokenizer = tokenizer
        self.ids = list(prompt[-CONTEXT:])
        self.start, self.shown = 0, len(self.ids)

    def pending(self) -> str:
        """Return the text of the tokens that have not been shown."""
        before = self.tokenizer.decode(self.ids[self.start : self.shown])
        return str(self.tokenizer.decode(self.ids[self.start :])[len(before) :])

    def push(self, token: int) -> str:
        """Add a token; return the text that is complete."""
        self.ids.append(token)
        piece = self.pending()
        # A character's first bytes decode to a replacement character until its last byte has come.
        if piece.endswith(BROKEN):
            return ""
        self.start, self.shown = self.shown, len(self.ids)
        return piece

    def flush(self) -> str:
        """Return what is left at the end, without an unfinished character."""
        piece = self.pending().rstrip(BROKEN)
        self.start = self.shown = len(self.ids)
        return piece


def generate(
    request: Request,
    write: Callable[[str], object] = lambda piece: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Report:
    """Write text after a prompt.

    Parameters
    ----------
    request : Request
    write : callable, optional
        Gets each piece of text as it comes.
    stopped : callable, optional
        Asked before each step; true ends the text.

    Raises
    ------
    CheckpointError
        The model directory cannot be used.
    ValueError
        Prompt and tokens exceed what the model was trained for, or there is no graph to verify.
    HipError
        A HIP call failed.
    """
    if request.verify and not flags.graph:
        raise ValueError("verify compares graph steps with eager ones: HIPRT_GRAPH=0 leaves none")
    checkpoint = Checkpoint(request.model)
    stream = Stream()
    with use_stream(stream):
        model = load(checkpoint)
    prompt = checkpoint.encode(request.prompt)
    length = len(prompt) + request.tokens
    limit = model.config.max_position_embeddings
    if length > limit:
        sizes = f"{len(prompt)} prompt tokens and {request.tokens} new ones"
        raise ValueError(f"{sizes} exceed the {limit} positions of the model: ask for fewer tokens")
    return Generation(request, model, prompt, stream).run(checkpoint, write, stopped)


class Generation:
    """One run of a model over a prompt: its decoder, the eager one beside it, and clocks."""

    def __init__(self, request: Request, model: Model, prompt: list[int], stream: Stream) -> None:
        self.request = request
        self.prompt = prompt
        self.stream = stream
        capacity = bucket(len(prompt) + request.tokens)
        self.decoder = Decoder(model, stream, capacity, keep=not request.rerecord)
        self.own_bytes = allocator.default_pool.stats().allocated
        self.changed = 0
        # Its own stream, so that its launches are not counted.
        self.shadow = Decoder(model, Stream(stream.device), capacity) if request.verify else None
        self.report = Report(
            request.prompt,
            len(prompt),
            str(request.model),
            library.current().provider,
            stream.device.name,
            request.temperature,
            request.seed,
            verified=True if request.verify else None,
        )

    def run(self, checkpoint: Checkpoint, write: Callable[[str], object], stopped: Callable[[], bool]) -> Report:
        """Generate until the text or its budget ends."""
        report, text = self.report, Text(checkpoint.tokenizer, self.prompt)
        for decoder in filter(None, (self.decoder, self.shadow)):
            decoder.start(self.prompt, self.request.temperature, self.request.seed)
        launches = self.stream.launches
        begin = time.perf_counter()
        unseen = 0.0  # seconds of verification
        times: list[float] = []

        def show(piece: str) -> None:
            report.text += piece
            if piece:
                write(piece)

        while report.tokens < self.request.tokens:
            if stopped():
                report.stop = "interrupted"
                break
            is_prompt = self.decoder.is_in_prompt
            self.step()
            token = None if is_prompt else self.decoder.token()
            reached = time.perf_counter()
            elapsed = reached - begin - unseen
            if not self.verify():
                report.stop = "mismatch"
                break
            unseen += time.perf_counter() - reached
            if token is None:
                continue
            times.append(elapsed)
            report.token_ids.append(token)
            report.tokens += 1
            if token in checkpoint.stops:
                report.stop = "eos"
                break
            show(text.push(token))
        show(text.flush())
        self.account(times, self.stream.launches - launches)
        return report

    def step(self) -> None:
        """Take one token."""
        replays = self.decoder.graph.rungs["replay"]
        if self.request.eager:
            self.decoder.step_eager()
        else:
            self.decoder.step()
        if self.decoder.graph.rungs["replay"] == replays:
            self.report.only_replay_after = self.decoder.position
        if self.decoder.position == WARM_UP:
            self.changed = self.decoder.graph.ladder.stats.changed

    def verify(self) -> bool:
        """Take the same token eagerly beside; whether the logits have the same bits."""
        if self.shadow is None:
            return True
        with measured(self.shadow.stream) as memory:
            self.shadow.step_eager()
        if self.report.eager_peak_bytes is None:
            self.report.eager_peak_bytes = self.own_bytes + memory.stats().peak
        found = difference(self.decoder.logits.numpy(self.stream), self.shadow.logits.numpy(self.shadow.stream))
        if found is not None:
            index, graph, eager = found
            at = self.decoder.position - 1
            self.report.mismatch = f"token {at}: logit {index} is {graph!r} in the graph and {eager!r} run eagerly"
            self.report.verified = False
        return found is None

    def account(self, times: list[float], launches: int) -> None:
        """Put times and counts into the report."""
        report, graph = self.report, self.decoder.graph
        if times:
            report.first_token_ms = round(times[0] * 1e3, 3)
            span = times[-1] - times[0] if len(times) > 1 else times[0]
            report.tok_s = round(max(len(times) - 1, 1) / span, 2)
        report.nodes_per_token, report.edges = graph.nodes, graph.edges
        report.launches_per_token = round(launches / max(self.decoder.position, 1), 3)
        report.rungs = {**graph.rungs, "eager": graph.rungs["eager"] + self.decoder.eager_steps}
        report.reasons = dict(graph.reasons)
        changed = graph.ladder.stats.changed - self.changed
        report.changed_nodes_per_token = round(changed / max(self.decoder.position - WARM_UP, 1), 3)
        report.planned_bytes = sum(plan.nbytes for plan in graph.plans)
        report.lower_bound_bytes = sum(plan.lower_bound for plan in graph.plans)
        report.peak_bytes = allocator.default_pool.stats().peak
        report.graph_peak_bytes = self.own_bytes + graph.nbytes


@contextmanager
def measured(stream: Stream) -> Iterator[allocator.Pool]:
    """Take what is allocated on a stream within the block from a pool that counts it."""
    stream.memory = memory = allocator.Pool(allocator.default_pool.allocate, "measured")
    try:
        yield memory
    finally:
        stream.memory = None


def difference(graph: NDArray[Any], eager: NDArray[Any]) -> tuple[int, float, float] | None:
    """Return index and values of the first element whose bits differ, or None."""
    bits = np.dtype(f"u{graph.dtype.itemsize}")
    unequal = np.flatnonzero(graph.reshape(-1).view(bits) != eager.reshape(-1).view(bits))
    if not unequal.size:
        return None
    index = int(unequal[0])
    return index, float(graph.reshape(-1)[index]), float(eager.reshape(-1)[index])
