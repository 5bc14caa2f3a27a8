"""The launch of kernels that combine two arrays of one shape element by element."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import floating, made, same
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.stream import Stream, current_stream

__all__ = ["launch"]

STRETCH = 16384  # elements of one plain loop on the CPU device
THREADS = 256


def launch(
    kernel: Kernel, names: tuple[str, str], a: Array, b: Array, stream: Stream | None, out: Array | None
) -> Array:
    """Check the operands, launch, and return the result."""
    op = kernel.name
    floating(op, names[0], a)
    same(op, names[1], b, names[0], a)
    if a.shape != b.shape:
        raise ValueError(f"{op}: {names[0]} has shape {a.shape} and {names[1]} {b.shape}; they must be the same")
    stream = stream or current_stream()
    out = made(op, out, a.shape, a.dtype, stream, (a, b), aliasing=True)
    if uses_loops(stream):
        grid, threads, run = -(-a.size // STRETCH), 1, 1
    else:
        run = 1 if (a.address | b.address | out.address) % 16 else 16 // a.dtype.itemsize
        grid, threads = -(-a.size // (THREADS * run)), THREADS
    kernel(stream, (grid, 1, 1), (threads, 1, 1), (a.dtype, run), a, b, out, a.size, STRETCH)
    return out
