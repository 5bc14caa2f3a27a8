"""Quantisation of groups on the device, and dequantisation, in every format."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, Form, bfloat16, dtype_of, make
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import FLOATS, UINT32, contiguous
from hiprt.kernels.ops.elementwise import copies
from hiprt.kernels.ops.quantized.formats import UINT8, Format, check_matrix, format_of, listed
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
    threads=THREADS,
    instances=each(),
)
QUANTIZE_FLOATING = Kernel(
    "quantized/quantize_floating",
    inputs={"w": "T"},
    outputs={"packed": "uint", "scales": "uchar"},
    scalars={"groups": "uint", "mode": "int"},
    template={"T": "dtype"},
    headers=("quantized/formats.h", "quantized/floating_codes.h"),
    threads=THREADS,
    instances=each(),
    part_of="quantize",
)
DEQUANTIZE = Kernel(
    "quantized/dequantize",
    inputs={"packed": "uint", "scales": "uchar", "biases": "uchar"},
    outputs={"out": "T"},
    scalars={"runs": "uint", "span": "uint", "bits": "uint", "mode": "int"},
    template={"T": "dtype", "S": "dtype"},
    headers=("quantized/formats.h",),
    threads=THREADS,
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
) -> tuple[Array, ...]:
    """Quantise the last axis, bit for bit as MLX does on the CPU.

    Parameters
    ----------
    w : Array, [..., N, K]
        The values, which are float16, bfloat16 or float32. A view with gaps is copied first, as in `dequantize`.
    group_size : int, optional
        The values that share a scale; K is a multiple of it. ``affine`` has 32, 64 (default) and 128, ``mxfp4`` and
        ``mxfp8`` have 32, ``nvfp4`` has 16.
    bits : int, optional
        The bits of a code: 2, 3, 4 (default), 5, 6 or 8 in ``affine``, 4 in ``mxfp4`` and ``nvfp4``, 8 in ``mxfp8``.
    mode : str
        ``affine`` has codes that are integers, and groups with a scale and a bias. The others have floating codes:
        E2M1 with scales E8M0 in ``mxfp4``, E4M3 with scales E8M0 in ``mxfp8``, E2M1 with scales E4M3 in ``nvfp4``.

    Returns
    -------
    packed : Array, [..., N, K * bits / 32]
        uint32.
    scales : Array, [..., N, K / group_size]
        The scales of the groups: of the dtype of `w` in ``affine``, uint8 in the other modes.
    biases : Array, [..., N, K / group_size]
        The biases of the groups, of the dtype of `w`; only ``affine`` returns them.

    Raises
    ------
    ValueError
        The format does not exist, the dtype is not floating, or the shape does not fit.

    Notes
    -----
    MLX's GPU backends extend the range of a group that is all negative up to 0, and round ties away from zero. Its CPU
    backend and this op do not. A group with NaN or infinity has unspecified codes; other groups are not affected.

    A scale E8M0 is the least power of two with which no code overflows, as MLX 0.32.4 chooses it. Exponents below -127,
    of groups whose values are all below about 2^-125 in ``mxfp4`` and 2^-119 in ``mxfp8``, wrap around in the 8 bits,
    as in MLX: such groups do not come back.
    """
    stream = stream or current_stream()
    w = in_rows(w, stream)
    plan = quantize_of(w, group_size, bits, mode)
    parts = {name: make(shape, dtype, stream) for name, (shape, dtype) in plan.parts.items()}
    plan.launch(stream, w=w, **parts)
    return tuple(parts.values())


class Quantize(NamedTuple):
    """The launch of `quantize`, and the shapes and dtypes of its results by name."""

    parts: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
    launch: Launch


@Planned
def quantize_of(w: Form, group_size: int | None, bits: int | None, mode: str) -> Quantize:
    """Check the operand and return the launch."""
    form = format_of("quantize", group_size, bits, mode)
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
    packed, shared = (*rows, width * form.bits // 32), (*rows, width // form.group_size)
    scalars = {"span": form.group_size, "bits": form.bits} if form.is_affine else {"mode": form.number}
    kernel = QUANTIZE if form.is_affine else QUANTIZE_FLOATING
    launch = Launch(kernel, (-(-groups // THREADS), 1, 1), (THREADS, 1, 1), {"T": w.dtype}, groups=groups, **scalars)
    if form.is_affine:
        return Quantize({"packed": (packed, UINT32), "scales": (shared, w.dtype), "biases": (shared, w.dtype)}, launch)
    return Quantize({"packed": (packed, UINT32), "scales": (shared, UINT8)}, launch)


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
