"""Generation: the loop from a prompt to text, with what it cost, for ``hiprt generate``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Stream, allocator, flags, library, use_stream
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.models import FORM, Decoder, Model, bucket, load
from hiprt.bench.engine.text import Text, Writer

__all__ = ["CHECKPOINT", "PROMPT", "Report", "Request", "Text", "difference", "generate"]

CHECKPOINT = Path(__file__).parents[1] / "story" / "checkpoint"
PROMPT = "Once upon a time there was a clever fox named Mia."
WARM_UP = 4  # tokens
MOST_TEXTS = 8


@dataclass(frozen=True)
class Request:
    """What to write.

    Attributes
    ----------
    model : Path or str
        A model directory.
    prompt : str or tuple of str
        Of each text where there are several.
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
    batch : int
        Texts that are written side by side: one for each prompt, or several of one prompt, with seeds of their own.
    plain : bool
        Leave weights that are not quantised as they are.
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


def generate(
    request: Request,
    write: Callable[[str], object] = lambda piece: None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], object] = lambda taken, length: None,
) -> Report:
    """Write text after a prompt, or several texts side by side.

    Parameters
    ----------
    request : Request
    write : callable, optional
        Gets each piece of the first text as it comes.
    stopped : callable, optional
        Asked before each chunk of a prompt and each step; true ends the text.
    progress : callable, optional
        Gets how many tokens of the prompts are taken, of how many.

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
        model = load(checkpoint, form=None if request.plain else FORM)
    prompts = [checkpoint.encode(prompt) for prompt in request.prompts]
    longest = max(map(len, prompts))
    limit = model.config.max_position_embeddings
    if longest + request.tokens > limit:
        sizes = f"{longest} prompt tokens and {request.tokens} new ones"
        raise ValueError(f"{sizes} exceed the {limit} positions of the model: ask for fewer tokens")
    return Generation(request, model, checkpoint, prompts, stream).run(write, stopped, progress)


class Generation:
    """One run of a model over prompts: its decoder, the eager one beside it, and clocks."""

    def __init__(
        self, request: Request, model: Model, checkpoint: Checkpoint, prompts: list[list[int]], stream: Stream
    ) -> None:
        self.request, self.checkpoint, self.prompts, self.stream = request, checkpoint, prompts, stream
        longest = max(map(len, prompts))
        limit = bucket(longest + request.tokens)
        made = partial(Decoder, model, capacity=bucket(longest + 1), limit=limit, batch=len(prompts))
        self.decoder = made(stream=stream, keep=not request.rerecord)
        self.own_bytes = allocator.default_pool.stats().allocated
        self.changed = self.launches = self.steps = 0
        # Streams of their own: launches that are not counted, and reads that wait for no later step.
        self.shadow = made(stream=Stream(stream.device)) if request.verify else None
        self.reader = Stream(stream.device)
        self.unseen = 0.0  # seconds of verification
        self.report = Report(
            request.prompts[0],
            sum(map(len, prompts)),
            str(request.model),
            library.current().provider.name,
            stream.device.name,
            request.temperature,
            request.seed,
            verified=True if request.verify else None,
        )

    def run(
        self, write: Callable[[str], object], stopped: Callable[[], bool], progress: Callable[[int, int], object]
    ) -> Report:
        """Generate until the texts or their budget end."""
        report, tokenizer = self.report, self.checkpoint.tokenizer
        writers = [Writer(tokenizer, p, (lambda piece: None) if i else write) for i, p in enumerate(self.prompts)]
        for decoder in filter(None, (self.decoder, self.shadow)):
            decoder.start(self.prompts, self.request.temperature, self.request.seed)
        begin = time.perf_counter()
        times: list[float] = []
        if self.prefill(stopped, progress):
            for tokens in self.steps_of(stopped):
                times.append(time.perf_counter() - begin - self.unseen)
                for writer, token in zip(writers, tokens):
                    writer.push(token, self.checkpoint.stops)
                if all(writer.is_ended for writer in writers):
                    report.stop = "eos"
                    break
        for writer in writers:
            writer.show(writer.pieces.flush())
        report.texts, report.token_ids = [writer.text for writer in writers], writers[0].ids
        report.text, report.tokens = writers[0].text, sum(len(writer.ids) for writer in writers)
        self.account(times)
        return report

    def prefill(self, stopped: Callable[[], bool], progress: Callable[[int, int], object]) -> bool:
        """Take the prompts; whether that came to its end."""
        beside = None if self.shadow is None else self.shadow.prefill(eager=True)
        chunks = self.decoder.prefill(eager=self.request.eager)
        while not stopped():
            taken = next(chunks, None)
            if taken is None:
                return True
            if beside is not None and not self.verify(partial(next, beside)):
                return False
            progress(taken, self.report.prompt_tokens)
        self.report.stop = "interrupted"
        return False

    def steps_of(self, stopped: Callable[[], bool]) -> Iterator[list[int]]:
        """Yield what each step drew, read while the next one runs."""
        pending = self.decoder.mark()
        for left in reversed(range(self.request.tokens)):
            following = None
            if left and stopped():
                self.report.stop = "interrupted"
            elif left:
                self.step()
                if self.shadow is not None and not self.verify(self.shadow.step_eager):
                    return
                following = self.decoder.mark()
            yield self.decoder.read(pending, self.reader)
            if following is None:
                return
            pending = following

    def step(self) -> None:
        """Take one token of each text."""
        replays, launches = self.decoder.graph.rungs["replay"], self.stream.launches
        if self.request.eager:
            self.decoder.step_eager()
        else:
            self.decoder.step()
        self.steps += 1
        self.launches += self.stream.launches - launches
        if self.decoder.graph.rungs["replay"] == replays:
            self.report.only_replay_after = self.steps
        if self.steps == WARM_UP:
            self.changed = self.decoder.graph.ladder.stats.changed

    def verify(self, beside: Callable[[], object]) -> bool:
        """Take the same tokens eagerly; whether the logits have the same bits."""
        assert self.shadow is not None
        self.stream.synchronize()
        reached = time.perf_counter()
        with measured(self.shadow.stream) as memory:
            beside()
        if self.steps == 1:
            self.report.eager_peak_bytes = self.own_bytes + memory.stats().peak
        found = difference(self.decoder.logits.numpy(self.stream), self.shadow.logits.numpy(self.shadow.stream))
        self.unseen += time.perf_counter() - reached
        if found is not None:
            index, graph, eager = found
            at = self.decoder.position - 1
            self.report.mismatch = f"token {at}: logit {index} is {graph!r} in the graph and {eager!r} run eagerly"
            self.report.verified, self.report.stop = False, "mismatch"
        return found is None

    def account(self, times: list[float]) -> None:
        """Put times and counts into the report."""
        report, decoder, graph = self.report, self.decoder, self.decoder.graph
        steps = [decoder.filling, decoder.drawing, graph]
        if times:
            report.first_token_ms = round(times[0] * 1e3, 3)
            report.prefill_tok_s = round(report.prompt_tokens / times[0], 1)
            span = times[-1] - times[0] if len(times) > 1 else times[0]
            report.tok_s = round(max(len(times) - 1, 1) * report.tokens / len(times) / span, 2)
        report.nodes_per_token, report.edges = graph.nodes, graph.edges
        report.launches_per_token = round(self.launches / max(self.steps, 1), 3)
        report.rungs = {name: sum(step.rungs[name] for step in steps) for name in graph.rungs}
        report.rungs["eager"] += decoder.eager_steps
        report.reasons = dict(sum((step.reasons for step in steps), Counter()))
        changed = graph.ladder.stats.changed - self.changed
        report.changed_nodes_per_token = round(changed / max(self.steps - WARM_UP, 1), 3)
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
