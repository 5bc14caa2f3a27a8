"""The least that any runtime can cost: the driver's calls, made from C with nothing around them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hiprt import library
from hiprt.bench.topology import SOURCE
from hiprt.compiler import compile_source
from hiprt.provider import NVIDIA

__all__ = ["chain"]

PROGRAM = Path(__file__).parent / "chain.c"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-Werror")


def chain(nodes: int = 1000, changed: int = 10) -> dict[str, float]:
    """Return what a chain of kernel nodes costs the host without hiprt.

    Parameters
    ----------
    nodes : int
        How many nodes the chain has.
    changed : int
        How many of them a patch changes.

    Returns
    -------
    dict
        Microseconds, each the median of 31 rounds: ``eager_us`` to launch every kernel, ``build_us`` to add the nodes,
        ``instantiate_us``, ``update_us`` (GraphExecUpdate) and ``relaunch_us`` for one call each, ``patch_us`` to set
        the parameters of `changed` nodes and launch, ``whole_us`` for a relaunch until the device is done.

    Raises
    ------
    OSError
        There is no C compiler, or the library refused a call.
    """
    found = library.current()
    code, _ = compile_source(SOURCE, "bench_graph.hip")
    with TemporaryDirectory() as folder:
        program, image = Path(folder, "chain"), Path(folder, "code")
        image.write_bytes(code)
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, *FLAGS, str(PROGRAM), "-o", str(program), "-ldl"], check=True)
        interface = ("libcuda.so.1", "cuda") if found.provider is NVIDIA else (str(found.hip), "hip")
        command = [str(program), *interface, str(image), str(nodes), str(changed)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{PROGRAM.name}: {done.stderr.strip()}")
    taken: dict[str, float] = json.loads(done.stdout)
    return taken
