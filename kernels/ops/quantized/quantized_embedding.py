"""Rows of a quantised embedding table."""

from __future__ import annotations

from numpy.typing import DTypeLike

from hiprt.array import Array, Form, bfloat16, dtype_of
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOATS, INT32, buffer, contiguous
from hiprt.kernels.ops.quantized.formats import check_matrix, format_of
from hiprt.kernels.ops.quantized.quantize import check_floating
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["quantized_embedding"]

THREADS = 64
LARGEST_GRID_Y = 65535
KERNEL = Kernel(
    "quantized/quantized_embedding",
    inputs={"ids": "int", "weight": "uint", "scales": "uchar", "biases": "uchar"},
    outputs={"out": "T"},
    scalars={"vocabulary": "int", "runs": "uint", "span": "uint", "bits": "uint", "mode": "int"},
    template={"T": "dtype"},
    headers=("quantized/formats.h",),
    threads=THREADS,
    instances=each(),
)


@op
def quantized_embedding(
    ids: Array,
    weight: Array,
    scales: Array,
    biases: Array | None = None,
    *,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    dtype: DTypeLike | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the dequantised rows that `ids` names.

    Parameters
    ----------
    ids : Array, [n]
        int32. At most 65535 ids, on the device. An id outside 0..V-1 gives a row of zeros.
    weight : Array, [V, K * bits / 32]
        uint32.
    scales, biases : Array, [V, K / group_size]
        The scales and the biases that `quantize` returns. Modes of floating codes have no biases.
    group_size, bits : int, optional
        The mode's by default: 64 and 4 for ``affine``.
    mode : str
        ``affine``, ``mxfp4``, ``mxfp8`` or ``nvfp4``.
    dtype : dtype, optional
        The result's dtype for modes of floating codes; bfloat16 by default.

    Returns
    -------
    Array, [n, K]
        The rows that `dequantize` returns; ``affine`` gives them in the dtype of `scales`.

    Raises
    ------
    TypeError
        The dtype of `ids` or of `out` is wrong.
    ValueError
        The format does not exist, another dtype is wrong, a shape does not fit, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    plan = plan_of(ids, weight, scales, biases, group_size, bits, mode, dtype)
    return plan.run(stream, out, ids=ids, weight=weight, scales=scales, biases=biases)


@Planned
def plan_of(
    ids: Form,
    weight: Form,
    scales: Form,
    biases: Form | None,
    group_size: int | None,
    bits: int | None,
    mode: str,
    dtype: DTypeLike | None,
) -> Plan:
    """Check the operands and return the plan."""
    op = "quantized_embedding"
    form = format_of(op, group_size, bits, mode)
    shape = check_matrix(op, weight, scales, biases, form)
    check_floating(op, form, scales, biases)
    if biases is not None and biases.dtype != scales.dtype:
        raise ValueError(f"[{op}] Scales and biases differ in type: {scales.dtype} and {biases.dtype}.")
    result = scales.dtype if form.is_affine else bfloat16 if dtype is None else dtype_of(dtype)
    if result not in FLOATS or len(shape) != 2:
        raise ValueError(f"[{op}] A matrix for rows of a floating type is needed, not {weight.shape} and {result}.")
    for name, value in (("weight", weight), ("scales", scales), ("biases", biases)):
        if value is not None:
            contiguous(op, name, value)
    buffer(op, "ids", ids, INT32)
    if ids.ndim != 1 or ids.size > LARGEST_GRID_Y:
        raise ValueError(f"{op}: ids has shape {ids.shape}; one axis of at most {LARGEST_GRID_Y} is needed")
    rows, width = shape
    runs = width // 8
    scalars = {"vocabulary": rows, "runs": runs, "span": form.group_size, "bits": form.bits, "mode": form.number}
    launch = Launch(KERNEL, (-(-runs // THREADS), ids.size, 1), (THREADS, 1, 1), {"T": result}, **scalars)
    return Plan(op, (ids.size, width), result, launch)
