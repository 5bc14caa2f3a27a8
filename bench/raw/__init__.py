"""What is measured from C: the driver's calls alone, which is the least that any runtime can cost; and libhiprt's."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cffi import FFI

from hiprt import library, native
from hiprt.bench.topology import SOURCE
from hiprt.compiler import compile_source
from hiprt.provider import NVIDIA, library_of_ours

__all__ = ["Chain", "chain", "steps"]

HERE = Path(__file__).parent
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
    with interface() as opened:
        return measured("chain.c", ["-ldl"], [*opened, str(nodes), str(changed)])


class Chain:
    """The driver's calls for a chain of kernel nodes, made in this process, to be timed in turn with a step of hiprt's.

    One is used at a time.

    Parameters
    ----------
    nodes : int
        How many nodes the chain has.

    Raises
    ------
    OSError
        There is no C compiler, or the library could not be opened.
    """

    def __init__(self, nodes: int = 1000) -> None:
        ffi = FFI()
        ffi.cdef("int chain_open(const char *, const char *, const char *, int); double chain_update(void);")
        with TemporaryDirectory() as folder, interface() as opened:
            self.calls = ffi.dlopen(str(built("chain.c", ["-ldl", "-shared", "-fPIC"], Path(folder, "chain.so"))))
            if not self.calls.chain_open(*(each.encode() for each in opened), nodes):
                raise OSError(f"chain.c: {opened[0]} cannot be opened")

    def update(self) -> float:
        """Build a graph with other arguments, update an executable graph by it, launch; return the microseconds."""
        return float(self.calls.chain_update())


@contextmanager
def interface() -> Iterator[tuple[str, str, str]]:
    """Give the library in use, whose interface it has, and a file with the chain's kernel, while the block runs."""
    found = library.current()
    code, _ = compile_source(SOURCE, "bench_graph.hip")
    with TemporaryDirectory() as folder:
        image = Path(folder, "code")
        image.write_bytes(code)
        path, api = ("libcuda.so.1", "cuda") if found.provider is NVIDIA else (str(found.hip), "hip")
        yield path, api, str(image)


def steps(nodes: int = 1000, changed: int = 10) -> dict[str, float]:
    """Return what a chain of kernel nodes costs an engine in C, on the null provider.

    Parameters
    ----------
    nodes : int
        How many nodes the chain has.
    changed : int
        How many of them have other arguments each time that the chain is patched.

    Returns
    -------
    dict
        Microseconds, each the median of 301 rounds: ``record_us`` to issue the launches again and replay,
        ``record_changed_us`` the same where some nodes are patched, of which ``patch_us`` is the patch, and
        ``replay_us`` to launch again without recording, and ``move_us`` the same with that many buffers elsewhere.

    Raises
    ------
    OSError
        There is no C compiler.
    """
    (root,) = native.__path__
    libraries = ["-I", f"{root}/include", "-L", f"{root}/lib", "-lhiprt", f"-Wl,-rpath,{root}/lib"]
    return measured("steps.c", libraries, [str(library_of_ours("null")), str(nodes), str(changed)])


def measured(source: str, flags: list[str], arguments: list[str]) -> dict[str, float]:
    """Compile a program of this folder, and return what it prints."""
    with TemporaryDirectory() as folder:
        program = built(source, flags, Path(folder, "program"))
        done = subprocess.run([str(program), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{source}: {done.stderr.strip()}")
    taken: dict[str, float] = json.loads(done.stdout)
    return taken


def built(source: str, flags: list[str], target: Path) -> Path:
    """Compile a file of this folder, and return the target."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, str(HERE / source), "-o", str(target), *flags], check=True)
    return target
