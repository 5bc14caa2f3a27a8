"""``hiprt compile`` with every target, and of programs that `hiprt.export_function` wrote.

The targets are those of `hiprt.kernels.offline`, which cannot import this layer, and Metal.
"""

from __future__ import annotations

import argparse
import json
import time

from hiprt.kernels.offline import command
from hiprt.kernels.offline.builder import BACKENDS, DEVICE
from hiprt.metal_compat.metal_backend import MetalBackend

__all__ = ["EVERY_BACKEND", "add_arguments"]

EVERY_BACKEND = (*BACKENDS, MetalBackend())
PROGRAM = ".hiprt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hiprt compile`` with every target."""
    command.add_arguments(parser, EVERY_BACKEND)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compile kernels, or the kernels of exported programs into a folder, and print the result.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        Programs and sources are named together, or no folder is.
    """
    programs = [file for file in options.files if file.suffix == PROGRAM]
    if not programs:
        return command.run(options)
    from hiprt.graphs.export.ahead import compile_for, compile_here

    if len(programs) < len(options.files) or not options.out:
        raise ValueError(f"{programs[0]}: give programs only, and the folder of their code, --out DIR")
    for file in programs:
        if not file.is_file():
            raise FileNotFoundError(f"{file}: there is no such file; hiprt.export_function writes one")
    options.out.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    counts = dict.fromkeys(options.target, 0)
    for file in programs:
        for target in options.target:
            is_here = target == DEVICE
            counts[target] += compile_here(file, options.out) if is_here else compile_for(file, target, options.out)
    seconds = round(time.monotonic() - begin, 1)
    if options.json:
        print(json.dumps({"targets": counts, "seconds": seconds, "out": str(options.out)}))
    else:
        names = {target: "functions here" if target == DEVICE else f"kernels for {target}" for target in counts}
        told = "; ".join(f"{count} {names[target]}" for target, count in counts.items())
        print(f"{told} in {seconds} s, in {options.out}; a process takes them with HIPRT_CODE_DIR={options.out}")
    return 0
