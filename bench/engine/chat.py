"""``hiprt chat``: a conversation with a model in the terminal, or with lines that come in through a pipe."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hiprt.bench.engine.command import (
    CHAT,
    Printer,
    add_draw,
    add_kv_bits,
    add_model,
    add_quantization,
    add_template,
    interruptible,
)
from hiprt.bench.engine.conversation import Conversation
from hiprt.bench.engine.loading_bar import LoadingBar
from hiprt.bench.engine.request import DRAW, Request
from hiprt.bench.engine.text_model import TextModel
from hiprt.command import set_run

__all__ = ["add_arguments", "run"]

FIELDS = ("model", "tokens", *DRAW, *CHAT, "plain", "q_mode", "kv_bits")
UNLIMITED = 2**31 - 1  # tokens: an answer ends by itself, or with the model's positions
HELP = "/reset begins a new conversation, /help shows this, /exit or Ctrl-D ends. Ctrl-C ends an answer."
FULL = "the model has no positions left: /reset begins a new conversation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt chat``."""
    add_model(parser)
    parser.add_argument("--tokens", "--max-tokens", metavar="N", type=int, help="end an answer after N tokens")
    parser.add_argument("--stop", metavar="TEXT", action="append", help="end an answer before this text")
    add_template(parser)
    add_draw(parser)
    add_quantization(parser)
    add_kv_bits(parser)
    parser.add_argument("--stats", action="store_true", help="say behind each answer what it cost")
    set_run(parser, run)
    parser.set_defaults(refuse=parser.error)


def run(options: argparse.Namespace) -> int:
    """Ask and answer until there are no more questions; return the exit status."""
    given = {name: getattr(options, name) for name in FIELDS if getattr(options, name) is not None}
    try:
        request = Request(**{"tokens": UNLIMITED, **given, "stops": tuple(options.stop or ())})
    except ValueError as error:
        options.refuse(str(error))
    with LoadingBar() as bar:
        model = TextModel(request.model, plain=request.plain, q_mode=request.q_mode, progress=bar)
    chat = Chat(Conversation(model, request), is_silent=options.json, has_stats=options.stats)
    chat.greet()
    for line in chat.lines():
        chat.take(line)
    if options.json:
        print(json.dumps({"model": str(request.model), "messages": chat.messages, "answers": chat.answers}))
    return 0


class Chat:
    """A conversation as the terminal shows it: questions behind a prompt, answers as they are written.

    Where questions come through a pipe there is no prompt, an error ends the command, and each answer is ended by a
    line break.

    Parameters
    ----------
    conversation : Conversation
    is_silent : bool
        Whether nothing is printed.
    has_stats : bool
        Whether a line behind each answer says what it cost.

    Attributes
    ----------
    answers : list of dict
        What each answer cost.
    """

    def __init__(self, conversation: Conversation, *, is_silent: bool, has_stats: bool) -> None:
        self.conversation, self.is_silent, self.has_stats = conversation, is_silent, has_stats
        self.is_terminal = sys.stdin.isatty() and not is_silent
        self.answers: list[dict[str, Any]] = []
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # what is no text is refused by name
        if self.is_terminal:
            with suppress(ImportError):
                import readline  # noqa: F401 (lets input() edit lines and remember them)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said."""
        return [dict(message) for message in self.conversation.messages]

    def say(self, line: str) -> None:
        """Tell what is no part of the conversation."""
        if not self.is_silent:
            print(line, file=sys.stderr, flush=True)

    def greet(self) -> None:
        """Tell how the conversation is held."""
        if self.conversation.template is None:
            self.say("The model has no chat template, or is to leave it out: what you write is continued as one text.")
        if self.is_terminal:
            self.say(HELP)

    def lines(self) -> Iterator[str]:
        """Yield what is written, until its end or ``/exit``."""
        while (line := self.read()) is not None and line.strip() != "/exit":
            yield line

    def read(self) -> str | None:
        """Return the next line, or None at the end."""
        while True:
            try:
                if self.is_terminal:
                    return input("> ")
                line = sys.stdin.readline()
                return line.rstrip("\n") if line else None
            except EOFError:
                print()
                return None
            except KeyboardInterrupt:
                if not self.is_terminal:
                    raise
                print()
                self.say(HELP)

    def take(self, line: str) -> None:
        """Do what a line asks for, or answer it."""
        word = line.strip()
        try:
            if word == "/reset":
                self.conversation.reset()
            elif word == "/help":
                self.say(HELP)
            elif re.fullmatch(r"/\w+", word):
                self.say(f"hiprt: there is no {word}: {HELP}")
            elif word:
                self.answer(line)
        except ValueError as error:
            if not self.is_terminal:
                raise
            self.say(f"hiprt: {error}")
        except KeyboardInterrupt:  # before the first token, or a second one
            if not self.is_terminal:
                raise
            print()

    def answer(self, question: str) -> None:
        """Print the answer to a question as it is written."""
        conversation = self.conversation
        printer = Printer(is_silent=self.is_silent, hint="" if self.answers else Printer.HINT)
        with interruptible() as interrupt:
            for piece in conversation.ask(question, interrupt.poll, printer.progress):
                printer.write(piece)
        printer.write("\n")
        report = conversation.report
        assert report is not None
        self.answers.append(report.as_dict())
        if report.stop == "positions":
            self.say(f"[{FULL}]")
        if self.has_stats:
            taken = report.prompt_tokens - conversation.kept
            positions = f"{len(conversation.held)} of {conversation.model.positions} positions"
            cost = f"{report.tokens} tokens, {report.tok_s:.1f} tok/s, the first after {report.first_token_ms:.1f} ms"
            self.say(f"[{cost}; {taken} of {report.prompt_tokens} tokens of the prompt taken; {positions}]")
