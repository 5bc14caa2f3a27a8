"""Sequences that are being decoded, and what one way of launching their steps takes.

    graph      the decode step is kept and launched again as one graph
    rerecord   the step is recorded again for each token, as an engine does that issues every launch
    eager      every kernel is launched by itself
    compiled   the step is traced by hiprt.compile, with the passes of HIPRT_COMPILE_PASSES, and runs as its graph

Tokens are drawn on the device, so the host waits for none of them. Events between tokens measure the time on the
device; the time on the host is that until a token's launches have returned. All averages over tokens are means, so
that they go with tokens per second.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import hiprt
from hiprt import Array, Stream, kernels, use_stream
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.draft import Draft
from hiprt.bench.engine.models import Model
from hiprt.bench.engine.room import bucket
from hiprt.bench.engine.speculation import Speculation, speculate
from hiprt.bench.kernel_times import Kernel, kernel_times
from hiprt.bench.model_matrices import operations
from hiprt.bench.plain import Plain
from hiprt.event import Event
from hiprt.graphs import Step
from hiprt.graphs.trace.compile import Compiled

__all__ = ["MODES", "Mode", "Run"]

MODES = ("graph", "rerecord", "eager", "compiled")
WARM_UP = 4  # tokens


@dataclass(frozen=True)
class Mode:
    """What one way of launching gives.

    Attributes
    ----------
    tok_s : float
        Tokens of all sequences per second, while the host waits for none.
    ms_per_token : dict
        The time on the device, ``mean`` and ``p99``, in a pass of its own with events between the tokens.
    host_us_per_token : float
        The mean time until the launches of a token have returned.
    weights_gb_s, share_of_bandwidth : float
        The bytes of weights that a token reads over its time, and their part of the read bandwidth.
    nodes, edges : int
        The size of the graph; 0 without one.
    launches_per_token : float
        How many kernels and graphs are handed to HIP for a token.
    rungs : dict
        How often each rung was taken.
    tokens_per_step : float
        How many tokens a step takes of each sequence. With guesses all of the above but `tok_s` is of a step.
    """

    tok_s: float
    ms_per_token: dict[str, float]
    host_us_per_token: float
    weights_gb_s: float
    share_of_bandwidth: float
    nodes: int
    edges: int
    launches_per_token: float
    rungs: dict[str, int]
    tokens_per_step: float = 1.0


class Run:
    """Sequences that are being decoded: their tokens and positions are on the device, where each step advances them.

    Parameters
    ----------
    model : Model or Plain
    stream : Stream
    context, tokens, batch : int
        The tokens of the prompt, those to decode, and the sequences.
    kv_bits : int, optional
        As in `Model.state`.
    drafts : int, optional
        How many tokens each step guesses of a single sequence.
    draft : Model, optional
        The model that guesses them.
    """

    def __init__(
        self,
        model: Model | Plain,
        stream: Stream,
        context: int,
        tokens: int,
        batch: int,
        kv_bits: int | None = None,
        drafts: int | None = None,
        draft: Model | None = None,
        kv_blocks: int | None = None,
    ) -> None:
        self.model, self.stream, self.context, self.batch = model, stream, context, batch
        draw = np.random.default_rng(0)
        self.prompt = draw.integers(0, model.config.vocab_size, context).astype(np.int32)
        with use_stream(stream):
            capacity = bucket(context + (tokens + 2 * WARM_UP) * (1 + (drafts or 0)))
            self.blocks = None
            if kv_blocks is None:
                self.state = model.state(batch, capacity, kv_bits)
            else:
                assert not isinstance(model, Plain)
                count = batch * -(-capacity // kv_blocks)
                self.blocks = Blocks(kv_blocks, count, batch, capacity, context)
                self.blocks.reserve(dict.fromkeys(range(batch), capacity), stream)
                self.state = model.state(batch, capacity, None, self.blocks)
            self.rest = hiprt.array(self.prompt[:-1])  # all but the token that the first step takes
            self.places = hiprt.array(np.arange(context - 1, dtype=np.int32))
            self.tokens, self.position = hiprt.zeros(batch, np.int32), hiprt.zeros(batch, np.int32)
            self.one = hiprt.array(np.ones(batch, np.int32))
            self.speculation = None
            if drafts is not None:
                guesses = None if draft is None else Draft(draft, drafts, capacity, kv_bits)
                self.speculation = Speculation(drafts, guesses)
                self.block, self.text = hiprt.zeros(4, np.int32), hiprt.zeros(capacity, np.int32)

    def reset(self) -> None:
        """Go back to the first token behind the prompt."""
        if self.speculation is not None:
            with use_stream(self.stream):
                self.speculation.start()
                self.text[: self.context].set(self.prompt)
                self.block.set([self.prompt[-1], self.context - 1, self.context, self.text.size])
        self.tokens.set(np.resize(self.prompt[-1:], self.batch), self.stream)
        self.position.set(np.full(self.batch, self.context - 1, np.int32), self.stream)

    def issue(self) -> None:
        """Launch one step."""
        if self.speculation is not None:
            assert not isinstance(self.model, Plain)
            speculate(self.model, self.state, self.block, self.text, self.speculation)
            return
        if self.blocks is not None:
            self.blocks.locate(self.position)
        self.model.decode(self.tokens, self.position, self.state, likeliest=self.tokens)
        kernels.add(self.position, self.one, out=self.position)

    def prefill(self, text: Array, places: Array, sequence: int) -> None:
        """Launch a prompt of one sequence."""
        if self.blocks is not None:
            self.blocks.locate(places, sequence)
        self.model.prefill(text, places, self.state, sequence)

    def first_tokens(self) -> tuple[float, float]:
        """Return the milliseconds of a first token: as graphs that have run before, and kernel by kernel."""
        fill: Step[..., Any] = Step(partial(self.prefill, self.rest, self.places), name="prefill", stream=self.stream)
        step: Step[..., Any] = Step(self.issue, name="first step", stream=self.stream, overwrite=True)
        for _ in range(WARM_UP):
            self.first_token(fill, step)
        return self.first_token(fill, step), self.first_token(fill.eager, step.eager)

    def first_token(self, fill: Callable[[int], Any], step: Callable[[], Any]) -> float:
        """Take the prompt into every sequence, then one step; return the milliseconds of one prompt and the step."""
        with use_stream(self.stream):
            for state in self.state:
                state.reset()
            self.reset()
            taken = 0.0
            if self.context > 1:
                if self.speculation is not None and self.speculation.draft is not None:
                    self.speculation.draft.prefill(self.rest, self.places)
                for sequence in range(self.batch):
                    before = time.perf_counter()
                    fill(sequence)
                    self.stream.synchronize()
                    taken = taken or time.perf_counter() - before
            before = time.perf_counter()
            step()
            self.tokens.numpy(self.stream)
        return (taken + time.perf_counter() - before) * 1e3

    def decode(self, mode: str, tokens: int, weights: int, bandwidth: float) -> Mode:
        """Decode tokens in one mode, and return what that took."""
        with use_stream(self.stream):
            return self.decode_here(mode, tokens, weights, bandwidth)

    def decode_here(self, mode: str, tokens: int, weights: int, bandwidth: float) -> Mode:
        """Decode tokens where the stream is the current one."""
        step: Step[..., Any] = Step(
            self.issue, name=f"decode {mode}", stream=self.stream, keep=mode == "graph", overwrite=True
        )
        call: Callable[[], Any] = step.eager if mode == "eager" else step
        if mode == "compiled":
            call = hiprt.compile(self.issue)
        self.warm_up(call)
        if isinstance(call, Compiled):
            (step,) = call.steps
        before, launches, begin = dict(step.rungs), self.stream.launches, self.place
        host, whole = self.follow(call, tokens)
        taken = tokens if self.speculation is None else self.place - begin
        rate = weights * tokens / whole / 1e9
        rungs = {rung: count - before[rung] for rung, count in step.rungs.items()}
        launches = self.stream.launches - launches
        self.warm_up(call)
        ms = self.each(call, tokens)
        return Mode(
            round(self.batch * taken / whole, 2),
            {"mean": round(statistics.fmean(ms), 4), "p99": round(float(np.percentile(ms, 99)), 4)},
            round(statistics.fmean(host) * 1e6, 2),
            round(rate, 1),
            round(rate / bandwidth, 4),
            step.nodes,
            step.edges,
            round(launches / tokens, 3),
            {**rungs, "eager": tokens} if mode == "eager" else rungs,
            round(taken / tokens, 3),
        )

    @property
    def place(self) -> int:
        """Where the text of guesses stands; 0 without one."""
        return 0 if self.speculation is None else int(self.block[1:2].numpy(self.stream)[0])

    def written(self) -> list[int]:
        """Return the tokens that the last mode wrote with guesses."""
        return [int(token) for token in self.text[self.context : self.place + 1].numpy(self.stream)]

    def single(self, tokens: int) -> list[int]:
        """Return so many tokens of the first sequence, of steps without guesses."""
        found = []
        with use_stream(self.stream):
            step: Step[..., Any] = Step(self.issue, name="decode", stream=self.stream, overwrite=True)
            self.reset()
            for _ in range(tokens):
                step()
                found.append(int(self.tokens[:1].numpy(self.stream)[0]))
        return found

    def warm_up(self, call: Callable[[], Any]) -> None:
        """Go back to the first token behind the prompt, and decode some that do not count."""
        self.reset()
        for _ in range(WARM_UP):
            call()
        self.stream.synchronize()

    def follow(self, call: Callable[[], Any], tokens: int) -> tuple[list[float], float]:
        """Decode tokens; return the host's seconds for each, and the seconds of all."""
        host = []
        start = time.perf_counter()
        for _ in range(tokens):
            before = time.perf_counter()
            call()
            host.append(time.perf_counter() - before)
        self.stream.synchronize()
        return host, time.perf_counter() - start

    def each(self, call: Callable[[], Any], tokens: int) -> list[float]:
        """Decode tokens with events between them, which take time too; return the milliseconds of each."""
        times = [Event() for _ in range(tokens + 1)]
        times[0].record(self.stream)
        for event in times[1:]:
            call()
            event.record(self.stream)
        self.stream.synchronize()
        ms = [times[i + 1].elapsed_ms(times[i]) for i in range(tokens)]
        for event in times:
            event.close()
        return ms

    def kernels(self, bandwidth: float) -> list[Kernel]:
        """Time the kernels of a step, each by itself, beside a read bandwidth in GB/s."""
        work = operations(self.model, self.batch, self.batch)
        return kernel_times(self.issue, self.reset, self.stream, work, bandwidth)

    def prompt_kernels(self, bandwidth: float) -> list[Kernel]:
        """Time the kernels of a prompt of one sequence likewise."""
        with use_stream(self.stream):
            text, places = hiprt.array(self.prompt), hiprt.array(np.arange(self.context, dtype=np.int32))
        work = operations(self.model, self.context, 1)
        return kernel_times(lambda: self.prefill(text, places, 0), self.reset, self.stream, work, bandwidth)
