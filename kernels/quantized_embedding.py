"""Rows of a quantised embedding table."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.checks import INT32, buffer, made
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.kernels.quantized import check_quantized
from hiprt.stream import Stream, current_stream

__all__ = ["quantized_embedding"]

KERNEL = Kernel(
    "quantized_embedding",
    inputs={"ids": "int", "weight": "uint", "scales": "T", "biases": "T"},
    outputs={"out": "T"},
    scalars={"vocabulary": "int", "words": "uint"},
    template={"T": "dtype", "GROUP": "int", "BITS": "int"},
)
THREADS = 64
LARGEST_GRID_Y = 65535


def quantized_embedding(
    ids: Array,
    weight: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the dequantised rows that `ids` names.

    Parameters
    ----------
    ids : Array, [n]
        int32, on the device. An id outside 0..V-1 gives a row of zeros. At most 65535 of them.
    weight : Array, [V, K * bits / 32]
        uint32.
    scales, biases : Array, [V, K / group_size]
        float16, bfloat16 or float32.
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
    Array, [n, K]
        In the dtype of `scales`: ``code * scale`` rounded, then the sum with ``bias`` rounded, as on MLX's CPU.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, bits or group size are not supported, or `out` overlaps an input.
    """
    rows, width = check_quantized("quantized_embedding", weight, scales, biases, group_size, bits)
    buffer("quantized_embedding", "ids", ids, INT32)
    if ids.ndim != 1 or ids.size > LARGEST_GRID_Y:
        raise ValueError(
            f"quantized_embedding: ids has shape {ids.shape}; one axis of at most {LARGEST_GRID_Y} is needed"
        )
    stream = stream or current_stream()
    inputs = (ids, weight, scales, biases)
    out = made("quantized_embedding", out, (ids.size, width), scales.dtype, stream, inputs)
    words = weight.shape[1]
    loops = uses_loops(stream)
    grid = (ids.size, 1, 1) if loops else (-(-words // THREADS), ids.size, 1)
    KERNEL(stream, grid, (1 if loops else THREADS, 1, 1), (scales.dtype, group_size, bits), *inputs, out, rows, words)
    return out
