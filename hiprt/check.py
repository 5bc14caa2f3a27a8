"""``hiprt check``: a program on the CPU device, its kernels checked for defects while they run.

The checks are the device's own (``HIPRT_CPU_CHECK``). This command switches them on, runs the program to its end, and
says by its exit status whether anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hiprt.command import set_run
from hiprt.provider import library_of_ours, zig_binary

__all__ = ["KINDS", "Checked", "add_arguments", "check", "environment", "observe", "read_suppressions"]

KINDS = ("memory", "race", "init", "barrier")
FOUND = 3  # the exit status when something was found and the program itself ended well
INTERRUPTED = 130
GRACE = 3  # seconds that an interrupted program has to end before it is asked again


class Checked(NamedTuple):
    """What came of a program that was checked.

    Attributes
    ----------
    status : int
    findings : list of dict
        Both as `check` returns them.
    has_kernels : bool
        Whether a kernel ran on the CPU device. If none did, nothing was checked.
    """

    status: int
    findings: list[dict[str, Any]]
    has_kernels: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to a parser."""
    parser.description = "Run a program on the CPU device and check its kernels."
    parser.epilog = f"The exit status is the program's own, or {FOUND} if that is 0 and something was found."
    parser.add_argument(
        "--kinds", default="all", help=f"what to look for, by comma: {', '.join(KINDS)}; all by default"
    )
    parser.add_argument("--suppress", type=Path, metavar="FILE", help="lines kind:text of findings to leave out")
    parser.add_argument("program", help="a program, or a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's arguments")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Run the command."""
    unknown = [kind for kind in options.kinds.split(",") if kind not in (*KINDS, "all")]
    if unknown:
        raise ValueError(f"--kinds names {unknown[0]!r}, which is none of {', '.join(KINDS)} and all")
    if options.suppress:
        read_suppressions(options.suppress)
    program = [options.program, *options.arguments]
    if options.program.endswith(".py"):
        program.insert(0, sys.executable)
    output = sys.stderr.fileno() if options.json else None
    status, findings, has_kernels = observe(program, options.kinds, options.suppress, output)
    if options.json:
        print(json.dumps({"status": status, "has_kernels": has_kernels, "findings": findings}, indent=2))
    else:
        count = len(findings)
        print(*(finding["report"] for finding in findings), sep="", end="", file=sys.stderr)
        none = "" if has_kernels or findings else ", since no kernel ran on the CPU device"
        print(f"hiprt check: {count or 'no'} finding{'' if count == 1 else 's'}{none}", file=sys.stderr)
    return status or (FOUND if findings else 0)


def read_suppressions(path: Path) -> list[tuple[str, str]]:
    """Return the lines of a file of suppressions.

    Parameters
    ----------
    path : Path
        Each line is ``kind:text``, empty, or a remark that begins with ``#``.

    Returns
    -------
    list of (str, str)
        Kind and text; the kind ``*`` stands for all.

    Raises
    ------
    ValueError
        It is no file, or a line is none of these; the message says which.
    """
    if not path.is_file():
        raise ValueError(f"--suppress names {str(path)!r}, which is no file")
    pairs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        kind, _, text = line.partition(":")
        if not line or line.startswith("#"):
            continue
        if kind not in (*KINDS, "*") or not text:
            raise ValueError(f"{path}:{number}: {line!r} is not kind:text, with a kind of {', '.join(KINDS)} and *")
        pairs.append((kind, text))
    return pairs


def check(
    program: list[str], *, kinds: str = "all", suppressions: Path | None = None, quiet: bool = False
) -> tuple[int, list[dict[str, Any]]]:
    """Run a program, and those that it starts, with their kernels checked.

    Parameters
    ----------
    program : list of str
        The program and its arguments.
    kinds : str, default "all"
        What to look for, by comma: of `KINDS`, or all.
    suppressions : Path, optional
        A file of findings to leave out; each line is ``kind:text``.
    quiet : bool, default False
        Whether the program's output is left out.

    Returns
    -------
    status : int
        The program's exit status; 128 and the signal's number if a signal ended it; 130 after Ctrl-C, which ends the
        program too.
    findings : list of dict
        What was found, each once: ``kind`` (of `KINDS`, or "unchecked" for kernels that ran without checks because they
        cannot be compiled with them), ``text``, ``address``, ``buffer``, ``involved`` (for each access ``what``,
        ``line``, ``kernel``, ``work``, ``block``, ``thread``, ``lane``), ``stacks``, and all of it as text, ``report``.

    Raises
    ------
    OSError
        The program cannot be run.
    """
    output = subprocess.DEVNULL if quiet else None
    status, findings, _ = observe(program, kinds, suppressions, output, output)
    return status, findings


def observe(
    program: list[str], kinds: str, suppressions: Path | None, stdout: int | None = None, stderr: int | None = None
) -> Checked:
    """Do what `check` does, and say whether there was anything to check.

    Parameters
    ----------
    program, kinds, suppressions
        As `check` takes them.
    stdout, stderr : int, optional
        Where the program's output goes, as `subprocess.Popen` takes it.

    Raises
    ------
    OSError
        The program cannot be run.
    """
    with tempfile.TemporaryDirectory(prefix="hiprt-check-") as folder:
        report = Path(folder) / "findings.jsonl"
        child = subprocess.Popen(program, env=environment(kinds, report, suppressions), stdout=stdout, stderr=stderr)
        try:
            status = child.wait()
        except KeyboardInterrupt:
            end(child)
            status = INTERRUPTED
        return Checked(status if status >= 0 else 128 - status, read_report(report), report.exists())


def end(child: subprocess.Popen[bytes]) -> None:
    """End an interrupted program. From a terminal it has the signal already; it is asked again, and then told."""
    try:
        for ask in (None, signal.SIGINT, signal.SIGTERM):
            if ask:
                child.send_signal(ask)
            with suppress(subprocess.TimeoutExpired):
                child.wait(timeout=GRACE)
                return
    except KeyboardInterrupt:
        pass
    child.kill()
    child.wait()


def read_report(path: Path) -> list[dict[str, Any]]:
    """Return the findings of a file. Processes that found the same have it once."""
    lines = path.read_text().splitlines() if path.exists() else []
    findings: dict[tuple[Any, ...], dict[str, Any]] = {}
    for finding in map(json.loads, lines):
        places = [(i["kernel"], i["line"], i["what"]) for i in finding["involved"]]
        key = (finding["kind"], *(places or [finding["text"]]))
        findings.setdefault(key, finding)
    return list(findings.values())


def environment(kinds: str, report: Path, suppressions: Path | None) -> dict[str, str]:
    """Return the environment of a program that is checked.

    Parameters
    ----------
    kinds : str
        What to look for.
    report : Path
        The file that gets a JSON line for each finding.
    suppressions : Path or None
        A file of findings to leave out.

    Returns
    -------
    dict
        This process's variables, with the CPU device chosen and its library found first by programs that ask for
        ``libamdhip64.so``.
    """
    places = [str(library_of_ours("cpu").parent), os.environ.get("LD_LIBRARY_PATH", "")]
    variables = {
        **os.environ,
        "HIPRT_PROVIDER": "cpu",
        "HIPRT_CPU_CHECK": kinds,
        "HIPRT_CPU_CHECK_REPORT": str(report),
        "LD_LIBRARY_PATH": os.pathsep.join(place for place in places if place),
    }
    # A program that hipcc made is compiled again, by the compiler that made it.
    zig = zig_binary()
    if zig:
        variables.setdefault("HIPRT_CPU_ZIG", str(zig))
    if suppressions:
        variables["HIPRT_CPU_CHECK_SUPPRESS"] = str(suppressions.resolve())
    return variables
