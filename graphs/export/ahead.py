"""Ahead: the kernels that an exported program launches, compiled into a folder before a process runs it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hiprt.array import zeros
from hiprt.code_folder import Source, kept_in, store
from hiprt.compiler import compile_source
from hiprt.graphs.export.importer import Imported, import_function
from hiprt.graphs.launch import canary, probes
from hiprt.graphs.trace.passes import improved
from hiprt.graphs.trace.rehearsal import NO_DEVICE, Needed
from hiprt.kernels.offline.amd_compiler import Compiler, hip_program
from hiprt.kernels.offline.amd_targets import MACHINES
from hiprt.provider import ROCM

__all__ = ["compile_for", "compile_here", "sources_for"]

# Compute units of a device of each architecture as HIP counts them, which are pairs on RDNA, for plans that ask; a
# device with others finds most of its kernels.
COMPUTE_UNITS = {
    "gfx90a": 104, "gfx942": 304, "gfx950": 256, "gfx1030": 40, "gfx1100": 48, "gfx1101": 30, "gfx1102": 16,
    "gfx1150": 8, "gfx1151": 20, "gfx1200": 16, "gfx1201": 32,
}  # fmt: skip
# What a process compiles of its own before its first graph.
OWN = (Source(probes.SOURCE, "hiprt_probe.hip", (), ()), Source(canary.SOURCE, "hiprt_canary.hip", (), ()))
FIRST_INDEX = -2  # of devices that are not here; -1 is that of no device


def sources_for(file: str | os.PathLike[str], target: str) -> list[Source]:
    """Return the programs of all kernels that a file's functions launch on a target, each once.

    Parameters
    ----------
    file : path
        What `hiprt.export_function` wrote. A shapeless program launches what it would for the shapes that it was
        exported with.
    target : str
        An AMD architecture.

    Raises
    ------
    ValueError
        The target is unknown.
    """
    arch = target.partition(":")[0]
    if arch not in MACHINES:
        raise ValueError(f"target {target!r}: programs are compiled ahead for this device and {', '.join(MACHINES)}")
    wave = 64 if arch.startswith("gfx9") else 32
    index = FIRST_INDEX - list(MACHINES).index(arch)
    device = replace(
        NO_DEVICE, index=index, arch=arch, warp_size=wave, compute_units=COMPUTE_UNITS.get(arch, 32), provider=ROCM
    )
    imported: Imported = import_function(file)
    needed: Needed = []
    for program, function in zip(imported.programs, imported.functions):
        improved(program)[0].forms(function.inputs, device, needed)
    return list(dict.fromkeys([*OWN, *(source(ROCM) for source in needed)]))


def compile_for(file: str | os.PathLike[str], target: str, folder: Path) -> int:
    """Compile a file's kernels for a GPU that need not be here, and return how many there are.

    Raises
    ------
    CompileError
        A kernel does not compile.
    ProviderError
        There is no offline compiler.
    ValueError
        The target is unknown, or the file has a `hip_kernel` that only the GPU's own compiler can name.
    """
    compiler, sources = Compiler(), sources_for(file, target)
    for source in sources:
        if source.expressions:
            raise ValueError(
                f"{source.name}: the names of kernels of hip_kernel are known to the GPU's own compiler. Run this on a "
                "machine with the GPU, without --target"
            )

    def build(source: Source) -> None:
        text = hip_program(source.text, source.name)
        name = source.name.removesuffix(".hip")
        code = compiler.code_object(compiler.assembly(text, name, target), name, target)
        store(folder, target, source, code, {})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(build, sources))
    return len(sources)


def compile_here(file: str | os.PathLike[str], folder: Path) -> int:
    """Run a file's functions once, on zeros; put all that this compiles into a folder, and return how many they are.

    The process must be new: a kernel that it has loaded before is not compiled here.
    """
    imported: Imported = import_function(file)
    with kept_in(folder):
        for text, name, options, expressions in OWN:
            compile_source(text, name, options=options, expressions=expressions)
        for function in imported.functions:
            count = len(function.inputs) - len(function.keywords)
            inputs = [zeros(each.form.shape, each.dtype) for each in function.inputs]
            imported(*inputs[:count], **dict(zip(function.keywords, inputs[count:])))
    return len(imported.functions)
