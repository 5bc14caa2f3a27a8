"""``hiprt generate``: text on the terminal as a model writes it, and what it cost."""

from __future__ import annotations

import argparse
import io
import json
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hiprt.bench.engine import generate as generation
from hiprt.bench.engine.report import Report
from hiprt.bench.engine.request import DRAW, Request
from hiprt.bench.engine.template import find_template
from hiprt.command import set_run

__all__ = ["Interrupt", "Printer", "add_arguments", "run"]

FAILURE, INTERRUPTED = 1, 130
CHAT = ("system_prompt", "chat_template", "template_values")
FIELDS = ("model", "tokens", *DRAW, *CHAT, "eager", "verify", "rerecord", "batch", "plain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt generate``."""
    add_model(parser)
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        action="append",
        help="what the text begins with, - for the standard input; several are written side by side",
    )
    parser.add_argument("--batch", metavar="N", type=int, help="texts of one prompt, at most 8 (default: 1)")
    parser.add_argument(
        "--prompt-file", metavar="FILE", action="append", help="a file whose text is a prompt; - is the standard input"
    )
    parser.add_argument("--tokens", "--max-tokens", metavar="N", type=int, help="stop after N tokens (default: 200)")
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", help="end before this text; may be given several times"
    )
    add_template(parser)
    add_draw(parser)
    parser.add_argument("--eager", action="store_true", help="launch every kernel by itself")
    parser.add_argument("--verify", action="store_true", help="run eagerly beside and compare every logit bit by bit")
    parser.add_argument("--plain", action="store_true", help="leave weights that are not quantised as they are")
    parser.add_argument("--rerecord", action="store_true", help="record every step again, as some engines must")
    set_run(parser, run)
    parser.set_defaults(refuse=parser.error)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model directory, which may be named with and without ``--model``."""
    said = "Hugging Face directory of a Qwen3, Qwen3 MoE, Qwen3-Next or Qwen3.5 model (default: a small one of ours)"
    parser.add_argument("model", metavar="MODEL", nargs="?", default=argparse.SUPPRESS, help=said)
    parser.add_argument("--model", metavar="DIR", help="the same")


def add_template(parser: argparse.ArgumentParser) -> None:
    """Add how a prompt is put to a model that was trained for conversations."""
    chat = parser.add_argument_group("conversation, where the model has a chat template")
    chat.add_argument("--system-prompt", metavar="TEXT", help="what the model is told before the prompt")
    chat.add_argument(
        "--no-chat-template",
        dest="chat_template",
        action="store_false",
        default=None,
        help="continue the prompt itself",
    )
    chat.add_argument(
        "--chat-template-config",
        dest="template_values",
        metavar="JSON",
        type=json_object,
        help="""what else the template reads, as '{"enable_thinking": false}'""",
    )


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object of an option."""
    try:
        value = json.loads(text)
    except (RecursionError, ValueError):
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"invalid JSON object: {text!r}")
    return value


def add_draw(parser: argparse.ArgumentParser) -> None:
    """Add how tokens are drawn."""
    draw = parser.add_argument_group("how tokens are drawn (defaults: generation_config.json's, else the likeliest)")
    draw.add_argument("--temperature", "--temp", metavar="T", type=float, help="0 takes the likeliest token")
    draw.add_argument("--top-p", metavar="P", type=float, help="of the likeliest tokens with probability P together")
    draw.add_argument("--top-k", metavar="K", type=int, help="of the K likeliest tokens")
    draw.add_argument("--min-p", metavar="P", type=float, help="of tokens with P times the highest probability")
    draw.add_argument("--repetition-penalty", metavar="R", type=float, help="make the last 20 tokens less likely")
    draw.add_argument("--presence-penalty", metavar="R", type=float, help="subtract R from the last 20 tokens' logits")
    draw.add_argument("--seed", metavar="S", type=int, help="seed of the draws at a temperature above 0 (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Write the text, then what it cost; return the exit status."""
    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    try:
        prompts = [read_prompt("-") if prompt == "-" else prompt for prompt in options.prompt or ()]
        prompts += map(read_prompt, options.prompt_file or ())
        if prompts:
            given["prompt"] = prompts[0] if len(prompts) == 1 else tuple(prompts)
        given["stops"] = tuple(options.stop or ())
        request = Request(**given)
    except ValueError as error:
        options.refuse(str(error))
    is_answer = request.chat_template and find_template(Path(request.model)) is not None
    shown = [""] * len(request.prompts) if is_answer else request.prompts
    printer = Printer(shown[0], is_silent=options.json)
    with interruptible() as interrupt:
        report = generation.generate(request, printer.write, interrupt.poll, printer.progress)
    printer.finish(p + text for p, text in zip(shown[1:], report.texts[1:]))
    if options.json:
        print(json.dumps(report.as_dict()))
    else:
        print_table(table(report))
    if report.mismatch:
        print(f"hiprt: graph and eager differ at {report.mismatch}", file=sys.stderr)
        return FAILURE
    return INTERRUPTED if report.stop == "interrupted" else 0


def read_prompt(name: str) -> str:
    """Return the text of a prompt's file; raise ValueError where there is none."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode()
    except OSError as error:
        raise ValueError(f"--prompt-file {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"--prompt-file {name}: byte {error.start + 1} is no valid UTF-8") from None


class Printer:
    """Prints text as it comes: the prompt first, then each piece at once.

    Parameters
    ----------
    prompt : str
    is_silent : bool
        Whether nothing is printed.
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
        """Say on a terminal how many tokens of a long prompt are taken."""
        if self.is_hinting:
            print(f"\r\x1b[Kprompt: {taken} of {length} tokens ...", end="", file=sys.stderr, flush=True)

    def finish(self, others: Iterable[str]) -> None:
        """End the text, and print the texts that were written beside it."""
        self.write("\n\n")
        for text in others:
            self.write(f"{text}\n\n")


class Interrupt:
    """A handler of Ctrl-C while text is written: the first ends the text, a second one the program.

    Before the first step is over, Ctrl-C ends the program at once, since that step may be compiling for a while.
    """

    def __init__(self) -> None:
        self.asked = False
        self.polls = 0

    def poll(self) -> bool:
        """Return whether to end the text; generation asks before each chunk of a prompt and each step."""
        self.polls += 1
        return self.asked

    def __call__(self, *_: object) -> None:
        """Take the signal: ask for the end of the text, or raise KeyboardInterrupt."""
        if self.asked or self.polls < 2:
            raise KeyboardInterrupt
        self.asked = True


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Let Ctrl-C set a mark, within the block, that generation looks at between tokens."""
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
