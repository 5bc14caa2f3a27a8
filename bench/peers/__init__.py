"""``hiprt bench peers``: the same workloads through hiprt and its peers, in one run.

    chain    1,000 additions of 32 numbers, each of which reads the one before: the host's time for a launch and for a
             replay, and the device's time for a replay
    decode   tokens per second of a dense preset with random weights, batch 1

Every peer is a program of its own beside this file, which prints one JSON object and imports nothing of hiprt. It runs
with this Python, or with the one that ``--python NAME=PATH`` names. A peer that is not installed is named as absent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hiprt.bench.engine.models import PRESETS
from hiprt.bench.table import text_table
from hiprt.command import set_run
from hiprt.machine import machine

__all__ = ["PEERS", "add_arguments", "ask", "run"]

# The programs beside this file; hiprt's own is the first.
PEERS = ("ours", "torch_peer", "cupy_peer", "mlx_peer", "llama_peer")
SECONDS = 300
SIZES = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "num_hidden_layers",
    "vocab_size",
)  # fmt: skip


def ask(peer: str, workload: dict[str, Any], python: str = sys.executable) -> dict[str, Any]:
    """Run one peer; return what it measured, or ``absent`` with the reason.

    Parameters
    ----------
    peer : str
        One of `PEERS`.
    workload : dict
        ``nodes``, ``context``, ``tokens``, ``preset``, ``gguf`` and the preset's sizes.
    python : str
        The Python that runs the peer.
    """
    program = Path(__file__).with_name(f"{peer}.py")
    command = [python, str(program), json.dumps(workload)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"absent": str(error)}
    lines = (done.stdout if not done.returncode else done.stderr).strip().splitlines() or ["it printed nothing"]
    if done.returncode:
        return {"absent": lines[-1]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench peers``."""
    dense = [name for name, settings in PRESETS.items() if settings["model_type"] == "qwen3"]
    parser.add_argument("--model", metavar="PRESET", choices=dense, default="qwen3-mini", help=", ".join(dense))
    parser.add_argument("--nodes", metavar="N", type=int, default=1000, help="of the chain (default: 1000)")
    parser.add_argument("--context", metavar="N", type=int, default=16, help="tokens of the prompt (default: 16)")
    parser.add_argument("--tokens", metavar="N", type=int, default=64, help="tokens to decode (default: 64)")
    parser.add_argument("--gguf", metavar="FILE", default="", help="model for llama.cpp, whose llama-bench is on PATH")
    parser.add_argument("--python", metavar="NAME=PATH", action="append", default=[], help="another Python for a peer")
    parser.add_argument("--only", metavar="NAME", default="", help="peers whose name begins like this")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Ask every peer, and print a table or JSON."""
    pythons = dict(each.split("=", 1) for each in options.python)
    sizes = {name: PRESETS[options.model][name] for name in SIZES}
    names = ("nodes", "context", "tokens", "gguf")
    workload = {**{name: getattr(options, name) for name in names}, "preset": options.model, **sizes}
    answers = {}
    for peer in PEERS:
        if peer.startswith(options.only):
            name = peer.removesuffix("_peer")
            answers[name] = ask(peer, workload, pythons.get(name, sys.executable))
    report = {**machine(), "what": "the same workloads through peers", "workload": workload}
    report["peers"] = answers
    print(json.dumps(report) if options.json else table(report))
    return 0


def table(report: dict[str, Any]) -> str:
    """Return a report as text: a line for each number."""
    work = report["workload"]
    rows = [
        (peer, name, value if isinstance(value, str) else f"{value:.2f}")
        for peer, answer in report["peers"].items()
        for name, value in answer.items()
    ]
    what = f"chain of {work['nodes']}; decode of {work['preset']}, context {work['context']}"
    return f"{what}\n{text_table(('peer', 'what', 'value'), rows, names=2)}"
