"""Generation: the loop that turns a prompt into text and measures what that costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import Stream, allocator, flags, library, use_stream
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder, bucket
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.models import FORM, Model, load, read
from hiprt.bench.engine.report import Report
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.template import Template, find_template
from hiprt.bench.engine.text import Writer

__all__ = ["difference", "encode", "generate"]

WARM_UP = 4  # tokens whose changed nodes are not counted


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
        Takes each piece of the first text as it comes.
    stopped : callable, optional
        Is called before each chunk of a prompt and each step; True ends the text.
    progress : callable, optional
        Takes how many tokens of the prompts have been taken, and how many there are.

    Raises
    ------
    CheckpointError
        The model directory cannot be used.
    ValueError
        The prompt exceeds what the model was trained for, or there is no graph to verify.
    HipError
        A HIP call failed.
    """
    if request.verify and not flags.graph:
        raise ValueError("verify compares graph steps with eager ones: HIPRT_GRAPH=0 leaves none")
    checkpoint = Checkpoint(request.model)
    limit = read(checkpoint.settings).max_position_embeddings
    prompts = encode(request, checkpoint, find_template(checkpoint.path))
    longest = max(map(len, prompts))
    if longest >= limit:
        raise ValueError(f"a prompt of {longest} tokens leaves no place among the {limit} positions of the model")
    sampling = request.sampling(checkpoint.sampling)
    stream = Stream()
    with use_stream(stream):
        model = load(checkpoint, form=None if request.plain else FORM)
    return Generation(request, sampling, model, checkpoint, prompts, stream).run(write, stopped, progress)


def encode(request: Request, checkpoint: Checkpoint, template: Template | None) -> list[list[int]]:
    """Return the tokens of each prompt of a request, as questions in the chat template where there is one.

    Raises
    ------
    CheckpointError
        The template cannot write them.
    ValueError
        There is a system prompt and no template.
    """
    if template is not None and request.chat_template:
        system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
        asked = ([*system, {"role": "user", "content": prompt}] for prompt in request.prompts)
        texts = [template.render(messages, **request.template_values) for messages in asked]
        return [checkpoint.encode(text, special=False) for text in texts]
    if request.system_prompt:
        raise ValueError(f"a system prompt is part of a chat template, which {checkpoint.path} does not have")
    return [checkpoint.encode(prompt) for prompt in request.prompts]


class Generation:
    """One run of a model over prompts: a decoder, a second one that runs eagerly for verification, and clocks."""

    def __init__(
        self,
        request: Request,
        sampling: Sampling,
        model: Model,
        checkpoint: Checkpoint,
        prompts: list[list[int]],
        stream: Stream,
    ) -> None:
        self.request, self.checkpoint, self.prompts, self.stream = request, checkpoint, prompts, stream
        self.sampling = sampling
        longest = max(map(len, prompts))
        # Behind its last position the model has not been trained.
        self.tokens = min(request.tokens, model.config.max_position_embeddings - longest)
        limit = bucket(longest + self.tokens)
        made = partial(Decoder, model, capacity=bucket(longest + 1), limit=limit, batch=len(prompts), sampling=sampling)
        self.decoder = made(stream=stream, keep=not request.rerecord)
        self.own_bytes = allocator.default_pool.stats().allocated
        self.changed = self.launches = self.steps = 0
        # These have streams of their own: what the shadow launches is not counted, and reads wait for no later step.
        self.shadow = made(stream=Stream(stream.device)) if request.verify else None
        self.reader = Stream(stream.device)
        self.verifying = 0.0  # seconds that verification took
        self.report = Report(
            request.prompts[0],
            sum(map(len, prompts)),
            str(request.model),
            library.current().provider.name,
            stream.device.name,
            sampling.temperature,
            sampling.seed,
            sampling=sampling.changed,
            stop="length" if self.tokens == request.tokens else "positions",
            verified=True if request.verify else None,
        )

    def run(
        self, write: Callable[[str], object], stopped: Callable[[], bool], progress: Callable[[int, int], object]
    ) -> Report:
        """Generate until every text has ended, by a stop token or by its length."""
        report, tokenizer = self.report, self.checkpoint.tokenizer
        stops = self.request.stops
        writers = [
            Writer(tokenizer, p, (lambda piece: None) if i else write, stops) for i, p in enumerate(self.prompts)
        ]
        for decoder in filter(None, (self.decoder, self.shadow)):
            decoder.start(self.prompts, self.sampling.temperature, self.sampling.seed)
        begin = time.perf_counter()
        times: list[float] = []
        if self.prefill(stopped, progress):
            for tokens in self.steps_of(stopped):
                times.append(time.perf_counter() - begin - self.verifying)
                for writer, token in zip(writers, tokens):
                    writer.push(token, self.checkpoint.stops)
                if all(writer.end for writer in writers):
                    report.stop = writers[0].end
                    break
        for writer in writers:
            writer.finish()
        report.texts, report.token_ids = [writer.text for writer in writers], writers[0].ids
        report.ids = [writer.ids for writer in writers]
        report.stops = [writer.end or report.stop for writer in writers]
        report.text, report.tokens = writers[0].text, sum(len(writer.ids) for writer in writers)
        self.account(times)
        return report

    def prefill(self, stopped: Callable[[], bool], progress: Callable[[int, int], object]) -> bool:
        """Take the prompts in chunks; return whether all of them were taken."""
        beside = None if self.shadow is None else self.shadow.prefill(eager=True)
        chunks = self.decoder.prefill(eager=self.request.eager)
        while not stopped():
            taken = next(chunks, None)
            if taken is None:
                self.check_logits()
                return True
            if beside is not None and not self.verify(partial(next, beside)):
                return False
            progress(taken, self.report.prompt_tokens)
        self.report.stop = "interrupted"
        return False

    def check_logits(self) -> None:
        """Raise where the logits behind the prompts are no numbers, from which no token can be drawn."""
        if not np.isfinite(self.decoder.state.logits.numpy(self.stream).astype(np.float32)).all():
            cause = f"{self.request.model}: the logits of the first token hold NaN or infinity"
            raise CheckpointError(cause, "its weights are damaged, or too large for their dtype: download it again")

    def steps_of(self, stopped: Callable[[], bool]) -> Iterator[list[int]]:
        """Yield the tokens that each step drew; they are read while the next step runs."""
        pending = self.decoder.mark()
        for left in reversed(range(self.tokens)):
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
        """Run one decode step, and count what it launched."""
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
        """Take the same tokens with the shadow decoder; return whether its logits have the same bits.

        Parameters
        ----------
        beside : callable
            Runs the shadow's step.
        """
        assert self.shadow is not None
        self.stream.synchronize()
        reached = time.perf_counter()
        with measured(self.shadow.stream) as memory:
            beside()
        if self.steps == 1:
            self.report.eager_peak_bytes = self.own_bytes + memory.stats().peak
        found = difference(self.decoder.logits.numpy(self.stream), self.shadow.logits.numpy(self.shadow.stream))
        self.verifying += time.perf_counter() - reached
        if found is not None:
            index, graph, eager = found
            at = self.decoder.position - 1
            self.report.mismatch = f"token {at}: logit {index} is {graph!r} in the graph and {eager!r} run eagerly"
            self.report.verified, self.report.stop = False, "mismatch"
        return found is None

    def account(self, times: list[float]) -> None:
        """Put times and counts into the report.

        Parameters
        ----------
        times : list of float
            Seconds from the start of the prompt to each generated token.
        """
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
    """Allocate from a pool that counts, within the block, what is allocated on a stream; yield that pool."""
    stream.memory = memory = allocator.Pool(allocator.default_pool.allocate, "measured")
    try:
        yield memory
    finally:
        stream.memory = None


def difference(graph: NDArray[Any], eager: NDArray[Any]) -> tuple[int, float, float] | None:
    """Return the index and both values of the first element whose bits differ, or None."""
    bits = np.dtype(f"u{graph.dtype.itemsize}")
    unequal = np.flatnonzero(graph.reshape(-1).view(bits) != eager.reshape(-1).view(bits))
    if not unequal.size:
        return None
    index = int(unequal[0])
    return index, float(graph.reshape(-1)[index]), float(eager.reshape(-1)[index])
