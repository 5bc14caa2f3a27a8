"""Formats: the matrices that the kernels of decode steps read."""

from __future__ import annotations

from typing import Any

from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.uses import argument
from hiprt.kernels.lang.operands import FLOATS
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES

__all__ = ["MATRIX", "format_options"]

MATRIX = ("w", "scales", "biases")


def format_options(primitive: Primitive) -> dict[str, Any] | None:
    """Return the matrix of a quantised product and its format, as the fused kernels take them; None for others."""
    w, scales, biases = (argument(primitive, name) for name in ("w", "scales", "biases"))
    bits, group = argument(primitive, "bits") or 4, argument(primitive, "group_size") or 64
    is_right = (
        argument(primitive, "mode") == "affine"
        and argument(primitive, "transpose") is True
        and argument(primitive, "out") is None
        and bits in BITS
        and group in GROUP_SIZES
        and biases is not None
        and all(each.form.is_contiguous and each.form.is_aligned for each in (w, scales, biases))
        and {argument(primitive, "x").dtype, scales.dtype, biases.dtype} in ({dtype} for dtype in FLOATS)
    )
    return {"w": w, "scales": scales, "biases": biases, "group_size": group, "bits": bits} if is_right else None
