"""Quantisation of groups on the device in the affine format, and dequantisation of every format."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from numpy.typing import DTypeLike

from hiprt.array import Array, Form, bfloat16, dtype_of, make
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOATS, UINT32, contiguous
from hiprt.kernels.ops.elementwise import copies
from hiprt.kernels.ops.quantized.formats import Format, check_matrix, format_of, listed
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["dequantize", "quantize"]

THREADS = 64
QUANTIZE = Kernel(
    "quantized/quantize",
    inputs={"w": "T"},
    outputs={"packed": "uint", "scales": "T", "biases": "T"},
    scalars={"groups": "uint", "span": "uint", "bits": "uint"},
    template={"T": "dtype"},
    threads=64,
    instances=each(),
)
DEQUANTIZE = Kernel(
    "quantized/dequantize",
    inputs={"packed": "uint", "scales": "uchar", "biases": "uchar"},
    outputs={"out": "T"},
    scalars={"runs": "uint", "span": "uint", "bits": "uint", "mode": "int"},
    template={"T": "dtype", "S": "dtype"},
    headers=("quantized/formats.h",),
    instances=each(("T", "S")),
)


@op
def quantize(
    w: Array,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: Stream | None = None,
) -> tuple[Array, Array, Array]:
    """Quantise the last axis, bit for bit as MLX does on the CPU.

    Parameters
    ----------
    w : Array, [..., N, K]
        The values, which are float16, bfloat16 or float32. A view with gaps is copied first, as in `dequantize`.
    group_size : int, optional
        The values that share a scale and a bias: 32, 64 (default) or 128; K is a multiple of it.
    bits : int, optional
        The bits of a code: 2, 3, 4 (default), 5, 6 or 8.
    mode : str
        ``affine``. The other formats are read (`dequantize`, `quantized_matmul`) but not written.

    Returns
    -------
    packed : Array, [..., N, K * bits / 32]
        uint32.
    scales, biases : Array, [..., N, K / group_size]
        The scales and the biases of the groups, of the dtype of `w`.

    Raises
    ------
    ValueError
        The format does not exist, the dtype is not floating, or the shape does not fit.

    Notes
    -----
    MLX's GPU backends extend the range of a group that is all negative up to 0, and round ties away from zero. Its CPU
    backend and this op do not. A group with NaN has unspecified codes; other groups are not affected.
    """
    stream = stream or current_stream()
    w = in_rows(w, stream)
    plan = quantize_of(w, group_size, bits, mode)
    packed = make(plan.packed, UINT32, stream)
    scales, biases = (make(plan.scales, w.dtype, stream) for _ in range(2))
    plan.launch(stream, w=w, packed=packed, scales=scales, biases=biases)
    return packed, scales, biases


class Quantize(NamedTuple):
    """The launch of `quantize`, and the shapes of its results."""

    packed: tuple[int, ...]
    scales: tuple[int, ...]
    launch: Launch


@Planned
def quantize_of(w: Form, group_size: int | None, bits: int | None, mode: str) -> Quantize:
    """Check the operand and return the launch."""
    form = format_of("quantize", group_size, bits, mode)
    if not form.is_affine:
        raise ValueError(f"[quantize] Writing mode '{mode}' is not supported; the mode 'affine' is.")
    if w.dtype not in FLOATS:
        raise ValueError(f"[quantize] Only real floating types can be quantized but w has type {w.dtype}.")
    if w.ndim < 2:
        raise ValueError(
            f"[quantize] The matrix to be quantized must have at least 2 dimension but it has only {w.ndim}."
        )
    if w.shape[-1] % form.group_size:
        raise ValueError(
            "[quantize] The last dimension of the matrix needs to be divisible by the quantization group size "
            f"{form.group_size}. However the provided  matrix has shape {listed(w.shape)}"
        )
    contiguous("quantize", "w", w)
    *rows, width = w.shape
    groups = w.size // form.group_size
    scalars = {"groups": groups, "span": form.group_size, "bits": form.bits}
    launch = Launch(QUANTIZE, (-(-groups // THREADS), 1, 1), (THREADS, 1, 1), {"T": w.dtype}, **scalars)
    return Quantize((*rows, width * form.bits // 32), (*rows, width // form.group_size), launch)


@op
def dequantize(
    w: Array,
    scales: Array,
    biases: Array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    dtype: DTypeLike | None = None,
    *,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the values that codes, scales and biases stand for, bit for bit as MLX does on the CPU.

    Parameters
    ----------
    w : Array, [..., N, K * bits / 32]
        uint32.
    scales : Array, [..., N, K / group_size]
        float16, bfloat16 or float32; uint8 for the modes of floating codes.
    biases : Array, optional
        The biases, of the shape and dtype of `scales`; only ``affine`` has them.
    group_size, bits : int, optional
        The mode's by default: 64 and 4 for ``affine``.
    mode : str
        ``affine``, ``mxfp4``, ``mxfp8`` (scales E8M0) or ``nvfp4`` (scales E4M3).
    dtype : dtype, optional
        The result's dtype; by default that of `scales` for ``affine``, else bfloat16.

    Returns
    -------
    Array, [..., N, K]
        The values. For ``affine`` the product of code and scale is rounded to the dtype of `scales`, and so is the sum
        with the bias.

    Raises
    ------
    ValueError
        The format does not exist, a dtype is wrong, or a shape does not fit.
    """
    stream = stream or current_stream()
    w, scales, biases = (in_rows(each, stream) for each in (w, scales, biases))
    plan = dequantize_of(w, scales, biases, group_size, bits, mode, dtype)
    return plan.run(stream, out, packed=w, scales=scales, biases=biases)


@Planned
def dequantize_of(
    w: Form,
    scales: Form,
    biases: Form | None,
    group_size: int | None,
    bits: int | None,
    mode: str,
    dtype: DTypeLike | None,
) -> Plan:
    """Check the operands and return the plan."""
    op = "dequantize"
    if w.dtype != UINT32:
        raise ValueError(f"[{op}] The matrix should be given as a uint32")
    form = format_of(op, group_size, bits, mode)
    shape = check_matrix(op, w, scales, biases, form)
    check_floating(op, form, scales, biases)
    made_of = scales.dtype if form.is_affine else bfloat16
    result = made_of if dtype is None else dtype_of(dtype)
    if result not in FLOATS:
        raise ValueError(f"[{op}] The result cannot have type {result}; float16, bfloat16 or float32 is needed.")
    for name, value in (("w", w), ("scales", scales), ("biases", biases)):
        if value is not None:
            contiguous(op, name, value)
    runs = math.prod(shape) // 8
    scalars = {"runs": runs, "span": form.group_size, "bits": form.bits, "mode": form.number}
    template = {"T": result, "S": made_of if form.is_affine else result}
    launch = Launch(DEQUANTIZE, (-(-runs // THREADS), 1, 1), (THREADS, 1, 1), template, **scalars)
    return Plan(op, shape, result, launch)


def in_rows(value: Any, stream: Stream) -> Any:
    """Return a copy of an array with gaps, whose elements lie in row order; anything else is returned as it is."""
    return copies.contiguous(value, stream=stream) if isinstance(value, Array) and not value.is_contiguous else value


def check_floating(op: str, form: Format, scales: Array | Form, biases: Array | Form | None) -> None:
    """Refuse scales and biases of an affine matrix that are not floating, or of two dtypes."""
    if not form.is_affine or biases is None:
        return
    if scales.dtype not in FLOATS or biases.dtype not in FLOATS:
        raise ValueError(f"[{op}] Scales and biases must be floating but are {scales.dtype} and {biases.dtype}.")
    if scales.dtype != biases.dtype and op == "dequantize":
        raise ValueError(f"[{op}] Scales and biases differ in type: {scales.dtype} and {biases.dtype}.")
