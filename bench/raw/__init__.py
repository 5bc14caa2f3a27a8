"""The floor: the driver's calls made from C, with nothing around them."""

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
    """Return what a chain of kernel nodes costs the host without hiprt, in microseconds, each the median of 31 rounds.

    ``eager_us`` launches every kernel, ``build_us`` adds the nodes, ``instantiate_us``, ``update_us``
    (GraphExecUpdate) and ``relaunch_us`` are one call each, ``patch_us`` sets the parameters of `changed` nodes and
    launches, ``whole_us`` is a relaunch until the device is done.

    Parameters
    ----------
    nodes, changed : int

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
