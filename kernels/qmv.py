"""Product of a few vectors with a quantised matrix, with what a decode step does before and after it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, dtype_of
from hiprt.kernels.checks import FLOATS, aligned, buffer, contiguous, floating, made, same
from hiprt.kernels.dialect import SOURCES
from hiprt.kernels.kernel import Kernel, uses_loops
from hiprt.kernels.quantized import BITS, GROUP_SIZES, check_matrix, format_of
from hiprt.stream import Stream, current_stream

__all__ = ["Shape", "Tiling", "qmv", "tiling_of"]

OPERANDS = {"x": "T", "weight": "uint", "scales": "T", "biases": "T", "norm": "T", "residual": "T"}
KERNEL = Kernel(
    "qmv",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "width": "uint", "batch": "uint", "flags": "uint", "stretch": "uint", "eps": "float"},
    template={"T": "dtype", "S": "dtype", "GROUP": "int", "BITS": "int", "BATCH": "int"},
    headers=("codes.h", "lane_values.h"),
    threads=128,
)
# For NVIDIA's matrix instructions alone, so not a body of the dialect.
TENSOR = Kernel(
    "qmv_mma",
    inputs=OPERANDS,
    outputs={"out": "S"},
    scalars={"columns": "uint", "width": "uint", "batch": "uint", "threadgroups": "uint", "eps": "float"},
    template={
        "T": "dtype",
        "S": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "BATCH": "int",
        "SIMDGROUPS": "int",
        "DEPTH": "int",
        "STEPS": "int",
        "PHASED": "int",
        "NORMED": "bool",
        "ADDED": "bool",
        "GATED": "bool",
    },
    threads=512,
    source=(SOURCES / "qmv_mma.hip").read_text(),
)
MOST = 8  # vectors
SIMDGROUPS = 4
ROWS = 4  # of a simdgroup
MOST_ROWS = 64  # of a plain loop on the CPU device
STRETCH_BYTES = 16384  # weights of one plain loop: a few microseconds
TILE = 8  # rows of a simdgroup with matrix instructions
STAGED_STEPS = 64  # of one vector in 32 KiB of shared memory
PHASED_TILES = 16  # of a threadgroup whose vectors do not fit there
MULTIPROCESSORS = 132  # of an H100 or H200
SIZES = (1, 2, 4, 8)


class Shape(NamedTuple):
    """What the choice of a kernel depends on.

    Attributes
    ----------
    rows, width : int
        Of the matrix.
    batch : int
    group, bits : int
    is_gated : bool
    """

    rows: int
    width: int
    batch: int
    group: int
    bits: int
    is_gated: bool

    @property
    def steps(self) -> int:
        """Stretches of a row that a simdgroup multiplies at a time with matrix instructions: 128 bytes each."""
        return self.width * self.bits // 1024

    @property
    def tiles(self) -> int:
        """How many times eight rows there are."""
        return -(-self.rows // TILE)


class Tiling(NamedTuple):
    """How the kernel of matrix instructions shares out its work.

    Attributes
    ----------
    groups : int
        Threadgroups; each has as many rows as the others, give or take eight.
    simdgroups : int
        Of a threadgroup, among which its work is divided evenly.
    depth : int
        Stretches of 128 bytes of each of eight rows that a simdgroup has in flight.
    """

    groups: int
    simdgroups: int
    depth: int


def tiling_of(shape: Shape) -> Tiling:
    """Choose: one threadgroup for each multiprocessor, and as many simdgroups as there is work for."""
    groups = min(shape.tiles, MULTIPROCESSORS)
    work = -(-shape.tiles // groups) * shape.steps
    simdgroups = 8 if work <= 8 else 16
    return Tiling(groups, simdgroups, min(4, -(-work // simdgroups)))


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
    tiling: Tiling | None = None,
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
    tiling : Tiling, optional
        Chosen by `tiling_of` by default; only the kernel of matrix instructions has one.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, N] or [B, N / 2]
        Summed in float32 and rounded once; on GPUs ``x * norm`` is rounded to the dtype of `x` before, and must be in
        its range. The norm's common factor is applied to the sums.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned to 16 bytes, or `out` overlaps an input.
    """
    columns = check("qmv", x, w, scales, biases, group_size, bits, norm, residual, swiglu)
    stream = stream or current_stream()
    dtype = x.dtype if out_dtype is None else dtype_of(out_dtype)
    if dtype not in FLOATS:
        raise TypeError(f"qmv: out_dtype is {dtype}; float16, bfloat16 or float32 is needed")
    operands = x, w, scales, biases, x if norm is None else norm, x if residual is None else residual
    out = made("qmv", out, (x.shape[0], columns), dtype, stream, operands)
    batch, width = x.shape
    if not out.size:
        return out
    shape = Shape(w.shape[0], width, batch, group_size, bits, swiglu)
    parts = norm is not None, residual is not None, swiglu
    if has_matrix_instructions(stream, x.dtype, shape) or tiling is not None:
        plan = tensor_plan(shape, tiling or tiling_of(shape))
        template = (x.dtype, dtype, group_size, bits, *plan.template, *parts)
        TENSOR(stream, plan.grid, plan.threads, template, *operands, out, columns, width, batch, plan.grid[0], eps)
        return out
    plan = plain_plan(shape, columns, uses_loops(stream))
    template = (x.dtype, dtype, group_size, bits, *plan.template)
    flags = sum(1 << i for i, part in enumerate(parts) if part)
    KERNEL(stream, plan.grid, plan.threads, template, *operands, out, columns, width, batch, flags, plan.stretch, eps)
    return out


def check(
    op: str,
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    group: int,
    bits: int,
    norm: Array | None,
    residual: Array | None,
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


def has_matrix_instructions(stream: Stream, dtype: np.dtype[Any], shape: Shape) -> bool:
    """Whether the kernel of matrix instructions takes this: whole steps of 16-bit numbers, on NVIDIA."""
    is_whole = shape.width * shape.bits % 1024 == 0 and shape.rows % TILE == 0
    return is_whole and dtype.itemsize == 2 and stream.device.provider == "nvidia"


class Plan(NamedTuple):
    """A launch: its grid and threads, and what the template does not get from the operands."""

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[int, ...]
    stretch: int = 0


@lru_cache(4096)
def tensor_plan(shape: Shape, tiling: Tiling) -> Plan:
    """Return the launch of the kernel of matrix instructions."""
    batch = next(size for size in SIZES if size >= shape.batch)
    groups, simdgroups, depth = tiling
    if simdgroups % batch or simdgroups > TENSOR.threads // 32 or shape.rows % TILE or not shape.steps:
        raise ValueError(f"qmv: {tiling} does not fit {shape}")
    phases = -(-shape.steps * batch // STAGED_STEPS)
    phased = 0
    if phases > 1:
        groups = max(groups, -(-shape.tiles // PHASED_TILES))
        phased = -(-shape.tiles // groups)
    groups = min(groups, shape.tiles)
    template = batch, simdgroups, depth, -(-shape.steps // phases), phased
    return Plan((groups, 1, 1), (simdgroups * 32, 1, 1), template)


@lru_cache(4096)
def plain_plan(shape: Shape, columns: int, loops: bool) -> Plan:
    """Return the launch of the kernel that every target has."""
    if loops:
        rows = min(MOST_ROWS, max(2, STRETCH_BYTES * 8 // (shape.width * shape.bits)))
        stretch = rows // 2 if shape.is_gated else rows
        return Plan((-(-columns // stretch), shape.batch, 1), (1, 1, 1), (1,), stretch)
    batch = min(shape.batch, 2)
    groups = -(-columns // (SIMDGROUPS * (ROWS // 2 if shape.is_gated else ROWS)))
    return Plan((groups, -(-shape.batch // batch), 1), (SIMDGROUPS * 32, 1, 1), (batch,))
