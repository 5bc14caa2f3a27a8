"""Quantised matrices: `quantize`, `dequantize` and products with them, in all of MLX's modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.dtypes import Dtype, bfloat16, float32, floating, given, issubdtype, uint32
from hiprt.metal_compat.mlx.fp8 import coded, decoded
from hiprt.metal_compat.mlx.lazy import apply
from hiprt.metal_compat.mlx.shapes import reshape

__all__ = ["dequantize", "gather_qmm", "gather_qqmm", "qqmm", "quantize", "quantized_matmul"]

UINT32, FLOAT32 = np.dtype(np.uint32), np.dtype(np.float32)
MIDDLES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)  # between neighbouring codes E2M1
LARGEST = 448.0 * 6.0  # the largest product of a scale E4M3 and a code E2M1


def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    global_scale: array | None = None,
    stream: Any = None,
) -> tuple[array, ...]:
    """Return codes and scales of groups of the last axis, and biases in the mode ``affine``.

    Modes and their defaults are MLX's: ``affine`` (64 values, 4 bits), ``mxfp4``, ``mxfp8`` and ``nvfp4``. In ``nvfp4``
    a global scale is the largest value of the matrix, for which the largest scale and code stand.
    """
    check_global_scale("quantize", mode, global_scale)
    if not issubdtype(w.dtype, floating):
        raise ValueError(f"[quantize] Only real floating types can be quantized but w has type {w.dtype.name}.")
    made: tuple[array, ...] = apply(kernels.quantize, w, group_size, bits, mode)
    if global_scale is None:
        return made
    found: tuple[array, ...] = apply(quantized_whole, w, global_scale, made[0].shape, made[1].shape)
    return found


def dequantize(
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    dtype: Dtype | None = None,
    *,
    stream: Any = None,
) -> array:
    """Return the values that codes, scales and biases stand for."""
    check_global_scale("dequantize", mode, global_scale)
    result = None if dtype is None else given(dtype)
    if global_scale is None:
        made: array = apply(kernels.dequantize, w, scales, biases, group_size, bits, mode, result)
        return made
    whole: array = apply(kernels.dequantize, w, scales, None, group_size, bits, mode, FLOAT32)
    scaled: array = apply(kernels.multiply, whole, apply(kernels.divide, global_scale, LARGEST))
    return scaled.astype(bfloat16 if dtype is None else dtype)


def quantized_matmul(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: Any = None,
) -> array:
    """Return the product of an array and a quantised matrix."""
    made: array = apply(kernels.quantized_matmul, x, w, scales, biases, bool(transpose), group_size, bits, mode)
    return made


def gather_qmm(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: Any = None,
) -> array:
    """Return products of matrices and quantised matrices that indices choose."""
    check_global_scale("gather_qmm", mode, global_scale)
    named = {"group_size": group_size, "bits": bits, "mode": mode, "sorted_indices": bool(sorted_indices)}
    made: array = apply(kernels.gather_qmm, x, w, scales, biases, lhs_indices, rhs_indices, bool(transpose), **named)
    return rescaled(made, global_scale)


def qqmm(
    x: array,
    w: array,
    scales: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    stream: Any = None,
) -> array:
    """Return the product of an array, which is quantised first, and a matrix's transpose, quantised or not.

    Raises
    ------
    ValueError
        A matrix of codes has no scales, one global scale comes without the other, a dtype is not floating, or shapes do
        not fit.
    """
    form = {"group_size": group_size, "bits": bits, "mode": mode}
    rows, codes, steps = both_quantized("qqmm", x, w, scales, form, global_scale_x, global_scale_w)
    made: array = apply(kernels.quantized_matmul, rows, codes, steps, None, True, group_size, bits, mode)
    return rescaled(made, global_scale_w)


def gather_qqmm(
    x: array,
    w: array,
    /,
    scales: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: Any = None,
) -> array:
    """Return products as `qqmm` does, of matrices that indices choose from two stacks."""
    form = {"group_size": group_size, "bits": bits, "mode": mode}
    rows, codes, steps = both_quantized("gather_qqmm", x, w, scales, form, global_scale_x, global_scale_w)
    named = {**form, "sorted_indices": bool(sorted_indices)}
    made: array = apply(kernels.gather_qmm, rows, codes, steps, None, lhs_indices, rhs_indices, True, **named)
    return rescaled(made, global_scale_w)


def both_quantized(
    op: str,
    x: array,
    w: array,
    scales: array | None,
    form: dict[str, Any],
    scale_x: array | None,
    scale_w: array | None,
) -> tuple[array, array, array]:
    """Return what quantisation leaves of an array, and the codes and scales of a matrix."""
    for name, given_scale in (("x", scale_x), ("w", scale_w)):
        check_global_scale(f"{op}: {name}", form["mode"], given_scale)
    if (scale_x is None) != (scale_w is None):
        raise ValueError(f"[{op}] Either both global_scale_x and global_scale_w must be provided, or neither.")
    if form["mode"] == "affine":
        raise ValueError(f"[{op}] Mode 'affine' is not supported.")
    if w.dtype is uint32 and scales is None:
        raise ValueError(f"[{op}] Scales must be provided if second argument is quantized.")
    if not issubdtype(x.dtype, floating):
        raise ValueError(f"[{op}] Only real floating types are supported but first argument dtype == {x.dtype.name}.")
    rows = x if x.ndim > 1 else reshape(x, 1, -1)
    given_codes, given_steps = quantize(rows, **form, global_scale=scale_x)
    kept = dequantize(given_codes, given_steps, **form, dtype=x.dtype, global_scale=scale_x)
    codes, steps = (w, scales) if scales is not None else quantize(w, **form, global_scale=scale_w)
    return kept if x.ndim > 1 else reshape(kept, *x.shape), codes, steps


def rescaled(x: array, global_scale: array | None) -> array:
    """Return a product with a matrix whose codes stand for more by a global scale."""
    if global_scale is None:
        return x
    made: array = apply(kernels.multiply, x, apply(kernels.divide, global_scale, LARGEST))
    return made.astype(x.dtype)


def quantized_whole(w: Array, whole: Array, packed: tuple[int, ...], shared: tuple[int, ...]) -> tuple[Array, Array]:
    """Return codes E2M1 and scales E4M3 of groups of 16, scaled by the largest value of the matrix."""
    groups = kernels.contiguous(w).reshape((*shared, 16))
    by = kernels.divide(LARGEST, whole.reshape(()))
    steps = kernels.divide(kernels.max(kernels.abs(groups), -1, True), 6.0)
    scales = coded(kernels.multiply(kernels.astype(steps, FLOAT32), by))
    ratios = kernels.astype(kernels.divide(groups, decoded(scales, w.dtype)), FLOAT32)
    ratios = kernels.multiply(ratios, by)
    size = kernels.abs(ratios)
    code = kernels.astype(kernels.greater(size, MIDDLES[0]), UINT32)
    for middle in MIDDLES[1:]:
        code = kernels.add(code, kernels.astype(kernels.greater(size, middle), UINT32))
    is_negative = kernels.logical_and(kernels.less(ratios, 0.0), kernels.greater(code, 0))
    code = kernels.add(code, kernels.multiply(kernels.astype(is_negative, UINT32), 8))
    code = kernels.where(kernels.isfinite(ratios), code, 0)  # of a group of zeros, whose scale is 0
    words = kernels.contiguous(code).reshape((*packed, 8))
    shifts = kernels.astype(kernels.multiply(kernels.arange(8), 4), UINT32)
    return kernels.sum(kernels.left_shift(words, shifts), -1), scales.reshape(shared)


def check_global_scale(op: str, mode: str, global_scale: array | None) -> None:
    """Refuse a scale of the whole matrix that is not a float32 number, or in a mode without one."""
    if global_scale is None:
        return
    if mode != "nvfp4":
        raise ValueError(f"[{op}] Global scale is only supported for 'nvfp4' quantization mode.")
    if global_scale.size != 1:
        raise ValueError(f"[{op}] Global scale must be a scalar but got shape {global_scale.shape}.")
    if global_scale.dtype is not float32:
        raise ValueError(f"[{op}] Global scale must have dtype float32 but got {global_scale.dtype.name}.")
