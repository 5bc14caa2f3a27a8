"""The operands of products with quantised matrices: which there may be, and in which form kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.operands import FLOATS
from hiprt.kernels.ops.elementwise.copies import astype, contiguous
from hiprt.kernels.ops.promotion import promote
from hiprt.kernels.ops.quantized.formats import BITS, UINT8, Format, check_matrix, listed
from hiprt.objects import Planned
from hiprt.stream import Stream

__all__ = ["Operands", "operands_of"]


class Operands(NamedTuple):
    """The operands of a product, which are contiguous and have fitting shapes and dtypes.

    Attributes
    ----------
    x : Array, [..., M, K]
    w, scales : Array
    biases : Array or None
    form : Format
    is_transposed : bool
    columns : int
        The number of columns of the result, N.
    """

    x: Array
    w: Array
    scales: Array
    biases: Array | None
    form: Format
    is_transposed: bool
    columns: int

    @property
    def is_packed(self) -> bool:
        """Whether the kernel that reads 128 bits at a time takes the operands."""
        return self.form.bits in BITS and self.has_tiles

    @property
    def has_tiles(self) -> bool:
        """Whether the kernel of tiles takes the operands."""
        return self.form.is_affine and self.is_transposed and not (self.x.address | self.w.address) % 16


def operands_of(
    op: str,
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None,
    is_transposed: bool,
    form: Format,
    stream: Stream,
) -> Operands:
    """Return the operands of a product after checking and promoting them.

    Raises
    ------
    ValueError
        A dtype is wrong, or the shapes do not fit.
    """
    dtype, columns, is_ready = checked(op, x, w, scales, biases, is_transposed, form)
    if is_ready:
        return Operands(x, w, scales, biases, form, is_transposed, columns)
    if not (x.dtype == dtype and x.is_contiguous):
        x = astype(x, dtype, stream=stream)
    if not (w.is_contiguous and scales.is_contiguous and scales.dtype in (dtype, UINT8)):
        w = contiguous(w, stream=stream)
        scales = astype(scales, dtype if form.is_affine else scales.dtype, stream=stream)
    if biases is not None and not (biases.dtype == dtype and biases.is_contiguous):
        biases = astype(biases, dtype, stream=stream)
    return Operands(x, w, scales, biases, form, is_transposed, columns)


@Planned
def checked(
    op: str, x: Form, w: Form, scales: Form, biases: Form | None, is_transposed: bool, form: Format
) -> tuple[np.dtype[Any], int, bool]:
    """Return the result's dtype and columns, and whether kernels take the operands without copies."""
    *_, rows, width = check_matrix(op, w, scales, biases, form)
    floats = [x, scales, biases] if form.is_affine and biases is not None else [x]
    for value in floats:
        if value.dtype not in FLOATS:
            raise ValueError(f"[{op}] Only real floating types are supported but received {value.dtype}.")
    if not x.ndim:
        raise ValueError(f"[{op}] The first input must have at least one dimension.")
    inner, columns = (width, rows) if is_transposed else (rows, width)
    if x.shape[-1] != inner:
        raise ValueError(
            f"[{op}] Last dimension of first input with shape (..., {x.shape[-1]}) does not match the expanded "
            f"quantized matrix ({inner}, {columns}) computed from shape {listed(w.shape)} with "
            f"group_size={form.group_size}, bits={form.bits} and transpose={str(is_transposed).lower()}"
        )
    dtype = promote(*(value.dtype for value in floats))
    given = [each for each in (x, w, scales, biases) if each is not None]
    kinds = [(x, (dtype,)), (scales, (dtype, UINT8)), *([(biases, (dtype,))] if biases else [])]
    is_ready = all(each.is_contiguous for each in given) and all(each.dtype in known for each, known in kinds)
    return dtype, columns, is_ready
