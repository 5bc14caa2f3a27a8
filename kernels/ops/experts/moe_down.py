"""The weighted sum of the results of the experts that each token of a decode step has chosen, in one launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan
from hiprt.kernels.lang.operands import INT32, buffer, floating, same
from hiprt.kernels.ops.experts.experts import (
    CHOSEN,
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

__all__ = ["moe_down"]

INPUTS = {"x": "T", "indices": "int", "shares": "T", **STACK, "residual": "T"}
KERNEL = Kernel(
    "experts/moe_down",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "is_residual": "uint", "stretch": "uint"},
    template={
        "T": "dtype",
        "GROUP": "int",
        "BITS": "int",
        "WIDTH": "int",
        "CHOSEN": "int",
        "ROWS": "int",
        "SIMDGROUPS": "int",
    },
    headers=HEADERS,
    threads=lambda template: int(template["SIMDGROUPS"]) * 32,
    ahead=(),
    instances=each(
        GROUP=(64,),
        BITS=ahead_bits,
        WIDTH=EXPERT_WIDTHS[1:],
        CHOSEN=(CHOSEN,),
        ROWS=(DEFAULT.expert_rows,),
        SIMDGROUPS=(DEFAULT.expert_simdgroups,),
    ),
)
# Beside the rules: threadgroups of half or twice the columns.
WAYS = Columns(1, 4), Columns(1, 16)
# Integer matrix instructions compute the experts of a few tokens, each token's as if it were alone.
RINGS = ring_kernel(
    "moe_down_integer",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint"},
    template={"ADDED": "bool", "CHOSEN": "int"},
    ahead=("weight", "scales", "biases"),
    matrices="SUMMED",
    width=lambda template: int(template["WIDTH"]) * int(template["CHOSEN"]),
)
# Integer dot instructions compute those of one token.
DOTS = dot_kernel(
    "moe_down_dots",
    inputs=INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint"},
    template={"ADDED": "bool", "CHOSEN": "int"},
    part_of="moe_down",
    matrices="SUMMED",
    instances=lambda takes_loops: dot_instances(takes_loops, EXPERT_WIDTHS[1], ADDED=False),
)


def rings_of(
    target: Target, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int, tokens: int = 1
) -> Configuration | None:
    """Return how the kernel of rings shares out the experts of tokens; None where another kernel takes them."""
    product = Product(columns, chosen * width, 1, group, bits, False)
    return ring_configuration_of(target, dtype, product, tokens) if width * bits % 1024 == 0 else None


@op
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
    tiling: Dots | None = None,
    stream: Stream | None = None,
    out: Array | None = None,
) -> Array:
    """Return the weighted sum of the results of a token's experts, plus a residual.

    Parameters
    ----------
    y : Array, [B, k, N]
        float16, bfloat16 or float32. The result of `moe_gate_up`, at most 28 KiB for each token.
    indices : Array, [B, k]
        int32. The experts that each token takes; one that does not exist adds nothing.
    weights : Array, [B, k]
        The weight of each expert, of the dtype of `y`.
    w : Array, [E, H, N * bits / 32]
        uint32.
    scales, biases : Array, [E, H, N / group_size]
        The scales and the biases that `quantize` returns, of the dtype of `y`.
    residual : Array, [B, H], optional
        A summand of the result, of the dtype of `y`.
    group_size : int
        32, 64 or 128.
    bits : int
        2, 3, 4, 5, 6 or 8.
    tiling : Dots, optional
        How the kernel of integer dot instructions shares out one token's experts. By default `dots_of` chooses it where
        the device has such instructions.

    Returns
    -------
    Array, [B, H]
        The sum, of the dtype of `y`; it is computed in float32, in one order, and rounded once.

    Raises
    ------
    TypeError
        A dtype is wrong.
    ValueError
        A shape does not fit, an array is not contiguous or not aligned, or `out` overlaps an input.
    """
    stream = stream or current_stream()
    plan = plan_of(y, indices, weights, w, scales, biases, residual, group_size, bits, tiling, target_of(stream))
    vectors = {"x": y, "indices": indices, "shares": weights}
    return plan.run(stream, out, **vectors, weight=w, scales=scales, biases=biases, residual=residual)


@Planned
def plan_of(
    y: Form,
    indices: Form,
    weights: Form,
    w: Form,
    scales: Form,
    biases: Form,
    residual: Form | None,
    group_size: int,
    bits: int,
    tiling: Dots | None,
    target: Target,
) -> Plan:
    """Check the operands and return the plan."""
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
    kinds: dict[str, Any] = {"T": y.dtype, "GROUP": group_size, "BITS": bits, "WIDTH": width, "CHOSEN": chosen}
    sizes = {"columns": columns, "matrices": experts}
    is_aligned = scales.is_aligned and biases.is_aligned
    whole, is_single = Product(columns, chosen * width, 1, group_size, bits, False), tokens == 1
    sharing = target, y.dtype, chosen, columns, width, group_size, bits, tokens
    configuration = rings_of(*sharing) if is_aligned else None

    stack = {"weight": w, "scales": scales, "biases": biases}
    operands = {"x": y, "indices": indices, "shares": weights, **stack, "residual": residual}
    name = name_of(op, tokens, chosen, experts, columns, kinds, () if residual is None else ("added",))

    def choice(ways: list[Dots]) -> Dots:
        def run(way: Dots) -> Run:
            plan = plan_of(y, indices, weights, w, scales, biases, residual, group_size, bits, way, target)
            return launched_in_turn(plan, tokens, chosen, experts)

        return choose(target, name, ways, operands, run)

    def plain(share: Columns) -> Launch:
        grid, threads, stretch = plain_share(target, columns, chosen, width, bits, share, tokens)
        template = {**kinds, "ROWS": share.each, "SIMDGROUPS": share.simdgroups}
        return Launch(KERNEL, grid, threads, template, **sizes, is_residual=residual is not None, stretch=stretch)

    def run(way: Columns) -> Run:
        return launched_in_turn(Plan(op, (tokens, columns), y.dtype, plain(way)), tokens, chosen, experts)

    takes_dots = is_single and not configuration
    shared = dot_configuration_of(target, y.dtype, whole, columns, experts, tiling, choice) if takes_dots else None
    if configuration:
        template = {**kinds, **configuration.template, "ADDED": residual is not None}
        launch = Launch(RINGS, configuration.grid, configuration.threads, template, **sizes)
    elif shared:
        template = {**kinds, **shared.template, "ADDED": residual is not None}
        launch = Launch(DOTS, shared.grid, shared.threads, template, **sizes, groups=shared.grid[0])
    else:
        rule = Columns(target.table.expert_rows, target.table.expert_simdgroups)
        launch = plain(choose(target, name, [rule, *WAYS], operands, run))
    return Plan(op, (tokens, columns), y.dtype, launch)
