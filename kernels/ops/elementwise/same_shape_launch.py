"""Launches of the kernels that combine two contiguous arrays of one shape and dtype element by element."""

from __future__ import annotations

from hiprt.array import Array, Form
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import floating, same
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["combine"]

THREADS = 256


def combine(kernel: Kernel, a: Array, b: Array, stream: Stream | None, out: Array | None) -> Array:
    """Check the operands, launch, and return the result.

    The kernel's first two arguments are the operands. Its scalars are ``size``, and ``stretch``, the elements that a
    plain loop takes.
    """
    stream = stream or current_stream()
    first, second = kernel.names[:2]
    return plan_of(kernel, first, second, a, b, out, target_of(stream)).run(stream, out, **{first: a, second: b})


@Planned
def plan_of(kernel: Kernel, first: str, second: str, a: Form, b: Form, out: Form | None, target: Target) -> Plan:
    """Check the operands and return the plan."""
    op = kernel.name
    floating(op, first, a)
    same(op, second, b, first, a)
    if a.shape != b.shape:
        raise ValueError(f"{op}: {first} has shape {a.shape} and {second} {b.shape}; they must be the same")
    stretch = target.table.loop_elements
    if target.takes_loops:
        run, threads, groups = 1, 1, -(-a.size // stretch)
    else:
        is_aligned = a.is_aligned and b.is_aligned and (out is None or out.is_aligned)
        run, threads = 16 // a.dtype.itemsize if is_aligned else 1, THREADS
        groups = -(-a.size // (THREADS * run))
    launch = Launch(kernel, (groups, 1, 1), (threads, 1, 1), {"T": a.dtype, "RUN": run}, size=a.size, stretch=stretch)
    return Plan(op, a.shape, a.dtype, launch)
