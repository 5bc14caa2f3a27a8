"""``hiprt bench isa``: every kernel of the project is executed as AMD machine code and compared with its reference.

    hiprt bench isa --tinygrad DIR [--targets gfx1151,gfx1201,gfx942] [--kernel qmv] [--date DATE]

prints the table as JSON. The launches are those of the ops: each op runs the GPU branch of its kernel on the CPU
device, and the emulator executes what it launched again, from the same memory.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hiprt import objects
from hiprt.array import Array
from hiprt.bench.isa.case import Case
from hiprt.bench.isa.cases import cases
from hiprt.bench.isa.emulator import Emulator
from hiprt.command import set_run
from hiprt.kernels.lang.kernel import SCALARS, Kernel
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.kernels.tuning.target import force_generic
from hiprt.module import WRITE

__all__ = ["Launch", "Measured", "add_arguments", "execute", "launch_of"]

TARGETS = ("gfx1151", "gfx1201", "gfx942")
WHAT = "every kernel of the project executed as AMD machine code on a small shape, compared with numpy in float64"
WHERE = (
    "in an ISA emulator (tinygrad's test/mockgpu/amd, with ds_swizzle_b32 and row_xmask added as AMD's ISA guides "
    "define them, atomics that answer by each family's bit, on RDNA constants as what a matrix instruction adds to "
    "and, on CDNA, no halves of registers from v128 on), not on "
    "AMD hardware: the numbers are those of the machine code; nothing is said about speed, caches or races"
)
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}  # the relative error of rounding to nearest
STEPS = 64  # how many float32 roundings of a case's magnitude a result may be off, before its own rounding


@dataclass
class Launch:
    """What an op launched.

    Attributes
    ----------
    kernel : Kernel
    grid, threads : tuple of 3 int
    template : tuple
    values : list
        Host copies of the arrays as they were before, and numpy scalars.
    addresses : list of int
        The addresses of the arrays on the device; 0 for scalars.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    values: list[Any]
    addresses: list[int]


@dataclass(frozen=True)
class Measured:
    """The result of one case on one target.

    Attributes
    ----------
    kernel, case, target : str
    error : float
        The largest absolute difference from the exact result.
    largest : float
        The largest absolute value of the exact result.
    unlike_cpu : int
        Elements whose bits differ from those that the CPU device computes in the kernel's GPU branch.
    is_right : bool
        Whether the error is within what rounding explains.
    """

    kernel: str
    case: str
    target: str
    error: float
    largest: float
    unlike_cpu: int
    is_right: bool


@contextmanager
def recorded() -> Iterator[list[Launch]]:
    """Collect, within the block, every launch of a project kernel; each is launched as well."""
    found: list[Launch] = []

    def note(launch: Any, given: tuple[Any, ...]) -> None:
        values, addresses = [], []
        for value, (_, word, access) in zip(given, launch.kernel.declaration):
            values.append(value.numpy().copy() if access else np.dtype(SCALARS[word]).type(value))
            addresses.append(value.address if access else 0)
        found.append(Launch(launch.kernel, launch.grid, launch.threads, launch.template, values, addresses))

    before = objects.Launch.watch(note)
    try:
        yield found
    finally:
        objects.Launch.watch(before)


def launch_of(case: Case) -> tuple[Launch, Array]:
    """Run a case on the CPU device; return its one launch and the array it wrote."""
    with force_generic(), recorded() as found:
        result = case.call()
    (launch,) = found
    return launch, result


def execute(emulator: Emulator, compiler: Compiler, case: Case, targets: Sequence[str]) -> Iterator[Measured]:
    """Execute a case as machine code of each target."""
    return executed(emulator, compiler, case, *launch_of(case), targets)


def executed(
    emulator: Emulator, compiler: Compiler, case: Case, launch: Launch, device_result: Array, targets: Sequence[str]
) -> Iterator[Measured]:
    """Execute what a case launched as machine code of each target."""
    expected = device_result.numpy()
    at = written(launch, device_result)
    symbol = launch.kernel.symbol(launch.template)
    text = launch.kernel.text("hip", launch.template)
    for target in targets:
        assembly = compiler.assembly(text, symbol, target)
        code = compiler.code_object(assembly, symbol, target)
        values = [value.copy() for value in launch.values]
        emulator.run(code, symbol, launch.grid, launch.threads, values)
        yield measured(symbol, case, target, values[at].reshape(expected.shape), expected)


def written(launch: Launch, result: Array) -> int:
    """Return the index of the argument to which a launch wrote its result.

    The same array may also be one to read, and one that stands in for scratch memory which the launch does not need.
    """
    arguments = enumerate(zip(launch.addresses, launch.kernel.declaration))
    found = [(access != WRITE, i) for i, (at, (_, _, access)) in arguments if at == result.address and access & WRITE]
    return min(found)[1]


def measured(symbol: str, case: Case, target: str, got: NDArray[Any], device: NDArray[Any]) -> Measured:
    """Compare a result with the exact one and with the CPU device's."""
    exact = np.asarray(case.exact, np.float64)
    error = np.abs(got.astype(np.float64) - exact)
    largest = float(np.abs(exact).max())
    allowed = np.zeros(())
    if got.dtype.name in ROUNDING:
        steps = STEPS * 2.0**-24 * max(largest, case.magnitude)
        allowed = ROUNDING[got.dtype.name] * (np.abs(exact) + case.slack * largest) + steps
    unlike = int((got.view(f"u{got.itemsize}") != device.view(f"u{got.itemsize}")).sum())
    is_right = bool((error <= allowed).all())
    return Measured(symbol, case.name, target, float(error.max()), largest, unlike, is_right)


def table(rows: Sequence[Measured], date: str, compiler: str) -> str:
    """Return the results as JSON, one line for each kernel, target and case."""
    head = {"what": WHAT, "where": WHERE, "date": date, "compiler": compiler}
    lines = [
        json.dumps(
            {
                "kernel": row.kernel,
                "target": row.target,
                "case": row.case,
                "largest_error": float(f"{row.error:.3g}"),
                "largest_value": float(f"{row.largest:.3g}"),
                "elements_unlike_cpu_device": row.unlike_cpu,
            }
        )
        for row in rows
    ]
    body = ",\n    ".join(lines)
    return json.dumps(head, indent=2)[:-2] + f',\n  "results": [\n    {body}\n  ]\n}}'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``hiprt bench isa``."""
    parser.add_argument("--tinygrad", metavar="DIR", required=True, help="a checkout of github.com/tinygrad/tinygrad")
    parser.add_argument("--targets", metavar="LIST", default=",".join(TARGETS), help="by comma")
    parser.add_argument("--kernel", metavar="NAME", default="", help="only kernels whose names begin so")
    parser.add_argument("--date", metavar="DATE", default="", help="for the table")
    set_run(parser, run)


def run(options: argparse.Namespace) -> int:
    """Print the table as JSON, and meanwhile each result; the exit status is 1 where one is wrong."""
    rows = []
    emulator, compiler = Emulator(options.tinygrad), Compiler()
    for case in cases():
        launch, result = launch_of(case)
        if not launch.kernel.name.startswith(options.kernel):
            continue
        for row in executed(emulator, compiler, case, launch, result, options.targets.split(",")):
            told = "right" if row.is_right else "WRONG"
            print(f"{told} {row.kernel} {row.target} {row.case}: {row.error:.3g}", file=sys.stderr)
            rows.append(row)
    print(table(sorted(rows, key=lambda row: (row.kernel, row.target, row.case)), options.date, compiler.version))
    return int(not all(row.is_right for row in rows))
