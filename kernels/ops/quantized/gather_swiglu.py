"""The gated products of a mixture: vectors with the quantised matrices that each chooses, half of which gates half."""

from __future__ import annotations

from hiprt.array import Array, empty
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.matmul.stacks import side_of, size_of
from hiprt.kernels.ops.quantized.formats import format_of
from hiprt.kernels.ops.quantized.gather_qmm import gather_qmm, plan_of
from hiprt.kernels.ops.quantized.operands import operands_of
from hiprt.kernels.tuning.target import target_of
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gather_swiglu"]


@op
def gather_swiglu(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    indices: Array,
    *,
    group_size: int,
    bits: int,
    stream: Stream | None = None,
) -> Array:
    """Return the products of `gather_qmm`, whose first half gates the second: ``silu(first) * second``.

    Vectors are multiplied with the matrices that each token chooses of a stack. Where one kernel does it, it has the
    bits of `gather_qmm` and `silu_mul`.

    Parameters
    ----------
    x : Array, [B, k, K] or [B, 1, K]
        float16, bfloat16 or float32. A vector for each choice, or one for all choices.
    w, scales, biases : Array, [E, N, ...]
        The stack, as `quantize` returns it.
    indices : Array, [B, k]
        Of any integer dtype. An index that names no matrix gives zeros.
    group_size, bits : int
        As in `quantize`.

    Returns
    -------
    Array, [B, k, N / 2]

    Raises
    ------
    ValueError
        What `gather_qmm` raises.
    """
    stream = stream or current_stream()
    wide = x.reshape(*x.shape[:-1], 1, x.shape[-1])
    rows = w.shape[-2]
    form = format_of("gather_swiglu", group_size, bits, "affine")
    if rows % 2 == 0 and w.ndim == 3:
        given = operands_of("gather_swiglu", wide, w, scales, biases, True, form, stream)
        left = side_of(wide.shape[:-2], indices.shape, size_of(wide.shape[:-2]), None, stream)
        right = side_of(indices.shape, indices.shape, w.shape[0], indices, stream)
        plan = plan_of(given, 1, indices.size, left, right, True, target_of(stream))
        if plan is not None and right.indices is not None and given.biases is not None:
            out = empty((*indices.shape, rows // 2), given.x.dtype, stream)
            plan.run(stream, out, given.x, right.indices, given.w, given.scales, given.biases)
            return out
    y = gather_qmm(wide, w, scales, biases, None, indices, group_size=group_size, bits=bits, stream=stream)
    y, half = y.reshape(*indices.shape, rows), rows // 2
    return silu_mul(*(contiguous(part, stream=stream) for part in (y[..., :half], y[..., half:])), stream=stream)
