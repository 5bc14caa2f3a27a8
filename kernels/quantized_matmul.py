"""Product with a quantised matrix."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import aligned, floating, made, same
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.kernels.quantized import check_quantized
from hiprt.stream import Stream, current_stream

__all__ = ["quantized_matmul"]

KERNEL = Kernel(
    "quantized_matmul",
    inputs={"x": "T", "weight": "uint", "scales": "T", "biases": "T"},
    outputs={"out": "T"},
    scalars={"rows": "uint", "width": "uint", "stretch": "uint"},
    template={"T": "dtype", "GROUP": "int", "BITS": "int"},
    headers=("codes.h",),
    threads=128,
)
SIMDGROUPS = 4
ROWS = 2  # of a simdgroup, as in the body
MOST_ROWS = 64  # of a plain loop on the CPU device, as in the body
STRETCH_BYTES = 16384  # weights of one plain loop: a few microseconds
LARGEST_GRID_Y = 65535


def quantized_matmul(
    x: Array,
    weight: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``x @ (codes * scales + biases).T``, summed in float32 and rounded once.

    Parameters
    ----------
    x : Array, [M, K]
        float16, bfloat16 or float32; at most 65535 rows.
    weight : Array, [N, K * bits / 32]
        uint32.
    scales, biases : Array, [N, K / group_size]
        Of the dtype of `x`.
    group_size : int
        32, 64 or 128.
    bits : int
        4 or 8.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [M, N]
        The dtype of `x`.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, bits or group size are not supported, `x` or `weight` does not start at a multiple of
        16 bytes, or `out` overlaps an input.

    Notes
    -----
    By groups: ``scale * sum(code * x) + bias * sum(x)``. The format is the affine one of MLX's ``quantize``.
    """
    op = "quantized_matmul"
    rows, width = check_quantized(op, weight, scales, biases, group_size, bits)
    floating(op, "x", x, 2)
    same(op, "scales", scales, "x", x)
    if x.shape[1] != width or x.shape[0] > LARGEST_GRID_Y:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {LARGEST_GRID_Y} rows of {width} are needed")
    aligned(op, "x", x)
    aligned(op, "weight", weight)
    stream = stream or current_stream()
    inputs = (x, weight, scales, biases)
    out = made(op, out, (x.shape[0], rows), x.dtype, stream, inputs)
    stretch = min(MOST_ROWS, max(1, STRETCH_BYTES // max(4 * weight.shape[1], 1)))
    if uses_loops(stream):
        groups, threads = -(-rows // stretch), 1
    else:
        groups, threads = -(-rows // (SIMDGROUPS * ROWS)), SIMDGROUPS * 32
    template = (x.dtype, group_size, bits)
    KERNEL(stream, (groups, x.shape[0], 1), (threads, 1, 1), template, *inputs, out, rows, width, stretch)
    return out
