"""Callers: the line of a program that asked the library for something."""

from __future__ import annotations

import sys
from types import FrameType
from typing import NamedTuple

__all__ = ["Caller", "caller"]

# The packages of the library. The engine and the benchmarks use them as any program does.
OURS, PROGRAMS = "hiprt", "hiprt.bench"


class Caller(NamedTuple):
    """A line of a program.

    Attributes
    ----------
    file : str
    line : int
    function : str
        The function that the line is in; ``<module>`` outside of functions.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def caller() -> Caller | None:
    """Return the innermost line of the stack that is not the library's; None where a thread runs nothing else."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.split(".", 1)[0] != OURS or f"{name}.".startswith(f"{PROGRAMS}."):
            return Caller(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return None
