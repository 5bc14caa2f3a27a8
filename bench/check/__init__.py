"""``hiprt doctor --check``: everything that shows whether hiprt works on this machine, as one file to send back.

Each part is a process of its own, so that a runtime that crashes in one costs the others nothing. The file is written
after each part: what is done when somebody interrupts, or when the machine stops, is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiprt.doctor import own_path
from hiprt.provider import PROVIDERS
from hiprt.whole_file import whole_file

__all__ = ["PARTS", "Part", "check", "parts_of", "run"]

INTERRUPTED = 130
LAST_LINES = 12  # of what a part that failed has written
LARGE = 16 << 30  # bytes of memory of a device from which on the 4B preset is decoded
# What a child runs, with the places of modules and the arguments behind it; the current folder is none of them.
CHILD = "import json, runpy, sys; sys.path[:] = json.loads(sys.argv.pop(1)); module = sys.argv.pop(1); "
CHILD += "runpy.run_module(module, run_name='__main__', alter_sys=True)"


@dataclass(frozen=True)
class Part:
    """One part of the check.

    Attributes
    ----------
    name, text : str
        The part's name in the file, and what it does, in the progress.
    module : str
        The module that is run. It prints one JSON object, or one a line.
    arguments : tuple of str
    seconds : float
        The time limit.
    environment : mapping of str to str
        Variables that are set for it.
    """

    name: str
    text: str
    module: str
    arguments: tuple[str, ...]
    seconds: float = 600.0
    environment: Mapping[str, str] = field(default_factory=dict)


VERIFY = {"HIPRT_GRAPH_VERIFY": "1"}
MACHINE = Part("machine", "what is here: libraries, devices, compiler, probes of graphs", "hiprt", ("doctor", "--json"))
PARTS = (
    MACHINE,
    Part("ops", "every op beside numpy", "hiprt.bench.check.ops", ("--seconds", "240")),
    Part(
        "text",
        "text of the small model, with every logit compared with an eager run's",
        "hiprt",
        ("generate", "--tokens", "64", "--verify", "--json"),
    ),
    Part(
        "verified_decode",
        "decode steps as graphs, each launch compared with an eager one",
        "hiprt",
        ("bench", "decode", "--model", "qwen3-mini", "--tokens", "32", "--mode", "graph", "--json"),
        environment=VERIFY,
    ),
    Part("graph", "what a graph of 500 nodes costs", "hiprt", ("bench", "graph", "--nodes", "500", "--json")),
    Part(
        "graph_patch",
        "what a change of ten of its nodes costs",
        "hiprt",
        ("bench", "graph", "--nodes", "500", "--mode", "patch", "--changed", "10", "--json"),
    ),
    Part("tune", "how decode kernels are best shared out", "hiprt", ("tune", "--json")),
    Part("kernels", "the hot kernels", "hiprt", ("bench", "kernels", "--small", "--json")),
    Part(
        "decode",
        "tokens a second",
        "hiprt",
        ("bench", "decode", "--model", "qwen3-mini", "--mode", "all", "--json"),
    ),
)


def parts_of(machine: Mapping[str, Any]) -> Sequence[Part]:
    """Return the parts for a machine: on a GPU the kernels of real models, and a real model where it has the memory."""
    devices = machine.get("devices") or [{}]
    provider = {each.name: each for each in PROVIDERS}.get(machine.get("provider", ""))
    if provider is None or provider.is_host or not provider.runs_kernels:
        return PARTS
    model = "qwen3-4b" if devices[0].get("memory", 0) >= LARGE else "qwen3-0.6b"
    kept = [part for part in PARTS if part.name not in ("tune", "kernels", "decode")]
    return (
        *kept,
        Part(
            "tune", f"how decode kernels of {model} are best shared out", "hiprt", ("tune", "--preset", model, "--json")
        ),
        Part("kernels", "the hot kernels at the shapes of models", "hiprt", ("bench", "kernels", "--json")),
        Part("decode", f"tokens a second of {model}", "hiprt", ("bench", "decode", "--model", model, "--json")),
    )


def run(options: argparse.Namespace) -> int:
    """Run the check as `hiprt doctor --check`; return the exit status, which is 1 where a part failed."""
    path = Path(options.out)
    report = check(path)
    if options.json:
        print(json.dumps(report))
    else:
        print(f"written to {path}: send this file")
    if report["interrupted"]:
        return INTERRUPTED
    return 0 if all(part["ok"] for part in report["parts"].values()) else 1


def check(path: Path, parts: Sequence[Part] | None = None) -> dict[str, Any]:
    """Run the parts one after another and keep the file up to date; progress goes to the standard error.

    Parameters
    ----------
    path : Path
        The file. It is written whole or not at all, after each part.
    parts : sequence of Part, optional
        Those that fit the machine by default.

    Returns
    -------
    dict
        What the file holds: ``parts`` by name, each with ok, seconds, result and error; ``interrupted``; ``seconds``.
    """
    begin = time.monotonic()
    report: dict[str, Any] = {"what": "hiprt doctor --check", "interrupted": False, "seconds": 0.0, "parts": {}}
    left = list(parts or (MACHINE,))
    done = 0
    try:
        while left:
            part = left.pop(0)
            total = "" if parts is None and not done else f" of {done + 1 + len(left)}"
            print(f"{done + 1}{total}  {part.text} ...", file=sys.stderr, flush=True)
            found = report["parts"][part.name] = run_part(part)
            done += 1
            if parts is None and part is MACHINE:
                left = [each for each in parts_of(found["result"] or {}) if each is not MACHINE] if found["ok"] else []
            print(f"   {'ok' if found['ok'] else 'FAILED: ' + found['error']}, {found['seconds']} s", file=sys.stderr)
            report["seconds"] = round(time.monotonic() - begin, 1)
            write(path, report)
    except KeyboardInterrupt:
        report["interrupted"] = True
        write(path, report)
        print("   interrupted; what was done is kept", file=sys.stderr)
    return report


def run_part(part: Part) -> dict[str, Any]:
    """Run a part in a process of its own; return its result, or why it has none and its last lines."""
    begin = time.monotonic()
    environment = {**os.environ, **part.environment}
    command = [sys.executable, "-I", "-W", "ignore", "-c", CHILD, json.dumps(own_path()), part.module, *part.arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        out, err = process.communicate(timeout=part.seconds)
        error = "" if process.returncode == 0 else ended(process.returncode)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        error = f"it took more than {part.seconds:.0f} s"
    except KeyboardInterrupt:
        process.kill()
        process.communicate()
        raise
    result = parsed(out)
    if not error and result is None:
        error = "it printed no JSON"
    if not error and isinstance(result, dict) and result.get("wrong"):
        error = f"{len(result['wrong'])} results are wrong"
    found = {"ok": not error, "seconds": round(time.monotonic() - begin, 1), "result": result, "error": error}
    return found if not error else {**found, "last_lines": err.strip().splitlines()[-LAST_LINES:]}


def ended(status: int) -> str:
    """Return how a process ended: by a signal's name, or with a status."""
    return f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def parsed(text: str) -> Any:
    """Return the JSON that a part printed: the last line of one that prints a line at a time, as it may crash."""
    for each in (text, *reversed(text.strip().splitlines())):
        try:
            return json.loads(each)
        except ValueError:
            continue
    return None


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write the file, whole or not at all."""
    with whole_file(path) as fresh:
        fresh.write_text(json.dumps(report, indent=1))
