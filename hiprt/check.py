"""``hiprt check``: a program on the CPU device, its kernels checked for defects while they run.

The checks are the device's own (``HIPRT_CPU_CHECK``). This command switches them on, runs the program to its end, and
says by its exit status whether anything was found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hiprt.command import set_run
from hiprt.provider import library_of_ours, zig_binary

__all__ = ["KINDS", "add_arguments", "check", "environment"]

KINDS = ("memory", "race", "init", "barrier")
FOUND = 3  # the exit status when something was found and the program itself ended well


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
    if options.suppress and not options.suppress.is_file():
        raise ValueError(f"--suppress names {str(options.suppress)!r}, which is no file")
    program = [options.program, *options.arguments]
    if options.program.endswith(".py"):
        program.insert(0, sys.executable)
    status, findings = check(program, kinds=options.kinds, suppress=options.suppress, quiet=options.json)
    if options.json:
        print(json.dumps({"status": status, "findings": findings}, indent=2))
    else:
        count = len(findings)
        print(f"hiprt check: {count or 'no'} finding{'' if count == 1 else 's'}", file=sys.stderr)
    return status or (FOUND if findings else 0)


def check(
    program: list[str], *, kinds: str = "all", suppress: Path | None = None, quiet: bool = False
) -> tuple[int, list[dict[str, Any]]]:
    """Run a program with its kernels checked.

    Parameters
    ----------
    program : list of str
        The program and its arguments.
    kinds : str, default "all"
        What to look for, by comma: of `KINDS`, or all.
    suppress : Path, optional
        A file of findings to leave out; each line is ``kind:text``.
    quiet : bool, default False
        Whether nothing is printed: the program's output is left out.

    Returns
    -------
    status : int
        The program's exit status; 128 and the signal's number if a signal ended it.
    findings : list of dict
        What was found: ``kind``, ``text``, ``address``, ``buffer``, ``involved`` (for each access ``what``, ``line``,
        ``kernel``, ``block``, ``thread``, ``lane``) and ``stacks``.

    Raises
    ------
    OSError
        The program cannot be run.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "findings.jsonl"
        variables = environment(kinds, report, suppress)
        output = subprocess.DEVNULL if quiet else None
        done = subprocess.run(program, env=variables, stdout=output, stderr=output, check=False)
        findings = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
    return (done.returncode if done.returncode >= 0 else 128 - done.returncode), findings


def environment(kinds: str, report: Path, suppress: Path | None) -> dict[str, str]:
    """Return the environment of a program that is checked.

    Parameters
    ----------
    kinds : str
        What to look for.
    report : Path
        The file that gets a JSON line for each finding.
    suppress : Path or None
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
    if suppress:
        variables["HIPRT_CPU_CHECK_SUPPRESS"] = str(suppress.resolve())
    return variables
