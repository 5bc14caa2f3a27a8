"""The experts of a mixture in decoding: two launches for gate, up, their product, down and the weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hiprt.array import Array, Form, array, bfloat16
from hiprt.kernels.lang.instances import each
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch, Plan, Three
from hiprt.kernels.lang.operands import INT32, aligned, buffer, floating, same
from hiprt.kernels.ops.quantized.formats import BITS, check_matrix, format_of
from hiprt.kernels.ops.quantized.integer_dots import dot_kernel
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.tuning.choices import MOST_WAYS, Run, choose
from hiprt.kernels.tuning.dots import LARGEST, MOST_ROWS, TEMPLATE, Dots, dots_configuration, ranked_dots
from hiprt.kernels.tuning.rings import ring_configuration, ring_of
from hiprt.kernels.tuning.table import DEFAULT
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["CHOSEN", "EXPERT_WIDTHS", "moe_down", "moe_gate_up"]

# The widths of the experts' matrices of Qwen3-30B-A3B, and the number of experts that a token takes.
EXPERT_WIDTHS, CHOSEN = (2048, 768), 8
FEW = 3  # columns of an expert in the instance of a constant number, so that an emulator can execute it
STAGED_BYTES = 28672  # bytes of a token's vectors that a threadgroup's memory holds
MOST_ITEMS = 65535  # the largest y of a grid
MOST_RING_TOKENS = 16  # of which each takes its experts by the kernels of integer matrix instructions
STACK = {"weight": "uint", "scales": "T", "biases": "T"}
GATE_UP_INPUTS = {"x": "T", "indices": "int", **STACK, "norm": "T"}
DOWN_INPUTS = {"x": "T", "indices": "int", "shares": "T", **STACK, "residual": "T"}
GATE_UP = Kernel(
    "experts/moe_gate_up",
    inputs=GATE_UP_INPUTS,
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
    headers=("quantized/codes.h", "quantized/ordered_loads.h", "quantized/packed_rows.h", "norm/row_sums.h"),
    threads=lambda template: int(template["SIMDGROUPS"]) * 32,
    ahead=(),
    instances=each(
        GROUP=(64,),
        BITS=BITS,
        WIDTH=EXPERT_WIDTHS[:1],
        NORMED=(True,),
        PAIRS=(DEFAULT.expert_columns,),
        SIMDGROUPS=(DEFAULT.expert_simdgroups,),
    ),
)
DOWN = Kernel(
    "experts/moe_down",
    inputs=DOWN_INPUTS,
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
    headers=("quantized/codes.h", "quantized/ordered_loads.h", "quantized/packed_rows.h"),
    threads=lambda template: int(template["SIMDGROUPS"]) * 32,
    ahead=(),
    instances=each(
        GROUP=(64,),
        BITS=BITS,
        WIDTH=EXPERT_WIDTHS[1:],
        CHOSEN=(CHOSEN,),
        ROWS=(DEFAULT.expert_rows,),
        SIMDGROUPS=(DEFAULT.expert_simdgroups,),
    ),
)


class Columns(NamedTuple):
    """How the kernels that every target has share out the columns of experts.

    Attributes
    ----------
    each : int
        The columns that a simdgroup takes.
    simdgroups : int
        The simdgroups of a threadgroup, which read a token's vectors once.
    """

    each: int
    simdgroups: int


# The ways beside those of the rules: threadgroups of half or twice the columns.
GATE_UP_WAYS = Columns(1, 8), Columns(2, 16), Columns(4, 8)
DOWN_WAYS = Columns(1, 4), Columns(1, 16)


# These kernels compute the experts of a few tokens with integer matrix instructions, each token's as if it were alone.
GATE_UP_RINGS = ring_kernel(
    "moe_gate_up_integer",
    inputs=GATE_UP_INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "between": "uint", "eps": "float"},
    template={"NORMED": "bool", "CHOSEN": "int", "COLUMNS": "int"},
    ahead=(),
    matrices="GATHERED",
    is_gated=True,
)
DOWN_RINGS = ring_kernel(
    "moe_down_integer",
    inputs=DOWN_INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint"},
    template={"ADDED": "bool", "CHOSEN": "int"},
    ahead=(),
    matrices="SUMMED",
    width=lambda template: int(template["WIDTH"]) * int(template["CHOSEN"]),
)
# And these with integer dot instructions.
GATE_UP_DOTS = dot_kernel(
    "moe_gate_up_dots",
    inputs=GATE_UP_INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint", "eps": "float"},
    template={"NORMED": "bool", "CHOSEN": "int", "COLUMNS": "int"},
    part_of="moe_gate_up",
    matrices="GATHERED",
    is_gated=True,
    instances=lambda takes_loops: dot_instances(takes_loops, EXPERT_WIDTHS[0], NORMED=True, COLUMNS=FEW),
)
DOWN_DOTS = dot_kernel(
    "moe_down_dots",
    inputs=DOWN_INPUTS,
    outputs={"out": "T"},
    scalars={"columns": "uint", "matrices": "uint"},
    template={"ADDED": "bool", "CHOSEN": "int"},
    part_of="moe_down",
    matrices="SUMMED",
    instances=lambda takes_loops: dot_instances(takes_loops, EXPERT_WIDTHS[1], ADDED=False),
)


def dot_instances(takes_loops: bool, width: int, **others: Any) -> list[dict[str, Any]]:
    """List the instances of a kernel of integer dot instructions that are compiled ahead."""
    sharing = dict(zip(TEMPLATE, (4, 1, 8, 2, 4)))
    return [
        {"T": dtype, "GROUP": 64, "BITS": bits, "WIDTH": width, **sharing, **others, "CHOSEN": CHOSEN}
        for dtype in (np.dtype(np.float16), bfloat16)
        for bits in BITS
        if not takes_loops
    ]


def check_stack(
    op: str, w: Form, scales: Form, biases: Form, x: Form, group_size: int, bits: int
) -> tuple[int, int, int]:
    """Return the numbers of experts, rows and columns of a stack of matrices.

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


def plain_share(
    target: Target, columns: int, rows: int, width: int, bits: int, share: Columns, items: int
) -> tuple[Three, Three, int]:
    """Return the threadgroups and the threads of the kernels that every target has, and the columns of a plain loop.

    Parameters
    ----------
    target : Target
    columns : int
        The columns of the result.
    rows, width, bits : int
        The rows of the weights that one column takes, their elements, and the bits of a code.
    share : Columns
    items : int
        The y of the grid.
    """
    stretch = max(1, target.table.loop_bytes * 8 // max(rows * width * bits, 1))
    groups = -(-columns // (stretch if target.takes_loops else share.simdgroups * share.each))
    return (groups, items, 1), (1 if target.takes_loops else share.simdgroups * 32, 1, 1), stretch


def gate_up_configuration(
    target: Target, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int, tokens: int = 1
) -> Configuration | None:
    """Return how `GATE_UP_RINGS` shares out the experts of tokens; None where another kernel takes them."""
    product = Product(chosen * 2 * columns, width, 1, group, bits, True)
    return ring_configuration_of(target, dtype, product, tokens) if columns % 4 == 0 else None


def down_configuration(
    target: Target, dtype: np.dtype[Any], chosen: int, columns: int, width: int, group: int, bits: int, tokens: int = 1
) -> Configuration | None:
    """Return how `DOWN_RINGS` shares out the experts of tokens; None where another kernel takes them."""
    product = Product(columns, chosen * width, 1, group, bits, False)
    return ring_configuration_of(target, dtype, product, tokens) if width * bits % 1024 == 0 else None


def ring_configuration_of(target: Target, dtype: np.dtype[Any], product: Product, tokens: int) -> Configuration | None:
    """Return the launch of the ring that is chosen for a product of 16-bit numbers."""
    takes = dtype.itemsize == 2 and product.width * product.bits % 1024 == 0 and 1 <= tokens <= MOST_RING_TOKENS
    ring = ring_of(product, target) if takes else None
    return ring and ring_configuration(product, ring, target, tokens)


def dot_configuration_of(
    target: Target,
    dtype: np.dtype[Any],
    product: Product,
    columns: int,
    matrices: int,
    tiling: Dots | None,
    choice: Callable[[list[Dots]], Dots] = itemgetter(0),
) -> Configuration | None:
    """Return how one token's experts are shared out by integer dot instructions; None where another kernel takes them.

    Parameters
    ----------
    target : Target
    dtype : numpy.dtype
    product : Product
        The product with the chosen matrices, as if they were one.
    columns : int
        The columns of the result of one matrix; a tile lies within them.
    matrices : int
        The matrices of the stack.
    tiling : Dots or None
        The sharing that the caller wants.
    choice : callable
        Takes the sharings of which timing may choose, that of the rules first; returns one of them, which is the first
        by default.

    Raises
    ------
    ValueError
        That does not fit.
    """
    nbytes = matrices * product.rows * product.width * product.bits // 8
    is_possible = dtype.itemsize == 2 and nbytes < LARGEST
    ways = [] if tiling or not is_possible or columns < MOST_ROWS else ranked_dots(product, target)
    sharing = choice(ways[:MOST_WAYS]) if ways else tiling
    if tiling and (not is_possible or columns < tiling.rows // (2 if product.is_gated else 1)):
        raise ValueError(f"{tiling} does not fit experts of {columns} columns")
    return sharing and dots_configuration(product, sharing)


def some_experts(tokens: int, chosen: int, matrices: int) -> list[NDArray[np.int32]]:
    """Return indices of experts for launches that take turns: other ones in each, as far as there are any."""
    size = tokens * chosen
    turns = range(max(1, matrices // size))
    return [(np.arange(size, dtype=np.int32) + i * size).reshape(tokens, chosen) % matrices for i in turns]


def launched_in_turn(plan: Plan, tokens: int, chosen: int, matrices: int) -> Run:
    """Return what launches a plan so that the experts of each launch have to be read from memory."""
    numbers, turns = count(), list[Array]()

    def launch(stream: Stream, given: dict[str, Any]) -> Array:
        if not turns:
            turns.extend(array(each, stream=stream) for each in some_experts(tokens, chosen, matrices))
        return plan.run(stream, None, **{**given, "indices": turns[next(numbers) % len(turns)]})

    return launch


def name_of(
    op: str, tokens: int, chosen: int, matrices: int, rows: int, kinds: Mapping[str, Any], words: tuple[str, ...]
) -> str:
    """Return what a choice calls a product with some of a stack of matrices."""
    form = f"{kinds['BITS']} bits in groups of {kinds['GROUP']}"
    sizes = f"{chosen} of {matrices}, {rows}x{kinds['WIDTH']}"
    several = [f"{tokens} tokens"] if tokens > 1 else []
    return f"{op} {sizes} of {form}, {', '.join([str(kinds['T']), *words, *several])}"


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
        4 or 8.
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
    plan = plan_gate_up(
        x, indices, w, scales, biases, norm, eps, group_size, bits, bool(apart), tiling, target_of(stream)
    )
    return plan.run(stream, out, x=x, indices=indices, weight=w, scales=scales, biases=biases, norm=norm)


@Planned
def plan_gate_up(
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
    configuration = gate_up_configuration(*sharing) if is_aligned else None

    operands = {"x": x, "indices": indices, "weight": w, "scales": scales, "biases": biases, "norm": norm}
    words = ("normed",) * (norm is not None) + ("apart",) * apart
    name = name_of(op, tokens, chosen, experts, rows, kinds, words)

    def choice(ways: list[Dots]) -> Dots:
        def run(way: Dots) -> Run:
            plan = plan_gate_up(x, indices, w, scales, biases, norm, eps, group_size, bits, apart, way, target)
            return launched_in_turn(plan, tokens, chosen, experts)

        return choose(target, name, ways, operands, run)

    def plain(share: Columns) -> Launch:
        grid, threads, stretch = plain_share(target, columns, 2, width, bits, share, indices.size)
        template = {**kinds, "PAIRS": share.each, "SIMDGROUPS": share.simdgroups}
        return Launch(GATE_UP, grid, threads, template, **sizes, chosen=chosen, stretch=stretch)

    def run(way: Columns) -> Run:
        return launched_in_turn(Plan(op, (tokens, chosen, columns), x.dtype, plain(way)), tokens, chosen, experts)

    takes_dots = is_single and not configuration
    shared = dot_configuration_of(target, x.dtype, whole, columns, experts, tiling, choice) if takes_dots else None
    if configuration:
        template = {**kinds, **configuration.template, "CHOSEN": chosen, "COLUMNS": columns}
        launch = Launch(GATE_UP_RINGS, configuration.grid, configuration.threads, template, **sizes)
    elif shared:
        template = {**kinds, **shared.template, "CHOSEN": chosen, "COLUMNS": columns}
        scalars = {"columns": columns, "matrices": experts, "eps": eps, "groups": shared.grid[0]}
        launch = Launch(GATE_UP_DOTS, shared.grid, shared.threads, template, **scalars)
    else:
        rule = Columns(target.table.expert_columns, target.table.expert_simdgroups)
        launch = plain(choose(target, name, [rule, *GATE_UP_WAYS], operands, run))
    return Plan(op, (tokens, chosen, columns), x.dtype, launch)


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
        4 or 8.
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
    plan = plan_down(y, indices, weights, w, scales, biases, residual, group_size, bits, tiling, target_of(stream))
    vectors = {"x": y, "indices": indices, "shares": weights}
    return plan.run(stream, out, **vectors, weight=w, scales=scales, biases=biases, residual=residual)


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
    configuration = down_configuration(*sharing) if is_aligned else None

    stack = {"weight": w, "scales": scales, "biases": biases}
    operands = {"x": y, "indices": indices, "shares": weights, **stack, "residual": residual}
    name = name_of(op, tokens, chosen, experts, columns, kinds, () if residual is None else ("added",))

    def choice(ways: list[Dots]) -> Dots:
        def run(way: Dots) -> Run:
            plan = plan_down(y, indices, weights, w, scales, biases, residual, group_size, bits, way, target)
            return launched_in_turn(plan, tokens, chosen, experts)

        return choose(target, name, ways, operands, run)

    def plain(share: Columns) -> Launch:
        grid, threads, stretch = plain_share(target, columns, chosen, width, bits, share, tokens)
        template = {**kinds, "ROWS": share.each, "SIMDGROUPS": share.simdgroups}
        return Launch(DOWN, grid, threads, template, **sizes, is_residual=residual is not None, stretch=stretch)

    def run(way: Columns) -> Run:
        return launched_in_turn(Plan(op, (tokens, columns), y.dtype, plain(way)), tokens, chosen, experts)

    takes_dots = is_single and not configuration
    shared = dot_configuration_of(target, y.dtype, whole, columns, experts, tiling, choice) if takes_dots else None
    if configuration:
        template = {**kinds, **configuration.template, "ADDED": residual is not None}
        launch = Launch(DOWN_RINGS, configuration.grid, configuration.threads, template, **sizes)
    elif shared:
        template = {**kinds, **shared.template, "ADDED": residual is not None}
        launch = Launch(DOWN_DOTS, shared.grid, shared.threads, template, **sizes, groups=shared.grid[0])
    else:
        rule = Columns(target.table.expert_rows, target.table.expert_simdgroups)
        launch = plain(choose(target, name, [rule, *DOWN_WAYS], operands, run))
    return Plan(op, (tokens, columns), y.dtype, launch)
