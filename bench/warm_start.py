"""How long a new process takes until an exported function has a graph for each of many sizes, ready to be launched.

The function has 300 ops and takes all sizes. One process prepares it first, which compiles its kernels and Python's own
files; the next one is measured, from the time at which it is started.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import hiprt
from hiprt import kernels

__all__ = ["warm_start"]

ROUNDS, WIDTH = 60, 64  # a round has five ops
PROCESS = """
import json, sys, time
import hiprt
hiprt.open_ahead()
start, path, width, count = float(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
told = {}

def tell(what):
    told[what] = round(time.monotonic() - start, 3)

tell("hiprt")
function = hiprt.import_function(path)
tell("function")
inputs = [hiprt.empty((rows, width)) for rows in range(1, count + 1)]
tell("device")
graphs = function.prepare([inputs[-1:]])
tell("first graph")
graphs += function.prepare([x] for x in inputs)
tell("all graphs")
for x in inputs:
    function(x)
hiprt.current_stream().synchronize()
tell("all launched")
(step,) = function.steps
assert step.rungs["instantiate"] == step.rungs["replay"] == graphs
print(json.dumps({"graphs": graphs, "nodes": step.nodes, "seconds": told}))
"""


def warm_start(count: int, provider: str) -> dict[str, Any]:
    """Measure a process that makes a graph for each of many sizes.

    Parameters
    ----------
    count : int
        How many sizes there are.
    provider : str
        The name of the HIP library's kind.

    Returns
    -------
    dict
        ``graphs``; ``nodes`` of each; ``seconds`` from the process's start until hiprt and the function are imported,
        the device is open, the first graph can be launched, all can, and all were.

    Raises
    ------
    RuntimeError
        A process failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "function.hiprt"
        weight, ones = hiprt.array(np.zeros((WIDTH, WIDTH), np.float32)), hiprt.full((WIDTH,), 1.0)

        def function(x: hiprt.Array) -> hiprt.Array:
            for _ in range(ROUNDS):
                h = kernels.matmul(kernels.rms_norm(x, ones, 1e-5), weight)
                x = kernels.add(x, kernels.matmul(kernels.softmax(h), weight))
            return x

        hiprt.export_function(path, function, hiprt.empty((count, WIDTH)), shapeless=True)
        environment = os.environ | {
            "HIPRT_PROVIDER": provider,
            "HIPRT_GRAPH_KEYS": str(max(count, hiprt.flags.graph_keys)),
            "HIPRT_CACHE_DIR": str(Path(folder) / "cache"),
            "PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode"),
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in ("compiles", "measured"):
            command = [sys.executable, "-c", PROCESS, str(time.monotonic()), str(path), str(WIDTH), str(count)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"a process with the exported function failed: {done.stderr.strip()}")
        told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return told
