"""Gate, up and their product for the experts that each token of a decode step chooses, in one launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, aligned, buffer, floating, same
from hiprt.kernels.ops.experts.experts import (
    EXPERT_WIDTHS,
    HEADERS,
    MOST_ITEMS,
    STACK,
    STAGED_BYTES,
    Columns,
    ahead_bits,
    check_stack,
    dot_configuration_of,
    dot_instances,
    launched_in_turn,
    name_of,
    plain_share,
    ring_configuration_of,
)
from hiprt.kernels.ops.quantized.integer_dots import dot_kernel
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.tuning.choices import Run, choose
from hiprt.kernels.tuning.dots import Dots
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["moe_gate_up"]

FEW = 3  # columns of an expert in the instance of a constant number, so that an emulator can execute it
INPUTS = {"x": "T", "indices": "int", **STACK, "norm": "T"}
KERNEL = Kernel(
    "experts/moe_gate_up",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={
        "columns": "uint",
        "matrices": "uint",
        "between": "uint",
        "chosen": "uint",
        "eps": "float",
        "stretch": "uint",
    },
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "NORMED": "bool",
        "PAIRS": "int",
        "SIMDGROUPS": "int",
    },
    headers=(*HEADERS, "norm/row_sums.h"),
    threads=lambda template: int(template["SIMDGROUPS"]) * 32,
    ahead=(),
    instances=each(
        GROUP=(64,),
        BITS=ahead_bits,
        WIDTH=EXPERT_WIDTHS[:1],
        NORMED=(True,),
        PAIRS=(DEFAULT.expert_columns,),
        SIMDGROUPS=(DEFAULT.expert_simdgroups,),
    ),
)
# Beside the rules: threadgroups of half or twice the columns.
WAYS = Columns(1, 8), Columns(2, 16), Columns(4, 8)
# Integer matrix instructions compute the experts of a few tokens, each token's as if it were alone.
RINGS = ring_kernel(
    "moe_gate_up_integer",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "between": "uint", "eps": "float"},
    template={"NORMED": "bool", "CHOSEN": "int", "COLUMNS": "int"},
    ahead=("norm",),
    matrices="GATHERED",
    is_gated=True,
)
# Integer dot instructions compute those of one token.
DOTS = dot_kernel(
    "moe_gate_up_dots",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "eps": "float"},
    template={"NORMED": "bool", "CHOSEN": "int", "COLUMNS": "int"},
    part_of="moe_gate_up",
    matrices="GATHERED",
    is_gated=True,
    instances=lambda takes_loops: dot_instances(takes_loops, EXPERT_WIDTHS[0], NORMED=True, COLUMNS=FEW),
)


def rings_of(
    target: Target, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int, tokens: int = 1
) -> Configuration | None:
    """Return how the kernel of rings shares out the experts of tokens; None where another kernel takes them."""
    product = Product(chosen * 2 * columns, width, 1, group, bits, True)
    return ring_configuration_of(target, dtype, product, tokens) if columns % 4 == 0 else None


@op
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
    apart: bool = False,
    tiling: Dots | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``silu(gate) * up`` of the experts that indices choose for each token.

    Parameters
    ----------
    x : Array, [B, K]
        float16, bfloat16 or float32. One vector for each token, of at most 28 KiB.
    indices : Array, [B, k]
        int32. The experts that each token takes; one that does not exist gives zeros.
    w : Array, [E, 2 * N, K * bits / 32]
        uint32. Each expert has N rows for the gate, then N rows for up.
    scales, biases : Array, [E, 2 * N, K / group_size]
        The scales and the biases that `quantize` returns, of the dtype of `x`.
    apart : bool
        Whether the first axes are 2 * E and N instead: the gates of all experts come first, then their ups.
    norm : Array, [K], optional
        The weight of an RMS norm of `x`, as `rms_norm` computes it; of the dtype of `x`.
    eps : float
        The norm's epsilon.
    group_size : int
        32, 64 or 128.
    bits : int
        2, 3, 4, 5, 6 or 8.
    tiling : Dots, optional
        How the kernel of integer dot instructions shares out one token's experts. By default `dots_of` chooses it where
        the device has such instructions.

    Returns
    -------
    Array, [B, k, N]
        The products, of the dtype of `x`; they are summed in float32 and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    plan = plan_of(x, indices, w, scales, biases, norm, eps, group_size, bits, bool(apart), tiling, target_of(stream))
    return plan.run(stream, out, x=x, indices=indices, weight=w, scales=scales, biases=biases, norm=norm)


@Planned
def plan_of(
    x: Form,
    indices: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form | None,
    eps: float,
    group_size: int,
    bits: int,
    apart: bool,
    tiling: Dots | None,
    target: Target,
) -> Plan:
    """Check the operands and return the plan."""
    op = "moe_gate_up"
    floating(op, "x", x, 2)
    experts, rows, width = check_stack(op, w, scales, biases, x, group_size, bits)
    if apart and experts % 2:
        raise ValueError(f"{op}: w has shape {w.shape}; as many gates as ups are needed")
    if apart:
        experts, rows = experts // 2, rows * 2
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
    kinds: dict[str, Any] = {
        "T": x.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        "NORMED": norm is not None,
    }
    between = experts * columns if apart else columns
    sizes: dict[str, Any] = {"columns": columns, "matrices": experts, "between": between, "eps": eps}
    is_aligned = scales.is_aligned and biases.is_aligned
    whole, is_single = Product(chosen * rows, width, 1, group_size, bits, True), tokens == 1 and not apart
    sharing = target, x.dtype, chosen, columns, width, group_size, bits, tokens
    configuration = rings_of(*sharing) if is_aligned else None

    operands = {"x": x, "indices": indices, "weight": w, "scales": scales, "biases": biases, "norm": norm}
    words = ("normed",) * (norm is not None) + ("apart",) * apart
    name = name_of(op, tokens, chosen, experts, rows, kinds, words)

    def choice(ways: list[Dots]) -> Dots:
        def run(way: Dots) -> Run:
            plan = plan_of(x, indices, w, scales, biases, norm, eps, group_size, bits, apart, way, target)
            return launched_in_turn(plan, tokens, chosen, experts)

        return choose(target, name, ways, operands, run)

    def plain(share: Columns) -> Launch:
        grid, threads, stretch = plain_share(target, columns, 2, width, bits, share, indices.size)
        template = {**kinds, "PAIRS": share.each, "SIMDGROUPS": share.simdgroups}
        return Launch(KERNEL, grid, threads, template, **sizes, chosen=chosen, stretch=stretch)

    def run(way: Columns) -> Run:
        return launched_in_turn(Plan(op, (tokens, chosen, columns), x.dtype, plain(way)), tokens, chosen, experts)

    takes_dots = is_single and not configuration
    shared = dot_configuration_of(target, x.dtype, whole, columns, experts, tiling, choice) if takes_dots else None
    if configuration:
        template = {**kinds, **configuration.template, "CHOSEN": chosen, "COLUMNS": columns}
        launch = Launch(RINGS, configuration.grid, configuration.threads, template, **sizes)
    elif shared:
        template = {**kinds, **shared.template, "CHOSEN": chosen, "COLUMNS": columns}
        scalars = {"columns": columns, "matrices": experts, "eps": eps, "groups": shared.grid[0]}
        launch = Launch(DOTS, shared.grid, shared.threads, template, **scalars)
    else:
        rule = Columns(target.table.expert_columns, target.table.expert_simdgroups)
        launch = plain(choose(target, name, [rule, *WAYS], operands, run))
    return Plan(op, (tokens, chosen, columns), x.dtype, launch)
