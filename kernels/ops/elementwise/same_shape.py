"""The launch of kernels that combine two arrays of one shape element by element."""

from __future__ import annotations

from typing import Any, NamedTuple

from hiprt.array import Array, Form
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import floating, made, same
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["launch"]

STRETCH = 16384  # elements of one plain loop on the CPU device
THREADS = 256


class Plan(NamedTuple):
    """A launch."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]


def launch(
    kernel: Kernel, names: tuple[str, str], a: Array, b: Array, stream: Stream | None, out: Array | None
) -> Array:
    """Check the operands, launch, and return the result."""
    stream = stream or current_stream()
    plan = plan_of(kernel.name, names, a, b, out, uses_loops(stream))
    out = made(kernel.name, out, a.shape, a.dtype, stream, (a, b), aliasing=True)
    kernel(stream, plan.grid, plan.threads, plan.template, a, b, out, a.size, STRETCH)
    return out


@Planned
def plan_of(op: str, names: tuple[str, str], a: Form, b: Form, out: Form | None, loops: bool) -> Plan:
    """Check the operands and return the launch."""
    floating(op, names[0], a)
    same(op, names[1], b, names[0], a)
    if a.shape != b.shape:
        raise ValueError(f"{op}: {names[0]} has shape {a.shape} and {names[1]} {b.shape}; they must be the same")
    if loops:
        return Plan((-(-a.size // STRETCH), 1, 1), (1, 1, 1), (a.dtype, 1))
    is_aligned = a.is_aligned and b.is_aligned and (out is None or out.is_aligned)
    run = 16 // a.dtype.itemsize if is_aligned else 1
    return Plan((-(-a.size // (THREADS * run)), 1, 1), (THREADS, 1, 1), (a.dtype, run))
