"""``hiprt generate``: text on the terminal as a model writes it, and what it cost."""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from hiprt.bench.engine import generation
from hiprt.bench.engine.checkpoint import Checkpoint
from hiprt.bench.engine.loading_bar import LoadingBar
from hiprt.bench.engine.models import read
from hiprt.bench.engine.models.shard import check
from hiprt.bench.engine.report import Choice, Report
from hiprt.bench.engine.request import DRAW, Request
from hiprt.bench.engine.template import find_template
from hiprt.command import set_run
from hiprt.distributed.launcher import start_ranks
from hiprt.kernels.ops.quantized.formats import MODES

__all__ = ["Interrupt", "Printer", "add_arguments", "run"]

FAILURE, INTERRUPTED = 1, 130
CHAT = ("system_prompt", "chat_template", "template_values")
FIELDS = (
    "model",
    "tokens",
    *DRAW,
    *CHAT,
    "eager",
    "verify",
    "rerecord",
    "batch",
    "plain",
    "q_mode",
    "logprobs",
    "load_cache",
    "save_cache",
    "kv_bits",
    "kv_blocks",
    "speculate",
    "draft",
    "tp",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt generate``."""
    add_model(parser)
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        action="append",
        help="what the text begins with, - for the standard input; several are written side by side, up to 8 at a time",
    )
    parser.add_argument("--batch", metavar="N", type=int, help="texts of one prompt (default: 1)")
    parser.add_argument(
        "--prompt-file", metavar="FILE", action="append", help="a file whose text is a prompt; - is the standard input"
    )
    parser.add_argument(
        "--prompt-ids",
        metavar="IDS",
        action="append",
        help="a prompt as tokens: 1,2,3, or a file of such numbers; - is the standard input",
    )
    parser.add_argument("--tokens", "--max-tokens", metavar="N", type=int, help="stop after N tokens (default: 200)")
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", help="end before this text; may be given several times"
    )
    parser.add_argument(
        "--save-cache", metavar="FILE", help="write what the layers keep of the prompt to a file, as safetensors"
    )
    parser.add_argument(
        "--load-cache", metavar="FILE", help="begin from such a file, as far as the prompt agrees with it"
    )
    parser.add_argument(
        "--logprobs",
        metavar="N",
        type=int,
        help="print the log probability of each token, and of the N likeliest at its place, from 0 to 20",
    )
    add_kv_bits(parser)
    add_kv_blocks(parser)
    add_speculate(parser)
    parser.add_argument(
        "--draft", metavar="DIR", help="guess them with this smaller model of the same tokenizer instead, in 4 bits"
    )
    parser.add_argument(
        "--tp", metavar="N", type=int, help="split the model over N devices, each with a process (default: 1)"
    )
    add_template(parser)
    add_draw(parser)
    parser.add_argument("--eager", action="store_true", help="launch every kernel by itself")
    parser.add_argument("--verify", action="store_true", help="run eagerly beside and compare every logit bit by bit")
    add_quantization(parser)
    parser.add_argument("--rerecord", action="store_true", help="record every step again, as some engines must")
    set_run(parser, run)
    parser.set_defaults(refuse=parser.error)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model directory, which may be named with and without ``--model``."""
    said = "Hugging Face directory of a Qwen3, Qwen3 MoE, Qwen3-Next or Qwen3.5 model (default: a small one of ours)"
    either = parser.add_mutually_exclusive_group()
    either.add_argument("model", metavar="MODEL", nargs="?", default=argparse.SUPPRESS, help=said)
    either.add_argument("--model", metavar="DIR", help="the same")


def add_kv_bits(parser: argparse.ArgumentParser) -> None:
    """Add in how many bits keys and values are kept."""
    said = "keep keys and values in 8 bits, with a scale for each group of 64 (default: in the dtype of the model)"
    parser.add_argument("--kv-bits", metavar="8", type=int, help=said)


def add_kv_blocks(parser: argparse.ArgumentParser) -> None:
    """Add in what blocks keys and values are kept."""
    said = "keep keys and values in blocks of N tokens, a power of two from 16 on, of a pool that the texts share"
    parser.add_argument("--kv-blocks", metavar="N", type=int, help=said)


def add_speculate(parser: argparse.ArgumentParser) -> None:
    """Add how many tokens each step guesses."""
    said = "guess K tokens from the text so far in each step, 1 to 7, and check them at once; the text stays the same"
    parser.add_argument("--speculate", metavar="K", type=int, help=said)


def add_quantization(parser: argparse.ArgumentParser) -> None:
    """Add what becomes of weights that are not quantised."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--plain", action="store_true", help="leave weights that are not quantised as they are")
    either.add_argument(
        "--q-mode", choices=MODES, default="affine", help="how they are quantised otherwise (default: affine, 4 bits)"
    )


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
    request = request_of(options)
    if request.tp == 1:
        return write(request, options)
    checkpoint = Checkpoint(request.model)
    check(read(checkpoint.settings), request.tp, checkpoint.group_size(request.form), str(checkpoint.path))
    place, status = start_ranks(request.tp, options.argv)
    if place is None:
        return status
    try:
        if place.rank == 0:
            return write(request, options)
        generation.generate(request)
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED  # the process that started the ranks says so


def request_of(options: argparse.Namespace) -> Request:
    """Return what is asked for; end the program where that is wrong."""
    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    texts = [text for each in (options.prompt, options.prompt_file, options.prompt_ids) for text in each or ()]
    try:
        if (options.tp or 1) > 1 and "-" in texts:
            raise ValueError("several ranks cannot read one standard input: give --prompt or a file")
        prompts = [read_prompt("-", "--prompt") if prompt == "-" else prompt for prompt in options.prompt or ()]
        prompts += map(read_prompt, options.prompt_file or ())
        if prompts:
            given["prompt"] = tuple(prompts)
        given["prompt_ids"] = tuple(map(read_ids, options.prompt_ids or ()))
        given["stops"] = tuple(options.stop or ())
        return Request(**given)
    except ValueError as error:
        options.refuse(str(error))
        raise


def write(request: Request, options: argparse.Namespace) -> int:
    """Write the text, then what it cost; return the exit status."""
    # Of texts in several groups the first one would stand there for long, without those that were written beside it.
    is_streamed = len(request.prompts) <= generation.MOST_TEXTS
    printer = Printer(is_silent=options.json, is_held=not is_streamed)
    # Ctrl-C reaches ranks at different tokens, where none may go on without the others.
    asked = interruptible() if request.tp == 1 else nullcontext(Interrupt())
    with asked as interrupt, LoadingBar() as bar:
        report = generation.generate(
            request, printer.write, interrupt.poll, printer.progress, begin=printer.begin, loading=bar
        )
    is_answer = request.chat_template and find_template(Path(request.model)) is not None
    questions = [is_answer and isinstance(prompt, str) for prompt in request.prompts]
    rest = report.choices[is_streamed:]
    printer.finish(choice.text if questions[choice.index] else choice.prompt + choice.text for choice in rest)
    if options.json:
        print(json.dumps(report.as_dict()))
    else:
        for choice in report.choices:
            print_logprobs(choice, is_numbered=len(report.choices) > 1)
        print_table(table(report))
    if report.mismatch:
        print(f"hiprt: graph and eager differ at {report.mismatch}", file=sys.stderr)
        return FAILURE
    return INTERRUPTED if report.stop == "interrupted" else 0


def read_prompt(name: str, option: str = "--prompt-file") -> str:
    """Return the text of a prompt's file; raise ValueError where there is none."""
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return raw.decode()
    except OSError as error:
        raise ValueError(f"{option} {name}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{option} {name}: byte {error.start + 1} is no valid UTF-8") from None


def read_ids(given: str) -> tuple[int, ...]:
    """Return a prompt's tokens: numbers with commas or spaces between them, in brackets or not, or a file of them.

    Raises
    ------
    ValueError
        There is no such file, or it holds something else, or no token.
    """
    text = given if re.fullmatch(r"[\d\s,\[\]]+", given) else read_prompt(given, "--prompt-ids")
    listed = re.fullmatch(r"\s*\[(.*)\]\s*", text, re.DOTALL)
    inner = (listed[1] if listed else text).strip()
    if not re.fullmatch(r"\d{1,18}(?:(?:\s*,\s*|\s+)\d{1,18})*", inner):
        raise ValueError(f"--prompt-ids {given}: tokens are numbers with commas between them, as 1,2,3")
    return tuple(map(int, re.findall(r"\d+", inner)))


class Printer:
    """Prints text as it comes: the prompt first, then each piece at once.

    Parameters
    ----------
    is_silent : bool
        Whether nothing is printed.
    is_held : bool
        Whether pieces are left to `finish`, which gets the whole texts.
    hint : str
        What stands on a terminal until the first piece comes.
    """

    HINT = "preparing kernels (the first run compiles them) ..."

    def __init__(self, *, is_silent: bool, is_held: bool = False, hint: str = HINT) -> None:
        self.prompt: str | None = None
        self.is_silent, self.is_held = is_silent, is_held
        self.is_hinting = sys.stderr.isatty()
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that lacks a character shows a question mark; it does not end the program.
            sys.stdout.reconfigure(errors="replace")
        if self.is_hinting:
            print(hint, end="", file=sys.stderr, flush=True)

    def begin(self, prompt: str) -> None:
        """Take the prompt, which is printed with the first piece."""
        self.prompt = prompt

    def write(self, piece: str) -> None:
        """Print a piece."""
        if not self.is_held:
            self.print(piece)

    def print(self, piece: str) -> None:
        """Print a piece, in the place of what was said before it."""
        if self.is_hinting:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self.is_hinting = False
        if self.is_silent:
            return
        if self.prompt is not None:
            piece, self.prompt = self.prompt + piece, None
        print(piece, end="", flush=True)

    def progress(self, done: int, total: int, unit: str) -> None:
        """Say on a terminal how many tokens of a long prompt are taken, or how many of many texts are written."""
        if self.is_hinting:
            what = "prompt" if unit == "tokens" else "writing"
            print(f"\r\x1b[K{what}: {done} of {total} {unit} ...", end="", file=sys.stderr, flush=True)

    def finish(self, others: Iterable[str]) -> None:
        """End the text that was written, and print whole texts."""
        if self.is_held:
            self.prompt = None
        else:
            self.print("\n\n")
        for text in others:
            self.print(f"{text}\n\n")


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
        ("provider", f"{report.provider}, {report.device}" + f", {report.tp} ranks" * (report.tp > 1)),
        ("tokens", f"{report.prompt_tokens} of the prompt, {report.tokens} generated ({report.stop})"),
        ("tok/s", f"{report.tok_s:.1f}"),
        ("prompt tok/s", f"{report.prefill_tok_s:.1f}"),
        ("first token", f"{report.first_token_ms:.1f} ms"),
        ("nodes per token", f"{report.nodes_per_token}, {report.edges} edges"),
        ("launches per token", f"{report.launches_per_token:g}"),
        ("rungs", rungs or "none"),
        ("peak memory", f"{report.peak_bytes / 2**20:.1f} MiB"),
    ]
    if report.cached_tokens is not None:
        rows.insert(2, ("prompt cache", f"{report.cached_tokens} tokens of the prompt"))
    if report.kv_bits is not None:
        rows.append(("keys and values", f"{report.kv_bits} bits, groups of 64"))
    if report.kv_blocks is not None:
        rows.append(("keys and values", f"{report.kv_bytes / 2**20:.1f} MiB in blocks of {report.kv_blocks} tokens"))
    if report.tokens_per_step is not None:
        told = f"{report.speculate} guesses a step, {report.acceptance:.0%} right, {report.tokens_per_step:.2f} tokens"
        rows.append(("speculation", told))
    if report.verified is not None:
        same = "every logit has the same bits as run eagerly" if report.verified else f"no: {report.mismatch}"
        rows.append(("verified", same))
    return rows


def print_logprobs(choice: Choice, *, is_numbered: bool) -> None:
    """Print how likely the tokens of a text were, if that was asked for: a line for each token."""
    if choice.logprobs is None:
        return
    from hiprt.bench.table import text_table

    def quoted(entry: Mapping[str, Any]) -> str:
        return json.dumps(entry["token"], ensure_ascii=False)

    def rounded(entry: Mapping[str, Any]) -> str:
        return f"{round(entry['logprob'], 4) + 0.0:.4f}"  # which makes 0 of -0

    rows = [
        (quoted(each), str(each["id"]), rounded(each), *(f"{quoted(e)} {rounded(e)}" for e in each["top_logprobs"]))
        for each in choice.logprobs
    ]
    count = max((len(row) - 3 for row in rows), default=0)
    head = "token", "id", "logprob", *(f"likeliest {place}" for place in range(1, count + 1))
    print(f"text {choice.index + 1}" if is_numbered else "", text_table(head, rows), "", sep="\n")


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
