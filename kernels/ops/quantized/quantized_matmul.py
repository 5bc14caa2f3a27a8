"""Product with a quantised matrix."""

from __future__ import annotations

from hiprt.array import Array
from hiprt.kernels.ops.broadcasting import broadcast_shapes
from hiprt.kernels.ops.matmul.stacks import side_of, size_of
from hiprt.kernels.ops.quantized.formats import format_of
from hiprt.kernels.ops.quantized.gather_qmm import ONE, multiply
from hiprt.kernels.ops.quantized.operands import operands_of
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["quantized_matmul"]


@op
def quantized_matmul(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``x @ dequantize(w, scales, biases).T``, summed in float32 and rounded once.

    Parameters
    ----------
    x : Array, [..., M, K] or [K]
        float16, bfloat16 or float32.
    w : Array, [..., N, K * bits / 32], or [..., K, N * bits / 32] without `transpose`
        uint32. The leading axes broadcast with those of `x`.
    scales, biases : Array
        The scales and the biases that `quantize` returns. Modes of floating codes have no biases.
    transpose : bool
        Whether `x` is multiplied with the rows of `w`, instead of its columns.
    group_size, bits : int, optional
        The mode's by default: 64 and 4 for ``affine``.
    mode : str
        ``affine``, ``mxfp4``, ``mxfp8`` or ``nvfp4``.

    Returns
    -------
    Array, [..., M, N] or [..., N]
        The products, of the promoted dtype of `x`, `scales` and `biases`.

    Raises
    ------
    ValueError
        The format does not exist, a dtype is wrong, or the shapes do not fit.

    Notes
    -----
    Codes of 4 and 8 bits with `transpose`, where `x` and `w` start at a multiple of 16 bytes, are summed by groups:
    ``scale * sum(code * x) + bias * sum(x)``. Other formats have a slower kernel. With more than 8 rows, tiles of
    weights in affine formats are unpacked once for many rows and multiplied by matrix instructions where the device has
    them. A GPU then rounds each weight ``code * scale + bias`` to the dtype first. On Hopper GPUs
    rows of 16-bit numbers with codes of 4 or 8 bits go by that chip's own matrix instructions; the order of their sums
    depends on how many rows there are. So it does on AMD's CDNA GPUs, where threadgroups share the width of few tiles.
    """
    op = "quantized_matmul"
    stream = stream or current_stream()
    given = operands_of(op, x, w, scales, biases, transpose, format_of(op, group_size, bits, mode), stream)
    if w.ndim == 2:
        lines = size_of(x.shape[:-1])
        return multiply(op, given, (), lines, ONE, ONE, stream, out, (*x.shape[:-1], given.columns))
    lines = x.shape[-2] if x.ndim > 1 else 1
    full = broadcast_shapes("broadcast_shapes", x.shape[:-2], w.shape[:-2])
    sides = [side_of(v.shape[:-2], full, size_of(v.shape[:-2]), None, stream) for v in (x, w)]
    shape = (*full, lines, given.columns) if x.ndim > 1 else (*full, given.columns)
    return multiply(op, given, full, lines, sides[0], sides[1], stream, out, shape)
