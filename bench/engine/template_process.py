"""The process in which chat templates run.

A template is a program that came with a checkpoint, and may be wrong or hostile. It runs in jinja2's sandbox, in a
process of its own whose time and memory are bounded. `hiprt.bench.engine.template` starts this file as a script, so
that it imports nothing of hiprt. Its argument is a JSON object: ``path``, where Python's modules are, and ``seconds``
and ``bytes``, the bounds. From each line it reads an object with ``source``, a template, and ``variables``, and answers
with one that has ``text``, or ``error`` and ``line``. A template that takes more than its seconds ends the process by
SIGPROF.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment, nodes
    from jinja2.parser import Parser

FILE = "<template>"  # what jinja2 calls the file of a template that has none


@cache
def environment() -> Environment:
    """Return jinja2's environment, with what the library transformers gives to chat templates."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what a model wrote, for those who train; here it stands for its contents."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def reply(source: str, variables: dict[str, Any]) -> str:
    """Return the answer to a request: the text of a template, or its error and the line at which it was raised."""
    try:
        return json.dumps({"text": environment().from_string(source).render(variables)})
    except MemoryError:
        return json.dumps({"error": "it takes too much memory", "line": None})
    except Exception as error:
        name = "" if type(error).__module__.startswith("jinja2") else f"{type(error).__name__}: "
        return json.dumps({"error": name + str(error), "line": line_of(error)})


def line_of(error: Exception) -> int | None:
    """Return the line of the template at which an error was raised."""
    line, trace = getattr(error, "lineno", None), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def bound_memory(nbytes: int) -> None:
    """Let the process have so many bytes beyond what it has; other systems than Linux have no such bound."""
    if sys.platform != "linux":
        return
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * resource.getpagesize() + nbytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Answer requests until there are no more."""
    setup = json.loads(sys.argv[1])
    sys.path[:] = setup["path"]
    bound_memory(setup["bytes"])
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, setup["seconds"])
        answer = reply(request["source"], request["variables"])
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(answer, flush=True)


if __name__ == "__main__":
    main()
