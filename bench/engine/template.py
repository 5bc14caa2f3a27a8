"""Chat templates: how a conversation becomes the text that a model was trained to continue.

A checkpoint has its template in ``chat_template.jinja``, or in tokenizer_config.json, as one text or as several by
name. What a template can use is what the library transformers gives it: messages, tools, the tokenizer's special
tokens, ``add_generation_prompt``, ``raise_exception``, ``strftime_now`` and ``tojson``. Templates run in a process of
their own, `hiprt.bench.engine.template_process`, whose time and memory are bounded.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from hiprt.bench.engine.errors import DOWNLOAD, CheckpointError, summary
from hiprt.bench.engine.files import read_json, read_text
from hiprt.bench.engine.settings import short

__all__ = ["Message", "Template", "find_template"]

Message = Mapping[str, Any]  # ``role``, which is system, user, assistant or tool, and ``content``

SECONDS = 5.0  # of the processor's time, for one text
BYTES = 512 << 20
LEAVE_OUT = "change the messages, or leave the template out (--no-chat-template)"


@dataclass(frozen=True)
class Template:
    """The chat template of a checkpoint.

    Attributes
    ----------
    sources : dict of str to str
        The templates by name: ``default``, and where there is one ``tool_use``, for messages with tools.
    where : str
        Where they stand, for messages.
    tokens : dict
        The tokenizer's special tokens by name, as ``bos_token``.
    """

    sources: dict[str, str]
    where: str
    tokens: dict[str, Any]

    @cached_property
    def process(self) -> Process:
        """The process in which it runs."""
        return Process()

    def render(
        self,
        messages: Sequence[Message],
        variables: Mapping[str, Any] = MappingProxyType({}),
        *,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return a conversation as the text that the model continues.

        Parameters
        ----------
        messages : sequence of mappings
            Each has ``role`` and ``content``.
        variables : mapping of str to object
            What else the template reads, as ``tools`` or ``enable_thinking``.
        add_generation_prompt : bool
            Whether the text ends where an answer begins.

        Raises
        ------
        CheckpointError
            The template refuses the messages, has an error, takes too much time or memory, or jinja2 is missing.
        """
        if find_spec("jinja2") is None:
            remedy = "`pip install jinja2`, or leave the template out (--no-chat-template)"
            raise CheckpointError(f"{self.where}: chat templates need the package jinja2", remedy)
        name = "tool_use" if variables.get("tools") and "tool_use" in self.sources else "default"
        if name not in self.sources:
            names = ", ".join(sorted(self.sources))
            raise CheckpointError(f"{self.where}: there is no template named default, only {names}", LEAVE_OUT)
        given = {"tools": None, "documents": None, **self.tokens, **variables}
        given |= {"messages": list(messages), "add_generation_prompt": add_generation_prompt}
        reply = self.process.ask({"source": self.sources[name], "variables": given})
        if "error" in reply:
            place = self.where if reply["line"] is None else f"{self.where}, line {reply['line']}"
            raise CheckpointError(f"{place}: {summary(reply['error'])}", LEAVE_OUT)
        text = str(reply["text"])
        try:
            text.encode()
        except UnicodeEncodeError:
            raise CheckpointError(f"{self.where}: the template writes half a character", LEAVE_OUT) from None
        return text


class Process:
    """A process that runs templates; it starts with the first one, and again where a template has ended it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.child: subprocess.Popen[str] | None = None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request."""
        with self.lock:
            if self.child is None:
                self.child = start()
                weakref.finalize(self, end, self.child)
            answer = ""
            try:
                answer = exchange(self.child, request)
            finally:
                if not answer:  # the process has ended; or Ctrl-C came, and its answer is none to the next request
                    status, self.child = end(self.child), None
        if answer:
            return dict(json.loads(answer))
        causes = {-signal.SIGPROF: f"it takes more than {SECONDS:g} seconds"}
        return {"error": causes.get(status, f"its process ended with status {status}"), "line": None}


def start() -> subprocess.Popen[str]:
    """Start the process, which Ctrl-C does not reach."""
    script = str(Path(__file__).with_name("template_process.py"))
    # Sanitizers, where this process has them, reserve more memory than the bound.
    environ = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    command = [sys.executable, "-I", "-S", script, json.dumps({"path": sys.path, "seconds": SECONDS, "bytes": BYTES})]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=null, env=environ, start_new_session=True, text=True
    )


def exchange(child: subprocess.Popen[str], request: Mapping[str, Any]) -> str:
    """Send a request; return the line that answers it, which is empty where the process has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        print(json.dumps(request), file=child.stdin, flush=True)
    except BrokenPipeError:
        return ""
    return child.stdout.readline()


def end(child: subprocess.Popen[str]) -> int:
    """End the process; return its status, which is its own where it has ended by itself."""
    with suppress(BrokenPipeError), child:  # closing the pipe writes what it still holds
        if child.poll() is None:
            child.kill()
    return child.returncode


def find_template(folder: Path) -> Template | None:
    """Return the chat template of a model directory, or None where it has none.

    Raises
    ------
    CheckpointError
        A file cannot be read, or does not hold a template where one is expected.
    """
    settings, file = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    values = read_json(settings) if settings.exists() else {}
    found, where = values.get("chat_template"), f"{settings}: chat_template"
    if file.exists():
        found, where = read_text(file), str(file)
    if found is None:
        return None
    listed = [{"name": "default", "template": found}] if isinstance(found, str) else found
    try:
        sources = {each["name"]: each["template"] for each in listed}
    except (KeyError, TypeError):
        sources = {"default": None}
    if not all(isinstance(text, str) for pair in sources.items() for text in pair):
        raise CheckpointError(f"{where} is {short(found)}, neither a text nor a list of named ones", DOWNLOAD)
    return Template(sources, where, special_tokens(values))


def special_tokens(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the special tokens that tokenizer_config.json names, as text."""
    named = {name: content(value) for name, value in values.items() if name.endswith("_token")}
    more = values.get("additional_special_tokens")
    listed = {"additional_special_tokens": [content(each) for each in more]} if isinstance(more, list) else {}
    return {name: text for name, text in named.items() if isinstance(text, str)} | listed


def content(token: Any) -> Any:
    """Return the text of a token, which may stand in an object with its properties."""
    return token.get("content") if isinstance(token, dict) else token
