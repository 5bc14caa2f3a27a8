"""Passes: what is changed in a program before it runs, each in a file that says when it may.

Each takes a program and returns another one with the same results, bit for bit but for `ROUNDING`; it returns the
program itself where it finds nothing to do. ``HIPRT_COMPILE_PASSES`` names those that are used.
"""

from collections.abc import Callable, Collection, Mapping

from hiprt.array import Array
from hiprt.flags import flags
from hiprt.graphs.trace.passes.copies import copies
from hiprt.graphs.trace.passes.dead_code import dead_code
from hiprt.graphs.trace.passes.decode import decode
from hiprt.graphs.trace.passes.decode.matrices import NO_LEAVES
from hiprt.graphs.trace.passes.fusion import fusion
from hiprt.graphs.trace.passes.simplify import simplify
from hiprt.graphs.trace.program import Program

__all__ = ["PASSES", "ROUNDING", "improved"]

# In the order in which they run.
PASSES: dict[str, Callable[[Program], Program]] = {
    "simplify": simplify,
    "decode": decode,
    "dead_code": dead_code,
    "fusion": fusion,
    "copies": copies,
}
# Those that change results by rounding, which are off by default.
ROUNDING = {"decode"}


def improved(
    program: Program, names: Collection[str] | None = None, leaves: Mapping[int, Array] = NO_LEAVES
) -> tuple[Program, list[object]]:
    """Return a program after all passes, and a line for each pass that changed something, as text when it is read.

    Parameters
    ----------
    program : Program
    names : collection of str, optional
        The passes; those that ``HIPRT_COMPILE_PASSES`` names by default.
    leaves : mapping of int to Array
        Values of a lazy graph that hold arrays which the program captured, by the arrays' ids; see `decode`.
    """
    told: list[object] = []
    for name, change in PASSES.items():
        if name in (flags.compile_passes if names is None else names):
            after = decode(program, leaves) if change is decode else change(program)
            if after is not program:
                told += [f"{name}: {len(program)} primitives become {len(after)}", *after.notes]
            program = after
    return program, told
