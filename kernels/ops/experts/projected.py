"""The product in front of a mixture, which leaves the router's logits, and the first half of the mixture behind it."""

from __future__ import annotations

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.experts.routed import routed_gate_up, routed_of
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.qmv_kernels import OPERANDS
from hiprt.kernels.tuning.rings import ring_configuration, ring_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["columns_of", "projected_gate_up", "reads_columns"]

PROJECTED = ring_kernel(
    "qmv_router",
    inputs={
        **{name: kind for name, kind in OPERANDS.items() if name != "norm"},
        "router_codes": "uint",
        "router_scales": "T",
        "router_biases": "T",
        "router_norm": "T",
    },
    updates={"arrivals": "uint"},
    outputs={"out": "T"},
    scalars={"columns": "uint"},
    template={
        "ADDED": "bool",
        "ROUTED_ROWS": "int",
        "ROUTER_GROUP": "int",
        "WHOLE": "int",
        "GROUPS": "int",
    },
    ahead=("weight", "scales", "biases", "router_codes", "router_scales", "router_biases", "router_norm"),
    headers=("experts/router.h",),
)
COLUMNS = 8  # of a tile of the product's results


def reads_columns(target: Target) -> bool:
    """Whether a kernel for the target reads a router by columns."""
    return "bulk_copies" in target.features


def columns_of(codes: Array, scales: Array, biases: Array, stream: Stream | None = None) -> tuple[Array, Array, Array]:
    """Return a router's matrix of 8-bit codes by columns, in which a threadgroup's part lies together.

    Parameters
    ----------
    codes, scales, biases : Array, [E, ...]
        As `quantize` returns them.

    Returns
    -------
    Array, [K / 8, E, 2]
        uint32: the codes of 8 columns, row by row.
    Array, [K / G, E]
        The scales, and the biases.
    """
    rows, words = codes.shape
    parts = codes.reshape(rows, words // 2, 2).transpose(1, 0, 2), scales.T, biases.T
    first, *others = (contiguous(part, stream=stream) for part in parts)
    return first, others[0], others[1]


@op
def projected_gate_up(
    y: Array,
    out: tuple[Array, Array, Array],
    residual: Array,
    router: tuple[Array, Array, Array],
    columns: tuple[Array, Array, Array],
    stack: tuple[Array, Array, Array],
    *,
    k: int,
    norm: Array,
    eps: float = 1e-6,
    normalize: bool = True,
    shared: bool = False,
    out_group_size: int = 64,
    out_bits: int = 4,
    router_group_size: int = 64,
    router_bits: int = 8,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Return ``x``, the product of `y` plus `residual`, and what `routed_gate_up` returns for it.

    For one token, where the kernels serve, the product's threadgroups multiply their results with the router as well,
    so that the next kernel has the logits when it starts. Their sums, in integers of 64 bits, do not depend on their
    order; they are rounded as those of `routed_gate_up`, from another sum.

    Parameters
    ----------
    y : Array, [B, M]
    out : tuple of 3 Array
        The product's matrix of K rows: codes, scales and biases.
    residual : Array, [B, K]
    router, stack : tuple of 3 Array, [E, ...]
        As for `routed_gate_up`: codes, scales and biases.
    columns : tuple of 3 Array
        What `columns_of` returns for the router.
    k, norm, eps, normalize, shared
        As for `routed_gate_up`.
    out_group_size, out_bits, router_group_size, router_bits, group_size, bits : int
        The formats.

    Returns
    -------
    x : Array, [B, K]
    inner, indices, weights : Array
        What `routed_gate_up` returns.

    Raises
    ------
    TypeError, ValueError
        What the ops raise.
    """
    stream = stream or current_stream()
    target = target_of(stream)
    routes = k, bool(normalize), bool(shared), router_group_size, router_bits
    routed = routed_of(residual, *router, *stack, norm, eps, *routes, group_size, bits, target, True)
    if routed is not None:
        forms = out_group_size, out_bits, router_group_size
        first = projected_of(y, *out, residual, *columns, *forms, target)
        if first is not None:
            x, words = make(residual.shape, residual.dtype, stream), arrivals(stream)
            given = dict(zip(("weight", "scales", "biases"), out))
            given |= dict(zip(("router_codes", "router_scales", "router_biases"), columns))
            try:
                first(stream, x=y, **given, residual=residual, router_norm=norm, arrivals=words, out=x)
                return x, *routed.run(stream, x, router, stack, norm)
            except BaseException:
                # Nobody has taken the logits that the first kernel leaves.
                words.fill_bytes(0, stream)
                raise
    x = product(y, *out, group_size=out_group_size, bits=out_bits, residual=residual, stream=stream)
    inner, indices, weights = routed_gate_up(
        x,
        *router,
        *stack,
        k=k,
        norm=norm,
        eps=eps,
        normalize=normalize,
        shared=shared,
        router_group_size=router_group_size,
        router_bits=router_bits,
        group_size=group_size,
        bits=bits,
        stream=stream,
    )
    return x, inner, indices, weights


@Planned
def projected_of(
    y: Form,
    w: Form,
    scales: Form,
    biases: Form,
    residual: Form,
    codes: Form,
    code_scales: Form,
    code_biases: Form,
    group_size: int,
    bits: int,
    router_group_size: int,
    target: Target,
) -> Launch | None:
    """Return the launch; None where other kernels take the operands. `routed_of` has looked at the router."""
    if y.ndim != 2 or residual.ndim != 2 or w.ndim != 2:
        return None
    (tokens, width), (_, rows) = y.shape, residual.shape
    matrices = code_scales.shape[1]
    wanted = [
        (w, UINT32, (rows, width * bits // 32)),
        (scales, y.dtype, (rows, width // group_size)),
        (biases, y.dtype, (rows, width // group_size)),
        (y, residual.dtype, (1, width)),
        (residual, residual.dtype, (1, rows)),
        (codes, UINT32, (rows // COLUMNS, matrices, COLUMNS // 4)),
        (code_scales, y.dtype, (rows // router_group_size, matrices)),
        (code_biases, y.dtype, (rows // router_group_size, matrices)),
    ]
    fits = all(
        each.dtype == dtype and each.shape == shape and each.is_contiguous and each.is_aligned
        for each, dtype, shape in wanted
    )
    is_whole = bits in BITS and group_size in GROUP_SIZES and width * bits % 1024 == 0 and y.dtype.itemsize == 2
    whole = Product(rows, width, 1, group_size, bits, False)
    ring = ring_of(whole, target, is_normed=False) if fits and is_whole and tokens == 1 else None
    if ring is None:
        return None
    configuration = ring_configuration(whole, ring, target)
    template = {
        "T": y.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        **configuration.template,
        "ADDED": True,
        "ROUTED_ROWS": matrices,
        "ROUTER_GROUP": router_group_size,
        "WHOLE": rows,
        "GROUPS": configuration.grid[0],
    }
    return Launch(PROJECTED, configuration.grid, configuration.threads, template, columns=rows)
