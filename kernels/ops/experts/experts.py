"""The experts of a mixture in decoding: two launches for gate, up, their product, down and the weighted sum."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel, uses_loops
from hiprt.kernels.lang.operands import INT32, aligned, buffer, floating, made, same
from hiprt.kernels.ops.experts import expert_rings
from hiprt.kernels.ops.experts.expert_rings import down_plan, gate_up_plan
from hiprt.kernels.ops.quantized.formats import BITS, check_matrix, format_of
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = ["moe_down", "moe_gate_up"]

# The widths of the experts' matrices of Qwen3-30B-A3B, and the experts of a token.
EXPERT_WIDTHS, CHOSEN = (2048, 768), 8
PAIRS = 2  # columns of a simdgroup of the first launch
ROWS = 1  # rows of a simdgroup of the second
SIMDGROUPS = 8
STRETCH_BYTES = 16384  # weights of one plain loop: a few microseconds
STAGED_BYTES = 28672  # of a token's vectors, in a threadgroup's memory
MOST_ITEMS = 65535  # the grid's y
GATE_UP = Kernel(
    "experts/moe_gate_up",
    inputs={"x": "T", "indices": "int", "w": "uint", "scales": "T", "biases": "T", "norm": "T"},
    outputs={"out": "T"},
    scalars={"columns": "uint", "experts": "uint", "chosen": "uint", "eps": "float", "stretch": "uint"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "NORMED": "bool",
        "PAIRS": "int",
        "SIMDGROUPS": "int",
    },
    headers=("quantized/codes.h", "quantized/ordered_loads.h", "quantized/packed_rows.h", "norm/row_sums.h"),
    threads=256,
    ahead=(),
    instances=each(
        GROUP=(64,), BITS=BITS, WIDTH=EXPERT_WIDTHS[:1], NORMED=(True,), PAIRS=(PAIRS,), SIMDGROUPS=(SIMDGROUPS,)
    ),
)
DOWN = Kernel(
    "experts/moe_down",
    inputs={
        "y": "T",
        "indices": "int",
        "weights": "T",
        "w": "uint",
        "scales": "T",
        "biases": "T",
        "residual": "T",
    },
    outputs={"out": "T"},
    scalars={"columns": "uint", "experts": "uint", "is_residual": "uint", "stretch": "uint"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "CHOSEN": "int",
        "ROWS": "int",
        "SIMDGROUPS": "int",
    },
    headers=("quantized/codes.h", "quantized/ordered_loads.h", "quantized/packed_rows.h"),
    threads=256,
    ahead=(),
    instances=each(
        GROUP=(64,), BITS=BITS, WIDTH=EXPERT_WIDTHS[1:], CHOSEN=(CHOSEN,), ROWS=(ROWS,), SIMDGROUPS=(SIMDGROUPS,)
    ),
)


def check_stack(
    op: str, w: Form, scales: Form, biases: Form, x: Form, group_size: int, bits: int
) -> tuple[int, int, int]:
    """Return experts, rows and columns of a stack of matrices.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        The format has no kernel, a shape does not fit, an array is not contiguous or not aligned.
    """
    form = format_of(op, group_size, bits, "affine")
    if bits not in BITS:
        raise ValueError(f"{op}: {bits} bits are not supported, {' and '.join(map(str, BITS))} are")
    buffer(op, "w", w, np.dtype(np.uint32))
    same(op, "scales", scales, "the vectors", x)
    same(op, "biases", biases, "the vectors", x)
    shape = check_matrix(op, w, scales, biases, form)
    if len(shape) != 3:
        raise ValueError(f"{op}: w has shape {w.shape}; 3 axes are needed")
    for name, value in (("w", w), ("the vectors", x)):
        aligned(op, name, value)
    experts, rows, width = shape
    return experts, rows, width


def stretch_of(rows: int, width: int, bits: int) -> int:
    """Return how many columns one plain loop takes, of so many rows each."""
    return max(1, STRETCH_BYTES * 8 // max(rows * width * bits, 1))


def launch_of(loops: bool, columns: int, stretch: int, share: int, items: int) -> tuple[Any, Any]:
    """Return threadgroups and threads; a simdgroup takes `share` columns, a plain loop `stretch`."""
    groups = -(-columns // (stretch if loops else SIMDGROUPS * share))
    return (groups, items, 1), (1 if loops else SIMDGROUPS * 32, 1, 1)


class Plan(NamedTuple):
    """A launch, and the shape of what it returns."""

    shape: tuple[int, ...]
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    template: tuple[Any, ...]
    sizes: tuple[int, ...]
    stretch: int | None  # None: by integer matrix instructions


def moe_gate_up(
    x: Array,
    indices: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    norm: Array | None = None,
    eps: float = 1e-6,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``silu(gate) * up`` of the experts that indices choose for each token.

    Parameters
    ----------
    x : Array, [B, K]
        float16, bfloat16 or float32; at most 28 KiB a row.
    indices : Array, [B, k]
        int32, of experts; one that does not exist gives zeros.
    w : Array, [E, 2 * N, K * bits / 32]
        uint32: of each expert N rows for the gate, then N rows for up.
    scales, biases : Array, [E, 2 * N, K / group_size]
        Of the dtype of `x`.
    norm : Array, [K], optional
        Of the dtype of `x`: the weight of an RMS norm of `x`, as `rms_norm` would compute it; none without.
    eps : float
        Of the norm.
    group_size : int
        32, 64 or 128.
    bits : int
        4 or 8.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, k, N]
        Of the dtype of `x`; summed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    plan = plan_gate_up(x, indices, w, scales, biases, norm, group_size, bits, stream.device.arch, uses_loops(stream))
    inputs = x, indices, w, scales, biases, x if norm is None else norm
    out = made("moe_gate_up", out, plan.shape, x.dtype, stream, inputs)
    if plan.stretch is None:
        expert_rings.GATE_UP(stream, plan.grid, plan.threads, plan.template, *inputs, out, *plan.sizes, eps)
    else:
        GATE_UP(stream, plan.grid, plan.threads, plan.template, *inputs, out, *plan.sizes, eps, plan.stretch)
    return out


@Planned
def plan_gate_up(
    x: Form,
    indices: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form | None,
    group_size: int,
    bits: int,
    arch: str,
    loops: bool,
) -> Plan:
    """Check the operands and return the launch."""
    op = "moe_gate_up"
    floating(op, "x", x, 2)
    experts, rows, width = check_stack(op, w, scales, biases, x, group_size, bits)
    buffer(op, "indices", indices, INT32)
    tokens = x.shape[0]
    if x.shape[1] != width or rows % 2 or width * x.dtype.itemsize > STAGED_BYTES:
        raise ValueError(f"{op}: x has shape {x.shape} and w is a stack of {rows} by {width}; they do not fit")
    if indices.ndim != 2 or indices.shape[0] != tokens or indices.size > MOST_ITEMS:
        raise ValueError(f"{op}: indices has shape {indices.shape}; [{tokens}, k] is needed")
    if norm is not None:
        same(op, "norm", norm, "x", x)
        aligned(op, "norm", norm)
        if norm.shape != (width,):
            raise ValueError(f"{op}: norm has shape {norm.shape}; {(width,)} is needed")
    columns, chosen = rows // 2, indices.shape[1]
    form = x.dtype, group_size, bits, width
    is_one = tokens == 1 and scales.is_aligned and biases.is_aligned
    ringed = gate_up_plan(arch, x.dtype, chosen, columns, width, group_size, bits) if is_one else None
    if ringed:
        template = *form, *ringed.template, norm is not None, chosen, columns
        return Plan((1, chosen, columns), ringed.grid, ringed.threads, template, (columns, experts), None)
    stretch = stretch_of(2, width, bits)
    grid, threads = launch_of(loops, columns, stretch, PAIRS, indices.size)
    template = *form, norm is not None, PAIRS, SIMDGROUPS
    return Plan((tokens, chosen, columns), grid, threads, template, (columns, experts, chosen), stretch)


def moe_down(
    y: Array,
    indices: Array,
    weights: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    residual: Array | None = None,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the weighted sum of what a token's experts answer, plus a residual.

    Parameters
    ----------
    y : Array, [B, k, N]
        float16, bfloat16 or float32: what `moe_gate_up` returns; at most 28 KiB a token.
    indices : Array, [B, k]
        int32, of experts; one that does not exist adds nothing.
    weights : Array, [B, k]
        Of the dtype of `y`.
    w : Array, [E, H, N * bits / 32]
        uint32.
    scales, biases : Array, [E, H, N / group_size]
        Of the dtype of `y`.
    residual : Array, [B, H], optional
        Of the dtype of `y`.
    group_size : int
        32, 64 or 128.
    bits : int
        4 or 8.
    stream : Stream, optional
        This thread's by default.
    out : Array, optional
        Receives the result.

    Returns
    -------
    Array, [B, H]
        Of the dtype of `y`; summed in float32, in one order, and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    forms = y, indices, weights, w, scales, biases, residual
    plan = plan_down(*forms, group_size, bits, stream.device.arch, uses_loops(stream))
    inputs = y, indices, weights, w, scales, biases, y if residual is None else residual
    out = made("moe_down", out, plan.shape, y.dtype, stream, inputs)
    if plan.stretch is None:
        expert_rings.DOWN(stream, plan.grid, plan.threads, plan.template, *inputs, out, *plan.sizes)
    else:
        DOWN(stream, plan.grid, plan.threads, plan.template, *inputs, out, *plan.sizes, plan.stretch)
    return out


@Planned
def plan_down(
    y: Form,
    indices: Form,
    weights: Form,
    w: Form,
    scales: Form,
    biases: Form,
    residual: Form | None,
    group_size: int,
    bits: int,
    arch: str,
    loops: bool,
) -> Plan:
    """Check the operands and return the launch."""
    op = "moe_down"
    floating(op, "y", y, 3)
    experts, columns, width = check_stack(op, w, scales, biases, y, group_size, bits)
    tokens, chosen, _ = y.shape
    if y.shape[2] != width or not chosen or chosen * width * y.dtype.itemsize > STAGED_BYTES or tokens > MOST_ITEMS:
        raise ValueError(f"{op}: y has shape {y.shape} and w is a stack of {columns} by {width}; they do not fit")
    buffer(op, "indices", indices, INT32, (tokens, chosen))
    same(op, "weights", weights, "y", y)
    if weights.shape != (tokens, chosen):
        raise ValueError(f"{op}: weights has shape {weights.shape}; {(tokens, chosen)} is needed")
    if residual is not None:
        same(op, "residual", residual, "y", y)
        if residual.shape != (tokens, columns):
            raise ValueError(f"{op}: residual has shape {residual.shape}; {(tokens, columns)} is needed")
    form = y.dtype, group_size, bits, width
    is_one = tokens == 1 and scales.is_aligned and biases.is_aligned
    ringed = down_plan(arch, y.dtype, chosen, columns, width, group_size, bits) if is_one else None
    if ringed:
        template = *form, *ringed.template, residual is not None, chosen
        return Plan((1, columns), ringed.grid, ringed.threads, template, (columns, experts), None)
    stretch = stretch_of(chosen, width, bits)
    grid, threads = launch_of(loops, columns, stretch, ROWS, tokens)
    template = *form, chosen, ROWS, SIMDGROUPS
    return Plan((tokens, columns), grid, threads, template, (columns, experts, residual is not None), stretch)
