"""A decoder writes a few texts side by side; each step takes one token of every text.

What a step depends on (token, position, the prompt's length, temperature, seed) lives on the device, and the step
itself writes what the next one needs. So every step of a text launches the same executable graph unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hiprt import Array, Event, Stream, array, kernels, use_stream
from hiprt.bench.engine.blocks import Blocks
from hiprt.bench.engine.draft import Draft, check_draft
from hiprt.bench.engine.logprobs import Likely
from hiprt.bench.engine.models.model import Model, Recurrent
from hiprt.bench.engine.prompt_cache import PromptCache
from hiprt.bench.engine.prompts import CHUNK, Chunk, Prompts, Tokens, check_prompt, chunks, prompts_of, tokens_of
from hiprt.bench.engine.room import Room
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.speculation import Speculation, check_speculation
from hiprt.bench.engine.state import IDLE, State
from hiprt.bench.engine.steps import Steps
from hiprt.kernels.ops.elementwise.copies import copy_into
from hiprt.kernels.tuning.choices import SECONDS
from hiprt.kernels.tuning.target import target_of

__all__ = ["Decoder", "Mark"]


class Mark(NamedTuple):
    """A point behind a step: an event there, how many tokens each text had then, where they lay, steps so far."""

    event: Event
    lengths: tuple[int, ...]
    tokens: Array
    steps: int


class Decoder:
    """The state of a few texts on the device, and the steps that continue them.

    Parameters
    ----------
    model : Model
    stream : Stream
        The stream on which the steps run.
    capacity : int
        The tokens of a text for which there is memory, prompt included.
    keep : bool
        Whether steps are kept. False records each step again, as in an engine that issues every launch for each token.
    batch : int
        How many texts are written side by side.
    limit : int, optional
        The capacity up to which the caches grow, each time to twice their size. By default they do not grow.
    chunk : int
        The most tokens of a prompt that one step takes: a power of two.
    sampling : Sampling, optional
        The penalties and filters of a draw; none by default. `start` gives temperature and seed.
    logprobs : int, optional
        How many of the likeliest tokens `likely` tells for each place; by default nothing is kept for it.
    seconds : float
        How long `kernels.timed_choices` may take, on a device without a measured table: for a step, and for the first
        chunk of a prompt of each size.
    kv_bits : int, optional
        8 for keys and values in 8 bits; by default they are in the dtype of the model.
    drafts : int, optional
        How many tokens each step guesses and checks, as `Speculation` says, of a single text.
    draft : Model, optional
        The model that guesses them, which has the same tokens; by default they are guessed from the text.
    kv_blocks : int, optional
        The tokens of a block of keys and values: a power of two from 16 to 4,096. The texts share a pool of such
        blocks, of which each takes those that it needs; by default each has memory for the capacity.
    kv_pool : int, optional
        How many blocks there are; by default as many as all texts need up to `limit`.

    Attributes
    ----------
    logits : Array, shape (batch, vocab_size)
        What the last step computed, or the last chunk, which has a row for its text only. The next one overwrites it.
    state : State
        What the texts keep on the device.
    positions : list of int
        How many tokens of each text have been taken: the most that there may be, until `read_step` has read what each
        step took of its guesses, or `settle` where the text stands.
    graph : Step
        The decode step.
    filling : Step
        The step that takes a chunk of a prompt.
    eager_steps : int
        How many steps ran without a graph because the caller asked for it.
    speculation : Speculation or None

    Raises
    ------
    ValueError
        There is no text, `chunk` is not a power of two, the heads of the model cannot be kept in `kv_bits`, drafts do
        not go with the model, with `sampling`, with `logprobs` or with several texts, `kv_blocks` is no such number, or
        does not go with `kv_bits` or with drafts, or `kv_pool` comes without it.
    """

    logits: Array

    def __init__(
        self,
        model: Model,
        stream: Stream,
        capacity: int,
        *,
        keep: bool = True,
        batch: int = 1,
        limit: int | None = None,
        chunk: int = CHUNK,
        sampling: Sampling | None = None,
        logprobs: int | None = None,
        seconds: float = SECONDS,
        kv_bits: int | None = None,
        drafts: int | None = None,
        draft: Model | None = None,
        kv_blocks: int | None = None,
        kv_pool: int | None = None,
    ) -> None:
        if chunk < 1 or chunk & (chunk - 1):
            raise ValueError(f"chunk={chunk}: must be a power of two")
        if batch < 1:
            raise ValueError(f"batch={batch}: must be at least 1")
        if kv_pool is not None and kv_blocks is None:
            raise ValueError(f"kv_pool={kv_pool}: say by kv_blocks how many tokens a block has")
        if drafts is not None:
            check_speculation(model.config, sampling or Sampling())
            if draft is not None:
                check_draft(model.config, draft.config)
            if batch > 1 or logprobs is not None:
                raise ValueError("a step that guesses tokens is of one text, and tells no other likely tokens")
        self.model, self.stream, self.chunk = model, stream, chunk
        self.room = Room(capacity, max(capacity, limit or capacity))
        if kv_blocks is not None:
            if kv_bits is not None or drafts is not None:
                raise ValueError(f"kv_blocks={kv_blocks}: it does not go with kv_bits or drafts, leave these out")
            self.room.capacity = capacity = self.room.limit  # only what is small depends on it
        with use_stream(stream):
            blocks = None
            if kv_blocks is not None:
                most = batch * -(-capacity // max(kv_blocks, 1))
                blocks = Blocks(kv_blocks, most if kv_pool is None else kv_pool, batch, capacity, chunk)
            given = sampling or Sampling(), logprobs, kv_bits, blocks
            self.state = state = State.empty(model, batch, capacity, chunk, *given)
            self.speculation = None
            if drafts is not None:
                guesses = None if draft is None else Draft(draft, drafts, capacity, kv_bits)
                self.speculation = Speculation(drafts, guesses)
        self.recorded = Steps(model, state, self.speculation, stream, keep, seconds)
        self.graph, self.filling, self.drawing = self.recorded.decode, self.recorded.fill, self.recorded.draw
        self.positions, self.lengths = [0] * batch, [0] * batch
        self.idle: set[int] = set()  # the texts that have ended, and have no successor
        self.prompts: list[list[int]] = []
        self.is_filling = False  # whether some tokens of the prompts have been taken by `prefill`, and not yet all
        self.events: list[Event] = []
        self.saved: tuple[int, list[Recurrent]] | None = None
        self.save_at = 0
        self.eager_steps = self.steps = 0

    @property
    def capacity(self) -> int:
        """How many tokens of a text there is memory for."""
        return self.room.capacity

    @property
    def batch(self) -> int:
        """How many texts are written side by side."""
        return len(self.positions)

    @property
    def position(self) -> int:
        """How many tokens of the longest text have been taken."""
        return max(self.positions)

    def start(
        self,
        prompt: Prompts,
        temperature: float = 0.0,
        seed: int = 0,
        *,
        kept: int = 0,
        save_at: int = 0,
    ) -> None:
        """Begin the texts.

        Parameters
        ----------
        prompt : sequence or array of int, or a sequence of them
            The first tokens of all texts, or of each; at least one token.
        temperature : float
            0 takes the likeliest token; higher values draw more evenly.
        seed : int
            The seed of the first text's draws; text i has ``seed + i``, and each position draws anew.
        kept : int
            How many of the first tokens of every prompt the caches hold already, as `rewind` returns it: these are not
            taken again.
        save_at : int
            How many tokens of the prompt `prefill` takes before it calls `save`, if that saves anything; 0 for never.

        Raises
        ------
        ValueError
            A prompt is empty, too long, or holds a token that the model lacks, a text has none, none of a prompt's
            tokens is left to be taken, or `temperature` or `seed` are out of the range that `Sampling` has for them.
        PoolError
            The pool has too few blocks for the prompts. The texts before can go on then.
        """
        Sampling(temperature=temperature, seed=seed)
        prompts = prompts_of(prompt, self.batch)
        for each in prompts:
            check_prompt(each, self.model.config.vocab_size, self.room.limit)
        longest = max(map(len, prompts))
        if not 0 <= kept < min(map(len, prompts)):
            raise ValueError(f"{kept} tokens are kept of a prompt of {min(map(len, prompts))}: one at least is taken")
        if longest >= self.capacity:
            self.grow(longest + 1)
        if self.blocks is not None:
            needs = {i: len(each) for i, each in enumerate(prompts)}
            self.blocks.reserve(needs, self.stream, ended=range(0 if kept else self.batch))
        with use_stream(self.stream):
            self.state.start(prompts, temperature, seed, kept)
            if self.speculation is not None:
                self.speculation.start()
        if self.saved is not None and self.saved[0] > kept:
            self.saved = None  # it is of a text that goes on differently
        self.prompts, self.positions, self.lengths = prompts, [kept] * self.batch, [*map(len, prompts)]
        self.steps, self.is_filling = 0, False
        self.idle.clear()
        self.save_at = 0 if self.state.is_rewindable else save_at
        if 0 < self.save_at == kept:
            self.save()

    def release(self, sequence: int) -> None:
        """End a text while the others go on: its blocks are free for them, and its place for another text.

        Parameters
        ----------
        sequence : int
            The number of the text. Until `begin`, what steps draw for it means nothing.

        Raises
        ------
        ValueError
            There is no such text.
        """
        if not 0 <= sequence < self.batch:
            raise ValueError(f"text {sequence}: there are those from 0 to {self.batch - 1}")
        with use_stream(self.stream):
            self.state.stop(sequence)
        if self.blocks is not None:
            self.blocks.release(sequence, self.stream)
        self.positions[sequence] = self.lengths[sequence] = 0
        self.saved = None
        self.idle.add(sequence)

    def begin(
        self,
        sequence: int,
        prompt: Tokens,
        seed: int | None = None,
        *,
        temperature: float | None = None,
        eager: bool = False,
    ) -> None:
        """Begin a text in the place of another one while the others stay where they are.

        All of its prompt but the last token is taken at once; the next step takes that one, and draws the first token.

        Parameters
        ----------
        sequence : int
            The number of the text whose place it takes: one that was released, or that ends with this.
        prompt : sequence or array of int
            At least one token.
        seed : int, optional
            That of its draws; by default the place keeps its own.
        temperature : float, optional
            The same.
        eager : bool
            Whether each kernel is launched by itself.

        Raises
        ------
        ValueError
            There is no such text, none has begun yet, `prefill` has not come to its end, the prompt is empty, too long,
            or holds a token that the model lacks, seed or temperature are out of range, or the steps guess tokens.
        PoolError
            The pool has too few blocks for the prompt. The place is free then, and the other texts can go on.
        """
        prompt = tokens_of(prompt)
        check_prompt(prompt, self.model.config.vocab_size, self.room.limit)
        if not self.prompts or self.speculation is not None:
            raise ValueError("begin is for texts beside others, without guesses: call start for the first ones")
        self.check_filled()
        Sampling(seed=seed or 0, temperature=temperature or 0.0)
        self.release(sequence)
        if len(prompt) >= self.capacity:
            self.grow(len(prompt) + 1)
        if self.blocks is not None:
            self.blocks.reserve({sequence: len(prompt)}, self.stream)
        with use_stream(self.stream):
            self.state.begin(sequence, prompt)
            self.state.sampler.begin(sequence, temperature, seed)
        self.prompts = [*self.prompts[:sequence], prompt, *self.prompts[sequence + 1 :]]
        for chunk in self.chunks(len(prompt) - 1):
            self.take_chunk(sequence, chunk, eager=eager)
        with use_stream(self.stream):
            self.state.go_on(sequence, prompt)
        self.lengths[sequence] = len(prompt)
        self.idle.remove(sequence)

    def save(self) -> None:
        """Keep what cannot be rewound as it is now, so that `rewind` can come back here."""
        if not self.state.is_rewindable:
            with use_stream(self.stream):
                self.saved = self.position, self.state.copy_recurrent()

    def rewind(self, tokens: int) -> int:
        """Go back in a single text, so that another one can begin with its first tokens.

        Caches of keys and values go back anywhere; what recurrent layers keep stands at the end, and where `save` was
        called.

        Parameters
        ----------
        tokens : int
            How many tokens the two texts have in common.

        Returns
        -------
        int
            How many of them need not be taken again: ``kept`` of `start`.
        """
        if self.state.is_rewindable or tokens == self.position:
            return min(tokens, self.position)
        if self.saved is None or self.saved[0] > tokens:
            return 0
        with use_stream(self.stream):
            self.state.restore(self.saved[1])
        return self.saved[0]

    def write_cache(self, path: Path | str) -> None:
        """Write a file with which `read_cache` begins behind the text of this decoder.

        It has what the layers keep of all tokens that were taken, or of those before `save` where that was called for
        recurrent layers.

        Raises
        ------
        ValueError
            There are several texts, or none has been begun, or its keys and values are in blocks.
        OSError
            The file cannot be written.
        """
        self.refuse_blocks()
        if self.batch > 1 or not self.position:
            raise ValueError(f"a prompt cache is of one text: the decoder has {self.batch}, of {self.position} tokens")
        at, recurrent = self.saved or (self.position, None)
        with use_stream(self.stream):
            parts = self.state.kept(at, recurrent)
            layers = {name: kernels.contiguous(part[0]).numpy(self.stream) for name, part in parts.items()}
        tokens = self.state.tokens[0, : self.position].numpy(self.stream)
        PromptCache.write(path, self.model.identity, tokens.tolist(), at, layers)

    def read_cache(self, path: Path | str, prompt: Prompts) -> int:
        """Take over what a file of `write_cache` has of the first tokens of prompts, which `start` gets next.

        Caches of keys and values are taken over as far as all prompts agree with the file; recurrent layers only as a
        whole, if all prompts go on from its text.

        Parameters
        ----------
        path : Path or str
        prompt : sequence or array of int, or a sequence of them
            The prompt of all texts, or of each.

        Returns
        -------
        int
            How many tokens need not be taken again: ``kept`` of `start`.

        Raises
        ------
        CheckpointError
            The file is missing, damaged, of another model, or has keys and values of other bits.
        ValueError
            The number of prompts is not that of the texts, or keys and values are in blocks.
        """
        self.refuse_blocks()
        cache = PromptCache(path, self.model.identity)
        cache.check_bits(self.state.kv_bits)
        kept = cache.common(prompts_of(prompt, self.batch))
        if kept < cache.positions and not self.state.is_rewindable:
            kept = 0
        if kept >= self.room.limit:
            raise ValueError(f"{path} has {kept} tokens, too many for a capacity of {self.room.limit}")
        if kept >= self.capacity:
            self.grow(kept + 1)
        self.saved = None
        with use_stream(self.stream):
            for name, part in self.state.kept(kept).items():
                found = cache.layer(name, kept, part.shape[1:], part.dtype)
                for sequence in range(self.batch if kept else 0):
                    copy_into(part[sequence], array(found), self.stream)
        return kept

    def refuse_blocks(self) -> None:
        """Raise ValueError where a prompt cache is asked for, and keys and values are in blocks."""
        if self.blocks is not None:
            raise ValueError("a prompt cache has keys and values one behind the other: leave kv_blocks out")

    @property
    def is_in_prompt(self) -> bool:
        """Whether the next step takes a token of a prompt other than its last one."""
        return any(position + 1 < length for position, length in zip(self.positions, self.lengths))

    def prefill(self, *, eager: bool = False) -> Iterator[int]:
        """Take the prompts in chunks, and draw the first token behind each; what is released meanwhile is left out.

        Parameters
        ----------
        eager : bool
            Whether each kernel is launched by itself.

        Yields
        ------
        int
            After each chunk, how many tokens of all prompts have been taken. A decoder whose prompts were not taken to
            the end must start again.

        Raises
        ------
        ValueError
            The texts have not begun, or have got beyond their prompts.
        """
        if not self.prompts or any(at >= length for at, length in zip(self.positions, self.lengths) if length):
            raise ValueError("prefill takes the prompts behind start, once; a text that begin has begun needs none")
        self.is_filling = True
        for sequence, prompt in enumerate(self.prompts):
            before = max(self.save_at - self.positions[sequence], 0)
            behind = len(prompt) - self.positions[sequence] - before
            for chunk in self.chunks(before) + self.chunks(behind):
                if sequence in self.idle:
                    break
                self.take_chunk(sequence, chunk, eager=eager)
                if self.positions[sequence] == self.save_at:
                    self.save()
                taken = sum(self.positions)
                if taken == sum(self.lengths):
                    self.draw(eager=eager)
                yield taken
        if self.is_filling:  # the last text was released meanwhile
            self.draw(eager=eager)

    def draw(self, *, eager: bool) -> None:
        """Draw the first token behind each prompt."""
        ends = [IDLE if i in self.idle else length - 1 for i, length in enumerate(self.lengths)]
        self.state.stand_at(ends, self.stream)
        (self.drawing.eager if eager else self.drawing)()
        self.is_filling = False

    def chunks(self, length: int) -> list[Chunk]:
        """Return the chunks of so many tokens of a prompt."""
        table = target_of(self.stream).table
        return chunks(length, self.chunk, may_repeat=self.state.is_rewindable, step_tokens=table.step_tokens)

    def take_chunk(self, sequence: int, chunk: Chunk, *, eager: bool) -> None:
        """Take the next tokens of a text's prompt."""
        at = self.positions[sequence] - chunk.repeated
        self.state.give(self.prompts[sequence][at : at + chunk.size], at, self.stream)
        self.logits = self.recorded.take_chunk(sequence, chunk.size, eager=eager)
        self.positions[sequence] = at + chunk.size
        self.eager_steps += eager

    def step(self) -> None:
        """Take the next token of each text, and those guesses that are right, as one graph launch."""
        self.make_room()
        self.logits = self.graph()
        self.count()

    def step_eager(self) -> None:
        """Take the same tokens, launching each kernel by itself."""
        self.make_room()
        self.logits = self.graph.eager()
        self.count()
        self.eager_steps += 1

    @property
    def draft(self) -> Draft | None:
        """The model that guesses."""
        return None if self.speculation is None else self.speculation.draft

    @property
    def drafts(self) -> int:
        """How many tokens each step guesses."""
        return 0 if self.speculation is None else self.speculation.drafts

    @property
    def blocks(self) -> Blocks | None:
        """The blocks that the texts share."""
        return self.state.blocks

    def count(self) -> None:
        """Count a step, as if all of its guesses were right."""
        taken = 1 + self.drafts
        self.positions = [at if i in self.idle else at + taken for i, at in enumerate(self.positions)]
        self.steps += 1

    def make_room(self) -> None:
        """Make room for the next token of each text; refuse to step before `start`, at the limit, without blocks."""
        if not self.prompts:
            raise ValueError("the decoder has no prompt: call start first")
        self.check_filled()
        needed = self.position + 2 + self.drafts
        if needed > self.room.limit:
            text, length = self.positions.index(self.position), self.position + 1
            cause = f"text {text} has {length} tokens, behind which {1 + self.drafts} more exceed the capacity"
            raise ValueError(f"{cause} of {self.room.limit}: release it, or make a decoder whose limit is larger")
        if needed > self.capacity:
            self.grow(needed)
        if self.blocks is not None:
            tokens = {i: position + 1 for i, position in enumerate(self.positions) if i not in self.idle}
            self.blocks.reserve(tokens, self.stream)

    def check_filled(self) -> None:
        """Raise ValueError where `prefill` has taken some tokens of the prompts only."""
        if self.is_filling:
            raise ValueError("the prompts have not been taken to their end: go on with prefill, or call start again")

    def grow(self, needed: int) -> None:
        """Move to caches of at least twice the size; the next step is recorded again and changes its graph."""
        old, larger = self.capacity, self.room.larger(needed)
        self.recorded.forget()  # where memory runs out, some arrays may have moved
        with use_stream(self.stream):
            self.state.grow(self.model, old, larger)
            if self.draft is not None:
                self.draft.grow(old, larger)
        self.room.capacity = larger

    def token(self, sequence: int = 0) -> int:
        """Return the token that follows those taken so far: one of the prompt, or the one that the last step drew."""
        position = self.positions[sequence]
        token = int(self.state.tokens[sequence, position : position + 1].numpy(self.stream)[0])
        self.model.check()
        return token

    def likely(self, sequence: int, start: int, ids: list[int]) -> list[Likely]:
        """Return how likely tokens of a text were, of which the first is at the position `start`; see `Logprobs`."""
        assert self.state.logprobs is not None
        return self.state.logprobs.read(sequence, start, ids, self.stream)

    def mark(self) -> Mark:
        """Return the point behind the last step, at which `read` reads while later steps run; two are kept."""
        while len(self.events) < 2:
            self.events.append(Event(timing=False))
        event = self.events.pop(0)
        self.events.append(event)
        event.record(self.stream)
        return Mark(event, tuple(self.positions), self.state.tokens, self.steps)

    def read(self, mark: Mark, stream: Stream) -> list[int]:
        """Return the token that each text had drawn at a mark; this waits for no later step.

        Parameters
        ----------
        mark : Mark
        stream : Stream
            The stream to read on, another one than that of the steps.

        Raises
        ------
        RankError
            A rank is gone that has a part of the model.
        """
        places = enumerate(mark.lengths)
        tokens = [int(mark.tokens[i, at : at + 1].numpy(stream, after=mark.event)[0]) for i, at in places]
        self.model.check()
        return tokens

    def read_step(self, mark: Mark, stream: Stream) -> list[list[int]]:
        """Return the tokens that the step in front of a mark drew, in their order: for each place that of every text.

        A step that guesses takes several places, another one a single place. The parameters and errors are those of
        `read`; every mark of a text is read once.
        """
        if self.speculation is None or not mark.steps:
            return [self.read(mark, stream)]
        tokens = self.speculation.read(mark.steps, mark.event, stream)
        self.model.check()
        self.positions = [position - (self.drafts + 1 - len(tokens)) for position in self.positions]
        return [[token] for token in tokens]

    def settle(self) -> None:
        """Take over where the text stands, at its end, where the last steps that guessed are not read."""
        if self.speculation is not None:
            self.positions = self.state.block[1].numpy(self.stream).tolist()
