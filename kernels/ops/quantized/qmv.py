"""Product of a few vectors with a quantised matrix, with what a decode step does before and after it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, Form, dtype_of
from hiprt.kernels.lang.dialect import OPS
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import FLOATS, aligned, buffer, contiguous, floating, made, same
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES, check_matrix, format_of
from hiprt.kernels.tuning.rings import TEMPLATE, Ring, ring_of, ring_plan, shared_bytes
from hiprt.kernels.tuning.tiling import (
    Shape,
    Tiling,
    plain_plan,
    tensor_plan,
    tiling_of,
)
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["qmv"]

OPERANDS = {"x": "T", "weight": "uint", "scales": "T", "biases": "T", "norm": "T", "residual": "T"}
KERNEL = Kernel(
    "quantized/qmv",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "width": "uint", "batch": "uint", "flags": "uint", "stretch": "uint", "eps": "float"},
    template={"T": "dtype", "S": "dtype", "GROUP": "int", "BITS": "int", "BATCH": "int"},
    headers=("quantized/codes.h", "quantized/lane_values.h"),
    threads=128,
    instances=each(("T", "S"), GROUP=GROUP_SIZES, BITS=BITS, BATCH=lambda _, loops: (1,) if loops else (1, 2)),
)
# For NVIDIA's matrix instructions alone, so not a body of the dialect.
TENSOR = Kernel(
    "qmv_mma",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "batch": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "S": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "BATCH": "int",
        "TILES": "int",
        "SPLIT": "int",
        "DEPTH": "int",
        "PHASE": "int",
        "REPEATED": "bool",
        "NORMED": "bool",
        "ADDED": "bool",
        "GATED": "bool",
    },
    threads=lambda template: 32 * template["TILES"] * template["SPLIT"],
    ahead=("weight", "scales", "biases"),
    source=(OPS / "quantized/qmv_mma.hip").read_text(),
)
# What the body of integer matrix instructions knows of matrices that indices choose: here there is one.
PLAIN = """
constexpr int CHOICE = 0, CHOSEN = 1, COLUMNS = 8;
constexpr uint matrices = 1;
const device int* const indices = 0;
const device T* const shares = x;
#line 1 "integer_rings.hip"
"""
# One vector, by integer matrix instructions.
INTEGER = Kernel(
    "qmv_integer",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "S": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        **dict.fromkeys(TEMPLATE, "int"),
        "NORMED": "bool",
        "ADDED": "bool",
        "GATED": "bool",
    },
    threads=lambda template: 32 * template["TEAMS"] * template["SPLIT"],
    ahead=("weight", "scales", "biases"),
    resident=lambda template: int(template["RESIDENT"]),
    shared=lambda template, target: shared_bytes(template, "matrix" in target.features),
    source=PLAIN + (OPS / "quantized/integer_rings.hip").read_text(),
)
MOST = 8  # vectors


def qmv(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int = 64,
    bits: int = 4,
    norm: Array | None = None,
    eps: float = 1e-6,
    residual: Array | None = None,
    swiglu: bool = False,
    out_dtype: DTypeLike | None = None,
    tiling: Tiling | Ring | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``rms_norm(x, norm, eps) @ dequantize(w, scales, biases).T + residual``, as one kernel.

    Parameters
    ----------
    x : Array, [B, K]
        float16, bfloat16 or float32; B from 0 to 8.
    w : Array, [N, K * bits / 32]
        uint32.
    scales, biases : Array, [N, K / group_size]
        As `quantize` returns them, of the dtype of `x`.
    group_size : int
        32, 64 or 128.
    bits : int
        4 or 8.
    norm : Array, [K], optional
        Weights of an RMS norm of `x`, of its dtype.
    eps : float
        Of the norm.
    residual : Array, [B, N], optional
        Added to the result, of the dtype of `x`.
    swiglu : bool
        Whether the first half of the rows of `w` is a gate and the second half what it gates: the result is
        ``silu(gate) * up``, [B, N / 2].
    out_dtype : dtype, optional
        Of the result: that of `x` by default.
    tiling : Ring or Tiling, optional
        Chosen by `ring_of` or `tiling_of` by default, for the kernels of matrix instructions.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, N] or [B, N / 2]
        Summed in float32 and rounded once; on GPUs ``x * norm`` is rounded to the dtype of `x` before, and must be in
        its range. The norm's common factor is applied to the sums. On NVIDIA a single vector is rounded, for each scale
        of the codes, to multiples of 2^-14 of the power of two below its largest number there.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned to 16 bytes, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    options = group_size, bits, swiglu, out_dtype, tiling
    plan = plan_of(x, w, scales, biases, norm, residual, *options, stream.device.arch, uses_loops(stream))
    operands = x, w, scales, biases, x if norm is None else norm, x if residual is None else residual
    out = made("qmv", out, plan.shape, plan.dtype, stream, operands)
    if plan.sizes:
        plan.kernel(stream, plan.grid, plan.threads, plan.template, *operands, out, *plan.sizes, eps)
    return out


class Plan(NamedTuple):
    """A launch; without sizes there is nothing to do."""

    kernel: Kernel
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    grid: tuple[int, int, int] = (0, 0, 0)
    threads: tuple[int, int, int] = (1, 1, 1)
    template: tuple[Any, ...] = ()
    sizes: tuple[int, ...] = ()


@Planned
def plan_of(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form | None,
    residual: Form | None,
    group_size: int,
    bits: int,
    is_gated: bool,
    out_dtype: DTypeLike | None,
    tiling: Tiling | Ring | None,
    arch: str,
    loops: bool,
) -> Plan:
    """Check the operands and return the launch."""
    columns = check("qmv", x, w, scales, biases, group_size, bits, norm, residual, is_gated)
    dtype = x.dtype if out_dtype is None else dtype_of(out_dtype)
    if dtype not in FLOATS:
        raise TypeError(f"qmv: out_dtype is {dtype}; float16, bfloat16 or float32 is needed")
    batch, width = x.shape
    if not batch * columns:
        return Plan(KERNEL, (batch, columns), dtype)
    shape = Shape(w.shape[0], width, batch, group_size, bits, is_gated)
    head, kinds = (batch, columns), (x.dtype, dtype, group_size, bits)
    parts = norm is not None, residual is not None, is_gated
    tiling = tiling or chosen(arch, x.dtype, shape)
    if isinstance(tiling, Ring):
        ringed = ring_plan(shape, tiling)
        return Plan(
            INTEGER, head, dtype, ringed.grid, ringed.threads, (*kinds, width, *ringed.template, *parts), (columns,)
        )
    if tiling is not None:
        tiled = tensor_plan(shape, tiling)
        template = (*kinds, width, *tiled.template, *parts)
        return Plan(TENSOR, head, dtype, tiled.grid, tiled.threads, template, (columns, batch))
    plain = plain_plan(shape, columns, loops)
    flags = sum(1 << i for i, part in enumerate(parts) if part)
    sizes = columns, width, batch, flags, plain.stretch
    return Plan(KERNEL, head, dtype, plain.grid, plain.threads, (*kinds, *plain.template), sizes)


def check(
    op: str,
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    group: int,
    bits: int,
    norm: Form | None,
    residual: Form | None,
    is_gated: bool,
) -> int:
    """Return the result's columns."""
    floating(op, "x", x, 2)
    form = format_of(op, group, bits, "affine")
    if bits not in BITS or group not in GROUP_SIZES or w.ndim != 2:
        raise ValueError(f"{op}: a matrix of 4 or 8 bits is needed, not w of {w.shape} with {bits} bits")
    rows, width = check_matrix(op, w, scales, biases, form)
    contiguous(op, "w", w)
    same(op, "scales", scales, "x", x)
    same(op, "biases", biases, "x", x)
    batch = x.shape[0]
    if x.shape[1] != width or batch > MOST:
        raise ValueError(f"{op}: x has shape {x.shape}; at most {MOST} vectors of {width} are needed")
    if is_gated and rows % 2:
        raise ValueError(f"{op}: {rows} rows are not a gate and as many rows that it gates")
    columns = rows // 2 if is_gated else rows
    given = {"x": x, "w": w, "scales": scales, "biases": biases}
    if norm is not None:
        buffer(op, "norm", norm, x.dtype, (width,))
        given["norm"] = norm
    if residual is not None:
        buffer(op, "residual", residual, x.dtype, (batch, columns))
    for name, value in given.items():
        aligned(op, name, value)
    return columns


def chosen(arch: str, dtype: np.dtype[Any], shape: Shape) -> Tiling | Ring | None:
    """Return how a kernel of matrix instructions takes this: whole steps of 16-bit numbers, on NVIDIA; else None.

    Bulk copies, and so much shared memory, are there from compute capability 9.0 on; that is where they were measured.
    """
    if not arch.startswith("sm_") or dtype.itemsize != 2 or shape.width * shape.bits % 1024:
        return None
    return (ring_of(shape) if arch == "sm_90" else None) or tiling_of(shape)
