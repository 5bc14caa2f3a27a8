"""``hiprt bench decode``: the tokens per second of a preset with random weights, and where a token's time goes.

    graph      the decode step is kept and launched again as one graph
    rerecord   the step is recorded again for each token, as an engine does that issues every launch
    eager      every kernel is launched by itself
    compiled   the step is traced by hiprt.compile, with the passes of HIPRT_COMPILE_PASSES, and runs as its graph

Tokens are drawn on the device, so the host waits for none of them. Events between tokens measure the time on the
device; the time on the host is that until a token's launches have returned. All averages over tokens are means, so
that they go with tokens per second. The kernels are timed afterwards, with the
arguments that they have in the step: all nodes of one kernel run in turn as one graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

import hiprt
from hiprt import Array, Stream, allocator, kernels, library, use_stream
from hiprt.bench.engine.blocks import Blocks, check_blocks
from hiprt.bench.engine.command import add_kv_bits, add_kv_blocks, add_speculate
from hiprt.bench.engine.decoder import bucket
from hiprt.bench.engine.draft import Draft, check_draft
from hiprt.bench.engine.models import FORM, PRESETS, Model, preset, read
from hiprt.bench.engine.models.linear import Linear
from hiprt.bench.engine.models.presets import settings_of
from hiprt.bench.engine.models.shard import check
from hiprt.bench.engine.request import check_kv_bits
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.speculation import Speculation, check_drafts, check_speculation, speculate
from hiprt.bench.graph import positive
from hiprt.bench.plain import Plain
from hiprt.bench.table import text_table
from hiprt.bench.timing import Apart, join
from hiprt.command import set_run
from hiprt.distributed import Communicator
from hiprt.distributed.launcher import start_ranks
from hiprt.event import Event
from hiprt.graphs import Recording, Step
from hiprt.graphs.launch.timing import microseconds, read_bandwidth
from hiprt.graphs.record.declarations import declared
from hiprt.graphs.record.recording import Node
from hiprt.graphs.trace.compile import Compiled
from hiprt.machine import machine

__all__ = ["MODES", "Report", "add_arguments", "measure", "run", "weight_bytes"]

MODES = ("graph", "rerecord", "eager", "compiled")
WARM_UP = 4  # tokens
COMPARED = 256  # tokens of steps that guess, at most, that are compared with those of single steps
# The names of these kernels begin like this; they read a part of what they declare, chosen by indices or a position.
PARTIAL = (
    "attention", "dequantize_cache", "gather", "kv_write", "moe", "norm_rope", "paged_attention", "prefill_attention",
    "quantized_attention", "quantized_embedding", "streamed_attention", "take", "wgmma_attention",
)  # fmt: skip


@dataclass(frozen=True)
class Kernel:
    """One kernel of the step, or of a prompt.

    Attributes
    ----------
    name : str
    grid, block : tuple of 3 int
        The shape of the largest launch.
    nodes : int
        How many nodes of the step launch it.
    us : float
        The time of all its nodes together.
    share : float
        Its part of the time of all kernels, from 0 to 1.
    gb_s : float or None
        The bytes that it declares over its time; None for kernels that touch a part of those bytes.
    nbytes : int or None
        These bytes, of all its nodes.
    bandwidth : float or None
        The part of the device's read bandwidth, from 0 to 1.
    tflops : float or None
        The additions and multiplications of its rows with whole matrices over its time; None where it has no matrix.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    nodes: int
    us: float
    share: float
    gb_s: float | None
    nbytes: int | None
    bandwidth: float | None
    tflops: float | None


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


@dataclass
class Report:
    """What decoding costs.

    Attributes
    ----------
    first_token_ms : float
        The time from the start of a prompt of ``context`` tokens to the first drawn token, where its graphs have run
        before.
    first_token_eager_ms : float
        The same where each kernel is launched by itself.
    weight_bytes : int
        The bytes of weights that one step reads.
    read_gb_s : float
        The measured read bandwidth of the device.
    peak_bytes : int
        The most device memory that was in use at a time.
    kernels : list of Kernel
        The kernels of a step, the one that takes the most time first.
    kernels_us : float
        The time of all kernels together.
    prompt_kernels : list of Kernel
        The kernels of a prompt of `context` tokens, where these are asked for.
    tp : int
        Over how many ranks the model is split; all of the above is of the first one.
    kv_bits : int or None
        The bits of the elements of keys and values; None where they are in the dtype of the model.
    kv_blocks : int or None
        The tokens of a block of keys and values; None where each sequence has one piece of memory for them.
    speculate : int or None
        How many tokens a step guesses; None where none.
    draft : str or None
        The preset that guesses; None where the text does.
    acceptance : float or None
        The part of the guesses that was right, from 0 to 1, in the last mode.
    compared, equal : int
        How many tokens were compared with those of single steps, and how many are the same.
    """

    preset: str
    context: int
    tokens: int
    batch: int
    provider: str
    device: str
    weight_bytes: int = 0
    read_gb_s: float = 0.0
    first_token_ms: float = 0.0
    first_token_eager_ms: float = 0.0
    peak_bytes: int = 0
    modes: dict[str, Mode] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    kernels_us: float = 0.0
    prompt_kernels: list[Kernel] = field(default_factory=list)
    tp: int = 1
    kv_bits: int | None = None
    kv_blocks: int | None = None
    speculate: int | None = None
    draft: str | None = None
    acceptance: float | None = None
    compared: int = 0
    equal: int = 0


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
        logits = self.model.decode(self.tokens, self.position, self.state)
        kernels.argmax(logits, out=self.tokens)
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
        return self.timed(self.issue, operations(self.model, self.batch, self.batch), bandwidth)

    def prompt_kernels(self, bandwidth: float) -> list[Kernel]:
        """Time the kernels of a prompt of one sequence likewise."""
        with use_stream(self.stream):
            text, places = hiprt.array(self.prompt), hiprt.array(np.arange(self.context, dtype=np.int32))
        work = operations(self.model, self.context, 1)
        return self.timed(lambda: self.prefill(text, places, 0), work, bandwidth)

    def timed(self, issue: Callable[[], Any], work: Mapping[int, float], bandwidth: float) -> list[Kernel]:
        """Time the kernels of what is launched, each by itself; `work` has the operations of each matrix."""
        recording = Recording(Apart())  # type: ignore[arg-type]
        self.reset()
        with use_stream(self.stream), recording.record(self.stream):
            issue()
        recording.run(self.stream)
        groups: defaultdict[str, list[int]] = defaultdict(list)
        nodes = recording.nodes()
        for index, node in enumerate(nodes):
            groups[node.name].append(index)
        taken = {}
        for name, group in groups.items():
            self.reset()
            taken[name] = microseconds(join(recording, group), self.stream)
        # An array that stands in for one that was not given is declared twice.
        pieces = [set(declared(recording, index)) for index in range(len(nodes))]
        # A product of many rows may be several nodes, which share its rows evenly.
        times = Counter(
            start for node, own in zip(nodes, pieces) if not node.name.startswith(PARTIAL) for start, _, _ in own
        )
        work = {start: count / times[start] for start, count in work.items() if start in times}
        total = sum(taken.values())
        order = sorted(taken, key=lambda name: -taken[name])
        found = []
        for name in order:
            group, us = groups[name], taken[name]
            touched = [each for i in group for each in pieces[i]]
            found.append(entry([nodes[i] for i in group], touched, us, us / total, work, bandwidth))
        return found


def matrices(part: Any, mixture: Any = None) -> Iterator[tuple[Linear, Any]]:
    """Yield the matrices inside a model, each with the mixture of experts to which it belongs, or None."""
    if isinstance(part, Linear):
        yield part, mixture
    elif isinstance(part, (tuple, list)):
        for item in part:
            yield from matrices(item, mixture)
    elif is_dataclass(part):
        mixture = getattr(part, "mixture", None) or mixture
        for name in (each.name for each in fields(part)):
            if name not in ("embedding", "config"):
                yield from matrices(getattr(part, name), mixture)


def weight_bytes(model: Any, batch: int = 1) -> int:
    """Return the bytes of weights that a step reads; of a stack of experts, those that its rows choose at most."""
    total = 0.0
    for matrix, mixture in matrices(model):
        parts = [p for p in (matrix.weight, matrix.scales, matrix.biases) if p is not None]
        count, part = (matrix.weight.shape[0], 1.0) if matrix.weight.ndim == 3 else (1, 1.0)
        if count > 1 and mixture is not None:
            shared = count - mixture.experts
            part = min(1.0, (batch * mixture.chosen + shared) / count)
        total += part * sum(p.nbytes for p in parts)
    return round(total)


def entry(
    nodes: list[Node],
    touched: list[tuple[int, int, int]],
    us: float,
    share: float,
    work: Mapping[int, float],
    bandwidth: float,
) -> Kernel:
    """Return what the report says of one kernel, given its nodes, the bytes that they declare, and their time."""
    largest = max(nodes, key=lambda node: int(np.prod(node.grid)))
    nbytes = None if largest.name.startswith(PARTIAL) else sum(end - start for start, end, _ in touched)
    rate = None if nbytes is None else nbytes / us / 1e3
    flops = 0 if nbytes is None else sum(work.get(start, 0) for start, _, _ in touched)
    return Kernel(
        largest.name,
        largest.grid,
        largest.block,
        len(nodes),
        round(us, 3),
        round(share, 4),
        None if rate is None else round(rate, 1),
        nbytes,
        None if rate is None else round(rate / bandwidth, 4),
        round(flops / us / 1e6, 6) if flops else None,
    )


def operations(model: Any, rows: int, drawn: int) -> dict[int, int]:
    """Return the additions and multiplications of rows with each matrix, by the address of its codes.

    Parameters
    ----------
    model : Model or Plain
        Stacks of experts are left out: what their rows choose is not known here.
    rows, drawn : int
        The rows that the layers take, and those of which logits are made.
    """
    own = model.own if isinstance(model, Plain) else model
    found = {}
    for matrix in [*(each for each, _ in matrices(own)), own.head]:
        if matrix.weight.ndim == 2:
            elements = matrix.weight.size * (32 // matrix.bits if matrix.bits else 1)
            found[matrix.weight.extent[0]] = 2 * (drawn if matrix is own.head else rows) * elements
    return found


def measure(
    name: str,
    context: int = 16,
    tokens: int = 64,
    batch: int = 1,
    modes: tuple[str, ...] = MODES,
    is_plain: bool = False,
    ranks: Communicator | None = None,
    kv_bits: int | None = None,
    drafts: int | None = None,
    draft: str | None = None,
    prompt: bool = False,
    kv_blocks: int | None = None,
    **options: Any,
) -> Report:
    """Measure a preset.

    Parameters
    ----------
    name : str
        A key of `PRESETS`.
    context : int
        The tokens of the prompt, at least 1.
    tokens : int
        How many tokens each mode decodes.
    batch : int
        How many sequences, 1 to 8.
    modes : tuple of str
        Some of `MODES`.
    is_plain : bool
        Whether the step is written in plain ops, as `hiprt.bench.plain.Plain` has it.
    ranks : Communicator, optional
        The ranks over which the model is split. What is reported is this one's; kernels are not timed by themselves,
        since sums wait for other ranks.
    kv_bits : int, optional
        8 for keys and values in 8 bits; by default they are in the dtype of the model.
    drafts : int, optional
        How many tokens each step guesses and checks, of one sequence.
    draft : str, optional
        The preset that guesses them; by default they are guessed from the text.
    prompt : bool
        Whether the kernels of the prompt are timed too.
    kv_blocks : int, optional
        The tokens of a block of keys and values; by default each sequence has one piece of memory for them.
    **options
        Options of `hiprt.bench.engine.models.preset`.
    """
    stream = Stream()
    with use_stream(stream):
        engine = preset(name, ranks=ranks, **options)
        model: Model | Plain = Plain.of(engine) if is_plain else engine
        guesses = None if draft is None else preset(draft, **options)
        stream.synchronize()
    report = Report(name, context, tokens, batch, library.current().provider.name, stream.device.name, kv_bits=kv_bits)
    report.tp = 1 if ranks is None else ranks.ranks
    report.weight_bytes = weight_bytes(engine, batch)
    report.read_gb_s = round(read_bandwidth(stream), 1)
    report.speculate, report.draft, report.kv_blocks = drafts, draft, kv_blocks
    work = Run(model, stream, context, tokens, batch, kv_bits, drafts, guesses, kv_blocks)
    report.first_token_ms, report.first_token_eager_ms = (round(ms, 3) for ms in work.first_tokens())
    for mode in modes:
        report.modes[mode] = work.decode(mode, tokens, report.weight_bytes, report.read_gb_s)
        engine.check()
    if drafts is not None:
        report.acceptance = round((report.modes[modes[-1]].tokens_per_step - 1) / drafts, 4)
        written = work.written()[:COMPARED]
        beside = Run(model, stream, context, COMPARED, 1, kv_bits)
        beside.first_tokens()
        report.compared = len(written)
        report.equal = sum(one == other for one, other in zip(written, beside.single(len(written))))
    if ranks is None:
        report.kernels = work.kernels(report.read_gb_s)
        report.prompt_kernels = work.prompt_kernels(report.read_gb_s) if prompt else []
    report.kernels_us = round(sum(kernel.us for kernel in report.kernels), 2)
    report.peak_bytes = allocator.stats()["peak"]
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench decode``."""
    parser.add_argument("--model", metavar="PRESET", choices=PRESETS, default="qwen3-mini", help=", ".join(PRESETS))
    parser.add_argument("--context", metavar="N", type=positive, default=16, help="tokens of the prompt (default: 16)")
    parser.add_argument("--tokens", metavar="N", type=positive, default=64, help="tokens to decode (default: 64)")
    parser.add_argument("--batch", metavar="B", type=positive, choices=range(1, 9), default=1, help="sequences, 1 to 8")
    parser.add_argument("--mode", choices=(*MODES, "all"), default="all", help="how steps are launched (default: all)")
    parser.add_argument("--prompt", action="store_true", help="time the kernels of the prompt too")
    parser.add_argument("--plain", action="store_true", help="written in plain ops, a matrix each projection")
    add_kv_bits(parser)
    add_kv_blocks(parser)
    add_speculate(parser)
    parser.add_argument("--draft", metavar="PRESET", choices=PRESETS, help="guess them with this preset instead")
    parser.add_argument("--tp", metavar="N", type=positive, default=1, help="split over N devices (default: 1)")
    parser.set_defaults(refuse=parser.error)
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Measure, and print tables or JSON."""
    modes: tuple[str, ...] = MODES if options.mode == "all" else (options.mode,)
    sizes = options.model, options.context, options.tokens, options.batch
    try:
        check_kv_bits(options.kv_bits)
        if options.kv_blocks is not None:
            check_blocks(options.kv_blocks)
            if options.kv_bits or options.speculate or options.plain or options.tp > 1:
                raise ValueError("kv_blocks: it is for one device, without kv_bits, guesses and plain ops")
        if options.draft is not None and options.speculate is None:
            raise ValueError(f"draft={options.draft}: say by speculate how many tokens it guesses")
        if options.speculate is not None:
            modes = check_guesses(options)
    except ValueError as error:
        options.refuse(str(error))
    if options.plain and options.kv_bits is not None:
        options.refuse("models in plain ops have keys and values in their dtype")
    if options.tp == 1:
        given = {name: getattr(options, name) for name in ("kv_bits", "kv_blocks", "draft", "prompt")}
        report = measure(*sizes, modes, options.plain, drafts=options.speculate, **given)
        print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
        return 0
    if options.plain or options.mode == "compiled" or options.prompt:
        options.refuse("models in plain ops and compiled steps are not split over several devices, prompts not timed")
    check(read(settings_of(options.model)), options.tp, FORM.group_size, options.model)
    place, status = start_ranks(options.tp, options.argv)
    if place is None:
        return status
    with Communicator() as ranks:
        report = measure(
            *sizes, tuple(mode for mode in modes if mode != "compiled"), ranks=ranks, kv_bits=options.kv_bits
        )
    if place.rank == 0:
        print(json.dumps({**machine(), **asdict(report)}) if options.json else table(report))
    return 0


def check_guesses(options: argparse.Namespace) -> tuple[str, ...]:
    """Return the modes in which steps can guess; raise ValueError where the options do not go with guesses."""
    check_drafts(options.speculate)
    config = read(settings_of(options.model))
    check_speculation(config, Sampling())
    if options.draft is not None:
        check_draft(config, read(settings_of(options.draft)))
    if options.plain or options.batch > 1 or options.tp > 1 or options.mode == "compiled":
        raise ValueError(
            "speculate: steps that guess are of one sequence on one device, not in plain ops, not compiled"
        )
    return tuple(mode for mode in MODES if mode != "compiled") if options.mode == "all" else (options.mode,)


def table(report: Report) -> str:
    """Return a report as text: a line for each mode, then one for each kernel."""
    size = report.weight_bytes / 2**20
    modes = [
        (
            name,
            f"{mode.tok_s:.1f}",
            f"{mode.ms_per_token['mean']:.3f}",
            f"{mode.ms_per_token['p99']:.3f}",
            f"{mode.host_us_per_token:.1f}",
            f"{mode.weights_gb_s:.0f}",
            f"{mode.share_of_bandwidth:.0%}",
            f"{mode.launches_per_token:.1f}",
        )
        for name, mode in report.modes.items()
    ]
    lines = [
        f"{report.preset} on {report.provider} ({report.device}"
        + f", {report.tp} ranks" * (report.tp > 1)
        + f"), context {report.context}, batch {report.batch}, "
        + "keys and values in 8 bits, " * (report.kv_bits == 8)
        + f"in blocks of {report.kv_blocks}, " * (report.kv_blocks is not None)
        + f"{size:.0f} MiB of weights a token, read bandwidth {report.read_gb_s:.0f} GB/s",
        f"first token {report.first_token_ms:.2f} ms ({report.first_token_eager_ms:.2f} eager), "
        + f"peak {report.peak_bytes / 2**20:.0f} MiB",
        *guessed(report),
        text_table(("mode", "tok/s", "ms mean", "ms p99", "host us mean", "GB/s", "share", "launches"), modes),
        "" if report.tp > 1 else table_of(report.kernels),
        *([f"a prompt of {report.context} tokens", table_of(report.prompt_kernels)] if report.prompt_kernels else []),
    ]
    return "\n".join(lines)


def table_of(timed: list[Kernel]) -> str:
    """Return a line for each kernel, and one for their sum."""
    rows = [
        (
            each.name,
            f"{each.nodes}",
            f"{each.us:.2f}",
            f"{each.share:.0%}",
            "" if each.nbytes is None else f"{each.nbytes / 1e6:.3f}",
            "" if each.gb_s is None else f"{each.gb_s:.0f}",
            "" if each.bandwidth is None else f"{each.bandwidth:.0%}",
            "" if each.tflops is None else f"{each.tflops:.3g}",
            f"{each.grid}, {each.block}",
        )
        for each in timed
    ]
    total = ("sum", f"{sum(each.nodes for each in timed)}", f"{sum(each.us for each in timed):.2f}")
    names = ("kernel", "nodes", "us", "share", "MB", "GB/s", "of reads", "TFLOP/s", "largest grid, block")
    return text_table(names, [*rows, total])


def guessed(report: Report) -> list[str]:
    """Return the line of a report on guesses, if there were any."""
    if report.speculate is None or report.acceptance is None:
        return []
    source = report.draft or "the text"
    taken = list(report.modes.values())[-1].tokens_per_step
    same = f"{report.equal} of {report.compared} tokens are those of single steps"
    told = f"{report.speculate} guesses a step from {source}, {report.acceptance:.0%} right, {taken:.2f} tokens a step"
    return [f"{told}; {same}; ms, us and GB/s are of a step"]
