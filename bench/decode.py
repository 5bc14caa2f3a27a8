"""``hiprt bench decode``: the tokens per second of a preset with random weights, and where a token's time goes.

Tokens are decoded in each of the modes that `decode_run` has; the kernels are timed afterwards, as `kernel_times` does.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from hiprt import Stream, allocator, library, use_stream
from hiprt.bench.decode_run import MODES, Mode, Run
from hiprt.bench.engine.blocks import check_blocks
from hiprt.bench.engine.command import add_kv_bits, add_kv_blocks, add_speculate
from hiprt.bench.engine.draft import check_draft
from hiprt.bench.engine.models import FORM, PRESETS, Model, preset, read
from hiprt.bench.engine.models.presets import settings_of
from hiprt.bench.engine.models.shard import check
from hiprt.bench.engine.request import check_kv_bits
from hiprt.bench.engine.sampling import Sampling
from hiprt.bench.engine.speculation import check_drafts, check_speculation
from hiprt.bench.graph import positive
from hiprt.bench.kernel_times import Kernel, kernel_table
from hiprt.bench.model_matrices import weight_bytes
from hiprt.bench.plain import Plain
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.distributed import Communicator
from hiprt.distributed.launcher import start_ranks
from hiprt.graphs.launch.timing import read_bandwidth
from hiprt.machine import machine

__all__ = ["Report", "add_arguments", "measure", "run", "table"]

COMPARED = 256  # tokens of steps that guess, at most, that are compared with those of single steps


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
        "" if report.tp > 1 else kernel_table(report.kernels),
    ]
    if report.prompt_kernels:
        lines += [f"a prompt of {report.context} tokens", kernel_table(report.prompt_kernels)]
    return "\n".join(lines)


def guessed(report: Report) -> list[str]:
    """Return the line of a report on guesses, if there were any."""
    if report.speculate is None or report.acceptance is None:
        return []
    source = report.draft or "the text"
    taken = list(report.modes.values())[-1].tokens_per_step
    same = f"{report.equal} of {report.compared} tokens are those of single steps"
    told = f"{report.speculate} guesses a step from {source}, {report.acceptance:.0%} right, {taken:.2f} tokens a step"
    return [f"{told}; {same}; ms, us and GB/s are of a step"]
