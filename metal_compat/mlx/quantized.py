"""Quantised matrices: `quantize`, `dequantize` and products with them, in all of MLX's modes."""

from __future__ import annotations

from typing import Any

from hiprt import kernels
from hiprt.metal_compat.mlx.array import array
from hiprt.metal_compat.mlx.dtypes import Dtype, floating, given, issubdtype
from hiprt.metal_compat.mlx.lazy import apply

__all__ = ["dequantize", "gather_qmm", "quantize", "quantized_matmul"]


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

    Modes and their defaults are MLX's: ``affine`` (64 values, 4 bits), ``mxfp4``, ``mxfp8`` and ``nvfp4``.
    """
    refuse_global_scale("quantize", global_scale)
    if not issubdtype(w.dtype, floating):
        raise ValueError(f"[quantize] Only real floating types can be quantized but w has type {w.dtype.name}.")
    made: tuple[array, ...] = apply(kernels.quantize, w, group_size, bits, mode)
    return made


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
    refuse_global_scale("dequantize", global_scale)
    made: array = apply(
        kernels.dequantize, w, scales, biases, group_size, bits, mode, None if dtype is None else given(dtype)
    )
    return made


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
    refuse_global_scale("gather_qmm", global_scale)
    named = {"group_size": group_size, "bits": bits, "mode": mode, "sorted_indices": bool(sorted_indices)}
    made: array = apply(kernels.gather_qmm, x, w, scales, biases, lhs_indices, rhs_indices, bool(transpose), **named)
    return made


def refuse_global_scale(op: str, global_scale: array | None) -> None:
    """Refuse a scale of the whole matrix, which no kernel here takes."""
    if global_scale is not None:
        raise ValueError(f"[{op}] A global scale is not supported: leave it out, and the groups' scales are whole.")
