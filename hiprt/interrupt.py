"""Ctrl-C in the command ``hiprt``: one line, whatever Python is doing.

Python's own answer is a traceback, which is no news where a command is still being imported or has already ended.
There the process ends at once. While a subcommand runs, `KeyboardInterrupt` is raised as in any program, so that what
it holds is put away.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

__all__ = ["STATUS", "end_at_once", "is_command", "raise_in_command", "said"]

STATUS, TEXT = 130, "\nhiprt: interrupted\n"


def is_command() -> bool:
    """Whether this process was started as ``hiprt`` or ``python -m hiprt``; its own children are not."""
    started = sys.orig_argv[1:3]
    return started == ["-m", "hiprt"] or os.path.basename("".join(started[:1])) == "hiprt"


def said() -> str:
    """Return what an interrupted command says: nothing in a rank, as the process that started all of them says it."""
    return "" if "RANK" in os.environ else TEXT


def end(*_: Any) -> None:
    """Say that the command was interrupted, and end it."""
    os.write(2, said().encode())
    os._exit(STATUS)


def end_at_once() -> None:
    """Let Ctrl-C end the process without an exception from now on."""
    signal.signal(signal.SIGINT, end)


def raise_in_command() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on; raised where Python ignores exceptions, it ends the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ignored = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs, /) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            end()
        else:
            ignored(unraisable)

    sys.unraisablehook = hook
