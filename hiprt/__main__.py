"""The command ``hiprt``, also ``python -m hiprt``."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hiprt import CompileError, HipError, ProviderError, __version__

if TYPE_CHECKING:
    from hiprt.bench.engine.generate import Report

__all__ = ["main"]

FAILURE, INTERRUPTED = 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status (2, for wrong usage, is raised by argparse)."""
    options = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            return int(options.run(options))
    except KeyboardInterrupt:
        print("\nhiprt: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`hiprt generate | head`); what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except (HipError, ProviderError, ValueError, OSError, MemoryError) as error:
        if options.debug:
            raise
        print(f"hiprt: {sentence(error)}", file=sys.stderr)
        return FAILURE


def parser() -> argparse.ArgumentParser:
    """Return the definition of the command line."""
    top = argparse.ArgumentParser("hiprt", description="One HIP graph launch per token.")
    top.add_argument("--version", action="version", version=f"hiprt {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    common.add_argument("--debug", action="store_true", help="show where an error came from")

    write = commands.add_parser("generate", parents=[common], help="write text with a model")
    write.set_defaults(run=run_generate, refuse=write.error)
    write.add_argument(
        "--model",
        metavar="DIR",
        help="Hugging Face directory of a Qwen3, Qwen3 MoE, Qwen3-Next or Qwen3.5 model (default: a small one of ours)",
    )
    write.add_argument(
        "--prompt", metavar="TEXT", action="append", help="what the text begins with; several are written side by side"
    )
    write.add_argument("--batch", metavar="N", type=int, help="texts of one prompt, at most 8 (default: 1)")
    write.add_argument("--tokens", metavar="N", type=int, help="stop after N tokens (default: 200)")
    write.add_argument("--temperature", metavar="T", type=float, help="0 (default) takes the likeliest token")
    write.add_argument("--seed", metavar="S", type=int, help="of the draws at a temperature above 0 (default: 0)")
    write.add_argument("--eager", action="store_true", help="launch every kernel by itself")
    write.add_argument("--verify", action="store_true", help="run eagerly beside and compare every logit bit by bit")
    write.add_argument("--plain", action="store_true", help="leave weights that are not quantised as they are")
    write.add_argument("--rerecord", action="store_true", help="record every step again, as some engines must")

    measure = commands.add_parser("bench", help="measure graphs, allocation, decoding and kernels, beside others")
    if "bench" in sys.argv[1:2]:
        # Its arguments are the benchmark's own, so that the others start without it.
        from hiprt.bench import BENCHES

        bench = measure.add_subparsers(required=True, metavar="WHAT")
        for name, text in BENCHES.items():
            measured = bench.add_parser(name, parents=[common], help=text)
            if name in sys.argv[2:3]:
                module = import_module(f"hiprt.bench.{name}")
                module.add_arguments(measured)
                measured.set_defaults(run=module.run)
    ahead = commands.add_parser("compile", parents=[common], help="compile kernels ahead, also for GPUs not here")
    if "compile" in sys.argv[1:2]:
        from hiprt.kernels.offline import command
        from hiprt.metal_compat import backend

        backend.register()
        command.add_arguments(ahead)
        ahead.set_defaults(run=command.run)
    doctor = commands.add_parser("doctor", parents=[common], help="show what hiprt runs on and what stands in its way")
    doctor.set_defaults(run=run_doctor)
    return top


def run_generate(options: argparse.Namespace) -> int:
    """Write text and what it cost."""
    from hiprt.bench.engine.generate import Request, generate

    names = ("model", "tokens", "temperature", "seed", "eager", "verify", "rerecord", "batch", "plain")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.prompt:
        given["prompt"] = options.prompt[0] if len(options.prompt) == 1 else tuple(options.prompt)
    try:
        request = Request(**given)
    except ValueError as error:
        options.refuse(str(error))
    printer = Printer(request.prompts[0], is_silent=options.json)
    with interruptible() as interrupt:
        report = generate(request, printer.write, interrupt.poll, printer.progress)
    printer.finish(p + text for p, text in zip(request.prompts[1:], report.texts[1:]))
    if options.json:
        print(json.dumps(report.as_dict()))
    else:
        print_table(table(report))
    if report.mismatch:
        print(f"hiprt: graph and eager differ at {report.mismatch}", file=sys.stderr)
        return FAILURE
    return INTERRUPTED if report.stop == "interrupted" else 0


def run_doctor(options: argparse.Namespace) -> int:
    """Say what hiprt runs on."""
    from hiprt.doctor import diagnose, render

    report = diagnose()
    print(json.dumps(report, indent=2) if options.json else render(report))
    if report["problem"]:
        print(f"hiprt: {report['problem']}", file=sys.stderr)
    return 0 if report["usable"] else FAILURE


class Printer:
    """Text as it comes: the prompt first, then each piece at once.

    Parameters
    ----------
    prompt : str
    is_silent : bool
        Print nothing.
    """

    HINT = "preparing kernels (the first run compiles them) ..."

    def __init__(self, prompt: str, *, is_silent: bool) -> None:
        self.prompt: str | None = prompt
        self.is_silent = is_silent
        self.is_hinting = sys.stderr.isatty() and not is_silent
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that lacks a character shows a question mark; it does not end the program.
            sys.stdout.reconfigure(errors="replace")
        if self.is_hinting:
            print(self.HINT, end="", file=sys.stderr, flush=True)

    def write(self, piece: str) -> None:
        """Print a piece."""
        if self.is_silent:
            return
        if self.is_hinting:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.is_hinting = False
        if self.prompt is not None:
            piece, self.prompt = self.prompt + piece, None
        print(piece, end="", flush=True)

    def progress(self, taken: int, length: int) -> None:
        """Say on a terminal how far a long prompt is taken."""
        if self.is_hinting:
            print(f"\r\x1b[Kprompt: {taken} of {length} tokens ...", end="", file=sys.stderr, flush=True)

    def finish(self, others: Iterable[str]) -> None:
        """End the text, and print those that were written beside it."""
        self.write("\n\n")
        for text in others:
            self.write(f"{text}\n\n")


class Interrupt:
    """Ctrl-C while text is written: the first ends the text, a second one the program.

    Before the first step is over it ends the program at once, since that step may be compiling for a while.
    """

    def __init__(self) -> None:
        self.asked = False
        self.polls = 0

    def poll(self) -> bool:
        """Whether to end the text; asked before each step."""
        self.polls += 1
        return self.asked

    def __call__(self, *_: object) -> None:
        if self.asked or self.polls < 2:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Turn Ctrl-C into a question that the loop asks between tokens."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)


def table(report: Report) -> list[tuple[str, str]]:
    """Return the rows of the table behind a text."""
    rungs = ", ".join(f"{rung} {count}" for rung, count in report.rungs.items() if count)
    rows = [
        ("provider", f"{report.provider}, {report.device}"),
        ("tokens", f"{report.prompt_tokens} of the prompt, {report.tokens} generated ({report.stop})"),
        ("tok/s", f"{report.tok_s:.1f}"),
        ("prompt tok/s", f"{report.prefill_tok_s:.1f}"),
        ("first token", f"{report.first_token_ms:.1f} ms"),
        ("nodes per token", f"{report.nodes_per_token}, {report.edges} edges"),
        ("launches per token", f"{report.launches_per_token:g}"),
        ("rungs", rungs or "none"),
        ("peak memory", f"{report.peak_bytes / 2**20:.1f} MiB"),
    ]
    if report.verified is not None:
        same = "every logit has the same bits as run eagerly" if report.verified else f"no: {report.mismatch}"
        rows.append(("verified", same))
    return rows


def print_table(rows: list[tuple[str, str]]) -> None:
    """Print rows: a table on a terminal, plain lines elsewhere."""
    if not sys.stdout.isatty():
        for name, value in rows:
            print(f"{name:<20} {value}")
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(show_header=False)
    for name, value in rows:
        grid.add_row(Text(name, style="bold"), Text(value))
    Console().print(grid)


def sentence(error: BaseException) -> str:
    """Return an error as one line."""
    from hiprt.doctor import cause

    text = str(error) or type(error).__name__
    if isinstance(error, ProviderError):
        text = f"{error.args[0]}: " + "; ".join(f"{name}: {reason}" for name, reason in error.tried)
    elif isinstance(error, CompileError) and error.log:
        text = cause(error.log) if error.log.startswith("hiprt: ") else f"{HipError.__str__(error)}: {cause(error.log)}"
    return " ".join(text.split())


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line."""
    print(f"hiprt: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
