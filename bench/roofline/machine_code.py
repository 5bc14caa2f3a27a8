"""What is counted in a kernel's machine code: loops, vector instructions, waits, and steps of matrix instructions."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from hiprt.bench.roofline.gpus import SIMDS, Gpu
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.offline.amd_compiler import Compiler
from hiprt.kernels.offline.resources import resources_of, text_of

__all__ = ["Code", "MatrixStep", "code_of", "full_waits", "loop_instructions", "matrix_step", "nested_instructions"]

SHAPE = re.compile(r"_(\d+)x(\d+)x(\d+)_")  # of a matrix instruction
LOAD = re.compile(r"\s+(?:global|flat|buffer)_load_")
FULL_WAIT = re.compile(r"\s+(?:s_waitcnt\b.*\bvmcnt\(0\)|s_wait_loadcnt 0x0\b|s_wait_loadcnt_dscnt 0x[0-9a-f]{1,2}\b)")
SLOW = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_")  # at a quarter of the speed


class Code(NamedTuple):
    """A kernel's machine code: its text, the waves that a SIMD holds, and registers kept in memory."""

    text: str
    waves: int
    spills: int


@cache
def code_of(kernel: Kernel, template: tuple[Any, ...], arch: str, decided: tuple[str, str] = ("", "")) -> Code:
    """Compile a kernel; `decided` is a text of its body and what replaces it, so that one way through is counted."""
    compiler, name = Compiler(), kernel.symbol(template)
    text = kernel.text("hip", template)
    assembly = compiler.assembly(text, name, arch)
    (row,) = resources_of(assembly, compiler.code_object(assembly, name, arch))
    if decided[0]:
        assembly = compiler.assembly(text.replace(*decided), name, arch)
    return Code(text_of(assembly, name), row.waves, row.spills)


class Loop(NamedTuple):
    """A loop of a function: its first line, its lines, its vector instructions, and those of them that are dots."""

    first: int
    lines: list[str]
    vectors: int
    dots: int


def loops_of(assembly: str) -> list[Loop]:
    """Return the loops of a function, each from its label to a jump back.

    Raises
    ------
    ValueError
        The function has no loop.
    """
    places: dict[str, int] = {}
    found = []
    lines = assembly.splitlines()
    for i, line in enumerate(lines):
        label, jump = re.match(r"(\.LBB\w+):", line), re.match(r"\s+s_c?branch\w*\s+(\.LBB\w+)", line)
        if label:
            places[label[1]] = i
        elif jump and jump[1] in places:
            inside = lines[places[jump[1]] : i]
            vectors = [each for each in inside if re.match(r"\s+v_", each)]
            found.append(Loop(places[jump[1]], inside, len(vectors), sum("_dot" in each for each in vectors)))
    if not any(loop.vectors for loop in found):
        raise ValueError("the function has no loop")
    return found


def loop_instructions(assembly: str) -> int:
    """Return the vector instructions of the largest loop of a function."""
    return max(loop.vectors for loop in loops_of(assembly))


def with_dots(assembly: str) -> list[Loop]:
    """Return the loops with all dot instructions of a function, the inner one first."""
    found = loops_of(assembly)
    most = max(loop.dots for loop in found)
    return sorted((loop for loop in found if loop.dots == most), key=lambda loop: loop.vectors)


def nested_instructions(assembly: str) -> tuple[int, int, int]:
    """Return the vector instructions of the inner loop with all dot instructions, of the outer one, and of all."""
    loops = with_dots(assembly)
    whole = sum(bool(re.match(r"\s+v_", line)) for line in assembly.splitlines())
    return loops[0].vectors, loops[-1].vectors, whole


def inner_loops(assembly: str) -> list[Loop]:
    """Return the loops with dot instructions, or all if there are none, within which no other of them lies."""
    every, found = loops_of(assembly), list[Loop]()
    for loop in sorted([loop for loop in every if loop.dots] or every, key=lambda loop: len(loop.lines)):
        last = loop.first + len(loop.lines)
        if not any(loop.first <= each.first and each.first + len(each.lines) <= last for each in found):
            found.append(loop)
    return found


def full_waits(assembly: str) -> int:
    """Return how often an iteration of an inner loop with dot instructions waits for all loads on their way, at most.

    A wait behind another such wait counts where a load lies between them.
    """
    return max(map(waits_of, inner_loops(assembly)))


def waits_of(loop: Loop) -> int:
    """Return how often an iteration of a loop waits for all loads on their way."""
    count, is_any_on_its_way = 0, True
    for line in loop.lines:
        if LOAD.match(line):
            is_any_on_its_way = True
        elif FULL_WAIT.match(line):
            count += is_any_on_its_way
            is_any_on_its_way = False
    return count


class MatrixStep(NamedTuple):
    """One turn of the loop of a kernel with matrix instructions, of one wave.

    Attributes
    ----------
    kernel : str
    matrices, vectors : int
        Its matrix instructions, and its other vector instructions. Those of rare branches are among them, and what a
        unit of quarter speed computes counts four times.
    operations : int
        The floating-point operations of its matrix instructions.
    waves : int
        The waves that a SIMD holds.
    """

    kernel: str
    matrices: int
    vectors: int
    operations: int
    waves: int

    def seconds(self, gpu: Gpu) -> tuple[float, float]:
        """Return the seconds that a SIMD takes for its matrix instructions, and for the others."""
        simds = SIMDS * gpu.units
        return self.operations * simds / gpu.matrix, self.vectors * simds / gpu.issue

    def share(self, gpu: Gpu) -> float:
        """Return the part of the issue slots that goes to matrix instructions."""
        matrix, vector = self.seconds(gpu)
        return matrix / (matrix + vector)


def matrix_step(code: Code, kernel: str) -> MatrixStep:
    """Return the step of the inner loop with the most matrix instructions; its blocks may lie anywhere in the function.

    Raises
    ------
    ValueError
        The function has no matrix instruction in a loop.
    """
    inside: dict[str, list[str]] = {}
    outer: set[str] = set()  # of loops
    label, loop = "", ""
    for line in code.text.splitlines():
        if block := re.match(r"(?:\.L(BB\w+):|; %bb\.)", line):
            label, loop = block[1] or "", ""
        if found := re.search(r"in Loop: Header=(BB\w+)", line):
            loop = found[1]
        elif "Loop Header: Depth" in line:
            loop = label
        elif found := re.search(r"Parent Loop (BB\w+)", line):
            outer.add(found[1])
        if instruction := re.match(r"\s+(v_\w+)", line):
            inside.setdefault(loop, []).append(instruction[1])
    inside = {name: names for name, names in inside.items() if name and name not in outer}
    sizes = {name: [shape for each in names if (shape := SHAPE.search(each))] for name, names in inside.items()}
    most = max(sizes, key=lambda name: len(sizes[name]), default="")
    if not most or not sizes[most]:
        raise ValueError(f"{kernel} has no matrix instruction in a loop")
    operations = sum(2 * int(m) * int(n) * int(k) for m, n, k in (shape.groups() for shape in sizes[most]))
    others = [name for name in inside[most] if not SHAPE.search(name)]
    vectors = len(others) + 3 * sum(name.startswith(SLOW) for name in others)
    return MatrixStep(kernel, len(sizes[most]), vectors, operations, code.waves)
