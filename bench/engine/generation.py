"""Generation: the loop that turns a prompt into text and measures what that costs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hiprt import Stream, allocator, flags, library, use_stream
from hiprt.bench.engine.beginning import Beginning, encode
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.decoder import Decoder, Mark
from hiprt.bench.engine.draft import check_draft
from hiprt.bench.engine.errors import CheckpointError
from hiprt.bench.engine.models import Model, load, read
from hiprt.bench.engine.report import Choice, Report
from hiprt.bench.engine.request import Request
from hiprt.bench.engine.room import bucket
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.shadow import Shadow
from hiprt.bench.engine.speculation import check_speculation
from hiprt.bench.engine.spent import Spent
from hiprt.bench.engine.template import find_template
from hiprt.bench.engine.text import Writer
from hiprt.distributed import Communicator

__all__ = ["MOST_TEXTS", "Generation", "generate", "open_draft"]

MOST_TEXTS = 8  # that are written side by side
WARM_UP = 4  # tokens whose changed nodes are not counted
LEAST = -9999.0  # what stands for the log probability of a token that cannot come


def generate(
    request: Request,
    write: Callable[[str], object] = lambda piece: None,
    stopped: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int, str], object] = lambda done, total, unit: None,
    *,
    begin: Callable[[str], object] = lambda prompt: None,
    loading: Callable[[int, int], object] = lambda copied, nbytes: None,
) -> Report:
    """Write text after a prompt, or several texts: `MOST_TEXTS` of them side by side, then the next.

    Where `request.tp` is above 1, this process is one of so many ranks, each of which calls this and writes the same.

    Parameters
    ----------
    request : Request
    write : callable, optional
        Takes each piece of the first text as it comes.
    stopped : callable, optional
        Is called before each chunk of a prompt and each step; True ends the text.
    progress : callable, optional
        Takes how much is done, how much there is, and of what: ``tokens`` of the prompts, or ``texts`` where these are
        more than are written side by side.
    begin : callable, optional
        Takes the prompt of the first text, once the model is loaded.
    loading : callable, optional
        Takes how many bytes of the weights have been copied to the device, and how many there are.

    Raises
    ------
    CheckpointError
        The model directory cannot be used.
    ValueError
        The prompt exceeds what the model was trained for, there is no graph to verify, or the model or its draws do
        not go with `request.speculate`.
    HipError
        A HIP call failed.
    RankError
        A rank is missing or has ended.
    """
    if request.verify and not flags.graph:
        raise ValueError("verify compares graph steps with eager ones: HIPRT_GRAPH=0 leaves none")
    checkpoint = Checkpoint(request.model)
    texts = encode(request, checkpoint, find_template(checkpoint.path))
    sampling = request.sampling(checkpoint.sampling)
    if request.speculate is not None:
        check_speculation(read(checkpoint.settings), sampling)
    beside = None if request.draft is None else open_draft(request.draft, checkpoint)
    with nullcontext() if request.tp == 1 else Communicator() as ranks:
        stream = Stream()
        with use_stream(stream):
            model = load(checkpoint, form=request.form, progress=loading, ranks=ranks)
            draft = None if beside is None else load(beside)
        begin("" if texts[0].is_question else texts[0].prompt)
        made = Generation(request, sampling, model, checkpoint, texts, stream, draft=draft)
        return made.run(write, stopped, progress)


def open_draft(path: Path | str, checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint of a model that guesses for another one.

    Raises
    ------
    CheckpointError
        It cannot be used.
    ValueError
        It has recurrent layers, or another tokenizer.
    """
    draft = Checkpoint(path)
    check_draft(read(checkpoint.settings), read(draft.settings))
    if draft.tokenizer.get_vocab() != checkpoint.tokenizer.get_vocab():
        raise ValueError(f"draft: {path} has another tokenizer than {checkpoint.path}")
    return draft


class Generation:
    """One run of a model over prompts: a decoder, a second one that runs eagerly for verification, and clocks.

    The texts are written in groups, all of them by the same decoder and graph. Groups are as even as can be; where the
    last one lacks texts, its last prompt is there several times.

    Parameters
    ----------
    request : Request
    sampling : Sampling
    model : Model
    checkpoint : Checkpoint
    texts : list of Beginning
    stream : Stream
        The stream on which the steps run.
    decoder : Decoder, optional
        One of an earlier run on that stream, with the same number of texts, of likely tokens that are told, of bits of
        keys and values, of guesses, and rules of draws; its steps are recorded.
    kept : int
        How many of the first tokens of the prompt this decoder holds, as `Decoder.rewind` returns it.
    save_at : int
        As `Decoder.start` says.
    draft : Model, optional
        The model that guesses `request.speculate` tokens.
    """

    def __init__(
        self,
        request: Request,
        sampling: Sampling,
        model: Model,
        checkpoint: Checkpoint,
        texts: list[Beginning],
        stream: Stream,
        *,
        decoder: Decoder | None = None,
        kept: int = 0,
        save_at: int = 0,
        draft: Model | None = None,
    ) -> None:
        self.request, self.checkpoint, self.texts, self.stream = request, checkpoint, texts, stream
        self.sampling, self.positions = sampling, model.config.max_position_embeddings
        drafts = request.speculate or 0
        self.batch = 1 if drafts else -(-len(texts) // -(-len(texts) // MOST_TEXTS))
        longest = max(len(text.ids) for text in texts)
        # Until a step has been read, all of its guesses count as right, and the next one runs meanwhile.
        limit = bucket(longest + self.most(longest) + 3 * drafts)
        made = partial(
            Decoder,
            model,
            capacity=bucket(longest + 1),
            limit=limit,
            batch=self.batch,
            sampling=sampling,
            logprobs=request.logprobs,
            kv_bits=request.kv_bits,
            drafts=request.speculate,
            draft=draft,
        )
        if request.kv_blocks is not None:
            made = partial(made, kv_blocks=request.kv_blocks, kv_pool=self.pool(request.kv_blocks))
        self.decoder = decoder or made(stream=stream, keep=not request.rerecord)
        self.decoder.room.limit = max(limit, self.decoder.room.limit)
        self.kept, self.save_at = kept, save_at
        self.earlier = self.counts()
        self.own_bytes = allocator.default_pool.stats().allocated - self.decoder.graph.nbytes
        self.changed = self.decoder.graph.ladder.stats.changed
        self.launches = self.steps = 0
        # These have streams of their own: what the shadow launches is not counted, and reads wait for no later step.
        self.shadow = Shadow(made(stream=Stream(stream.device))) if request.verify else None
        self.reader = Stream(stream.device)
        self.counted: list[int] = []  # tokens of each step that guessed
        self.spent = Spent()
        self.report = Report(
            texts[0].prompt,
            sum(len(text.ids) for text in texts),
            str(request.model),
            library.current().provider.name,
            stream.device.name,
            sampling.temperature,
            sampling.seed,
            sampling=sampling.changed,
            verified=True if request.verify else None,
            kv_bits=request.kv_bits,
            kv_blocks=request.kv_blocks,
            kv_bytes=self.decoder.state.kv_bytes,
            speculate=request.speculate,
            draft=None if request.draft is None else str(request.draft),
            tp=request.tp,
        )

    @property
    def decoders(self) -> list[Decoder]:
        """The decoder, and that of the shadow."""
        return [self.decoder] if self.shadow is None else [self.decoder, self.shadow.decoder]

    @property
    def verifying(self) -> float:
        """The seconds that verification has taken."""
        return 0.0 if self.shadow is None else self.shadow.seconds

    def most(self, length: int) -> int:
        """Return how many tokens may follow a prompt: behind its last position the model has not been trained."""
        return min(self.request.tokens, self.positions - length)

    def pool(self, rows: int) -> int:
        """Return how many blocks of so many tokens serve any of the groups in which the texts are written."""
        lengths = [len(text.ids) for text in self.texts]
        needs = [-(-(length + self.most(length)) // rows) for length in lengths]
        needs += needs[-1:] * (-len(needs) % self.batch)
        return max(sum(needs[first : first + self.batch]) for first in range(0, len(needs), self.batch))

    def run(
        self,
        write: Callable[[str], object],
        stopped: Callable[[], bool],
        progress: Callable[[int, int, str], object],
    ) -> Report:
        """Generate until every text has ended, by a stop token or by its length."""
        for piece in self.pieces(stopped, progress):
            write(piece)
        return self.report

    def pieces(
        self,
        stopped: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int, str], object] = lambda done, total, unit: None,
    ) -> Iterator[str]:
        """Generate as `run` does; yield each piece of the first text as it comes."""
        report, count = self.report, len(self.texts)
        for first in range(0, count, self.batch):
            if count > self.batch:
                progress(first, count, "texts")
            report.choices += yield from self.write_group(first, stopped, progress)
            if report.stop in ("interrupted", "mismatch"):
                break
        head = report.choices[0]
        report.text, report.token_ids = head.text, head.token_ids
        report.tokens = sum(len(choice.token_ids) for choice in report.choices)
        self.account()

    def write_group(
        self, first: int, stopped: Callable[[], bool], progress: Callable[[int, int, str], object]
    ) -> Generator[str, None, list[Choice]]:
        """Write the texts from `first` on, as many as the decoder holds; return them."""
        texts, tokenizer = self.texts[first : first + self.batch], self.checkpoint.tokenizer
        ids = [text.ids for text in texts]
        made: list[str] = []
        writers = [
            Writer(tokenizer, each, (lambda piece: None) if first + i else made.append, self.request.stops)
            for i, each in enumerate(ids)
        ]
        prompts = ids + ids[-1:] * (self.batch - len(ids))
        seed, load, save = (self.sampling.seed + first) % 2**32, self.request.load_cache, self.request.save_cache
        # The last token is taken anew by whoever reads the cache, for the logits behind it.
        save_at = len(ids[0]) - 1 if save else self.save_at
        kept = self.kept
        for decoder in self.decoders:
            kept = kept if load is None else decoder.read_cache(load, prompts)
            decoder.start(prompts, self.sampling.temperature, seed, kept=kept, save_at=save_at)
        if kept or load is not None:
            self.report.cached_tokens = (self.report.cached_tokens or 0) + kept * len(ids)
        most = [self.most(len(each)) for each in prompts]
        ends = ["length" if each == self.request.tokens else "positions" for each in most]
        begin, verified = time.perf_counter(), self.verifying
        times: list[float] = []
        if self.prefill(stopped, lambda taken, length: None if first else progress(taken, length, "tokens")):
            if save is not None:
                self.decoder.write_cache(save)
            for tokens in self.steps_of(most, stopped):
                times.append(time.perf_counter() - begin - (self.verifying - verified))
                for i, (writer, token) in enumerate(zip(writers, tokens)):
                    if len(writer.ids) < most[i]:
                        writer.push(token, self.checkpoint.stops)
                    if writer.end and self.request.kv_blocks is not None:
                        self.release(i)
                yield from made
                made.clear()
                if all(writer.end or len(writer.ids) == each for writer, each in zip(writers, most)):
                    break
        for writer in writers:
            writer.finish()
        self.decoder.settle()
        yield from made
        self.spent.add(times, sum(len(writer.ids) for writer in writers), sum(len(each) - kept for each in ids))
        told = [
            writer.end or (end if len(writer.ids) == each else self.report.stop)
            for writer, end, each in zip(writers, ends, most)
        ]
        if first == 0 and self.report.stop not in ("interrupted", "mismatch"):
            self.report.stop = told[0]
        return [
            Choice(
                first + i, text.prompt, len(text.ids), writer.text, writer.ids, told[i],
                self.logprobs(i, text, writer.ids),
            )
            for i, (text, writer) in enumerate(zip(texts, writers))
        ]  # fmt: skip

    def release(self, sequence: int) -> None:
        """Take no more steps of a text that has ended, whose blocks those beside it may have."""
        for decoder in self.decoders:
            if sequence not in decoder.idle:
                decoder.release(sequence)

    def logprobs(self, sequence: int, text: Beginning, ids: list[int]) -> list[dict[str, Any]] | None:
        """Return how likely the tokens of a text were, as `Choice` has it."""
        if self.request.logprobs is None:
            return None
        told = self.decoder.likely(sequence, len(text.ids), ids)
        return [
            {**self.entry(each.token, each.logprob), "top_logprobs": [self.entry(*pair) for pair in each.best]}
            for each in told
        ]

    def entry(self, token: int, logprob: float) -> dict[str, Any]:
        """Return a token with its text and log probability; JSON has no infinity."""
        text = self.checkpoint.tokenizer.decode([token], skip_special_tokens=False)
        return {"id": token, "token": text, "logprob": max(logprob, LEAST)}

    def prefill(self, stopped: Callable[[], bool], progress: Callable[[int, int], object]) -> bool:
        """Take the prompts in chunks; return whether all of them were taken."""
        beside = None if self.shadow is None else self.shadow.decoder.prefill(eager=True)
        chunks = self.decoder.prefill(eager=self.request.eager)
        while not stopped():
            taken = next(chunks, None)
            if taken is None:
                self.check_logits()
                return True
            if beside is not None and not self.verify(partial(next, beside)):
                return False
            progress(taken, sum(self.decoder.lengths))
        self.report.stop = "interrupted"
        return False

    def check_logits(self) -> None:
        """Raise where the logits behind the prompts are no numbers, from which no token can be drawn."""
        logits = self.decoder.state.logits.numpy(self.stream)
        self.decoder.model.check()
        if not np.isfinite(logits.astype(np.float32)).all():
            cause = f"{self.request.model}: the logits of the first token hold NaN or infinity"
            raise CheckpointError(cause, "its weights are damaged, or too large for their dtype: download it again")

    def steps_of(self, most: list[int], stopped: Callable[[], bool]) -> Iterator[list[int]]:
        """Yield the tokens of all texts for each place; those of a step are read while the next step runs.

        Of each text there are so many at most; what is yielded for it behind them means nothing.
        """
        pending: Mark | None = self.decoder.mark()
        written, last = 0, max(most)
        while pending is not None and written < last:
            following = None
            if written + 1 < last and stopped():
                self.report.stop = "interrupted"
            elif written + 1 < last:
                for sequence, each in enumerate(most):
                    if each <= written + 1:
                        self.release(sequence)
                self.step()
                if self.shadow is not None and not self.verify(self.shadow.decoder.step_eager):
                    return
                following = self.decoder.mark()
            places = self.read(pending)[: last - written]
            written += len(places)
            yield from places
            pending = following

    def read(self, mark: Mark) -> list[list[int]]:
        """Return the tokens of the step in front of a mark, as `Decoder.read_step` does, and count them."""
        places = self.decoder.read_step(mark, self.reader)
        if self.request.speculate and mark.steps:
            self.counted.append(len(places))
            if self.shadow is not None:
                self.shadow.decoder.positions = self.decoder.positions  # it has taken the same steps
        return places

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
        """Take the same tokens with the shadow; return whether its logits have the same bits.

        Parameters
        ----------
        beside : callable
            Runs the shadow's step.

        Raises
        ------
        RankError
            A rank is gone that has a part of the model.
        """
        assert self.shadow is not None
        found = self.shadow.compare(self.decoder, beside)
        if self.steps == 1:
            self.report.eager_peak_bytes = self.own_bytes + self.shadow.peak_bytes
        if found is not None:
            self.report.mismatch = found
            self.report.verified, self.report.stop = False, "mismatch"
        return found is None

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Return how often each rung was taken since the decoder was made, and how often for which reason."""
        steps = [self.decoder.filling, self.decoder.drawing, self.decoder.graph]
        rungs = Counter({name: sum(step.rungs[name] for step in steps) for name in self.decoder.graph.rungs})
        rungs["eager"] += self.decoder.eager_steps
        return rungs, sum((Counter(step.reasons) for step in steps), Counter())

    def account(self) -> None:
        """Put times and counts into the report."""
        report, graph, spent = self.report, self.decoder.graph, self.spent
        if spent.first is not None:
            report.first_token_ms = round(spent.first * 1e3, 3)
            report.prefill_tok_s = round(spent.prompt_tokens / spent.prompts, 1)
            report.tok_s = round(spent.tokens / spent.texts, 2)
        if self.request.speculate and self.counted:
            taken = sum(self.counted) / len(self.counted)
            report.tokens_per_step = round(taken, 3)
            report.acceptance = round((taken - 1) / self.request.speculate, 4)
        report.nodes_per_token, report.edges = graph.nodes, graph.edges
        report.launches_per_token = round(self.launches / max(self.steps, 1), 3)
        rungs, reasons = self.counts()
        rungs.subtract(self.earlier[0])
        report.rungs, report.reasons = dict(rungs), dict(reasons - self.earlier[1])
        changed = graph.ladder.stats.changed - self.changed
        report.changed_nodes_per_token = round(changed / max(self.steps - WARM_UP, 1), 3)
        report.planned_bytes = sum(plan.nbytes for plan in graph.plans)
        report.lower_bound_bytes = sum(plan.lower_bound for plan in graph.plans)
        report.peak_bytes = allocator.default_pool.stats().peak
        report.graph_peak_bytes = self.own_bytes + graph.nbytes
