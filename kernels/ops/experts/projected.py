"""The product in front of a mixture, which leaves the router's logits early, and the first half of the mixture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import UINT32
from hiprt.kernels.ops.arrivals import arrivals
from hiprt.kernels.ops.elementwise.binary import multiply
from hiprt.kernels.ops.elementwise.copies import concatenate
from hiprt.kernels.ops.experts.routed import all_fit, routed_gate_up, routed_of
from hiprt.kernels.ops.matmul.matmul import matmul
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.qmv_kernels import OPERANDS
from hiprt.kernels.ops.quantized.quantize import dequantize
from hiprt.kernels.tuning.rings import needed_bytes, ring_configuration, ring_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["folded_router", "projected_gate_up", "reads_folded"]


def folded_bytes(template: Mapping[str, Any]) -> int:
    """Return the bytes of threadgroup memory for the product, and for a threadgroup's rows of the folded router."""
    form = (template[name] for name in ("GROUP", "BITS", "WIDTH", "TEAMS", "SPLIT", "PER"))
    rows = -(-template["ROUTED_ROWS"] // template["GROUPS"])
    return int(needed_bytes(*form) + rows * 2 * (template["WIDTH"] + template["WHOLE"]))


PROJECTED = ring_kernel(
    "qmv_router",
    inputs={
        **{name: kind for name, kind in OPERANDS.items() if name != "norm"},
        "folded": "T",
    },
    updates={"arrivals": "uint"},
    outputs={"out": "T"},
    scalars={"columns": "uint"},
    template={
        "ADDED": "bool",
        "ROUTED_ROWS": "int",
        "WHOLE": "int",
        "GROUPS": "int",
    },
    ahead=("weight", "scales", "biases", "folded"),
    headers=("experts/router.h",),
    other_bytes=folded_bytes,
)


def reads_folded(target: Target) -> bool:
    """Whether a kernel for the target reads a router that is folded with the matrix in front of it."""
    return "bulk_copies" in target.features


def folded_router(
    router: tuple[Array, Array, Array],
    out: tuple[Array, Array, Array],
    *,
    norm: Array,
    router_group_size: int = 64,
    router_bits: int = 8,
    out_group_size: int = 64,
    out_bits: int = 4,
    stream: Stream | None = None,
) -> Array:
    """Return a router by which its logits are known without the product in front of it.

    They are ``router @ (norm * (out @ y + residual))`` but for the factor of the norm, which all have in common. So
    they are also the product of ``[router * norm @ out, router * norm]``, which is returned, with ``[y, residual]``.

    Parameters
    ----------
    router, out : tuple of 3 Array, [E, ...] and [K, ...]
        Codes, scales and biases, as `quantize` returns them.
    norm : Array, [K]
        The weight of the RMS norm in front of the router.
    router_group_size, router_bits, out_group_size, out_bits : int
        The formats.

    Returns
    -------
    Array, [E, M + K]
        Of the dtype of `norm`.
    """
    routes = dequantize(*router, group_size=router_group_size, bits=router_bits, stream=stream)
    weighed = multiply(routes, norm, stream=stream)
    matrix = dequantize(*out, group_size=out_group_size, bits=out_bits, stream=stream)
    parts = matmul(weighed, matrix, stream=stream), weighed
    return concatenate(parts, axis=1, stream=stream)


@op
def projected_gate_up(
    y: Array,
    out: tuple[Array, Array, Array],
    residual: Array,
    router: tuple[Array, Array, Array],
    folded: Array,
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

    For one token, where the kernels serve, the threadgroups of the product multiply `folded` with `y` and `residual` as
    well, before their own results are there, so that the next kernel chooses experts and asks for their matrices while
    this one is at work. The logits are summed in float32 and rounded as those of `routed_gate_up`; they are of what `x`
    is before it is rounded, and `folded` is rounded.

    Parameters
    ----------
    y : Array, [B, M]
    out : tuple of 3 Array
        The product's matrix of K rows: codes, scales and biases.
    residual : Array, [B, K]
    router, stack : tuple of 3 Array, [E, ...]
        As for `routed_gate_up`: codes, scales and biases.
    folded : Array, [E, M + K]
        What `folded_router` returns.
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
        first = projected_of(y, *out, residual, folded, router[0].shape[0], out_group_size, out_bits, target)
        if first is not None:
            x, words = make(residual.shape, residual.dtype, stream), arrivals(stream)
            given = dict(zip(("weight", "scales", "biases"), out))
            try:
                first(stream, x=y, **given, residual=residual, folded=folded, arrivals=words, out=x)
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
    folded: Form,
    matrices: int,
    group_size: int,
    bits: int,
    target: Target,
) -> Launch | None:
    """Return the launch; None where other kernels take the operands. `routed_of` has looked at the router."""
    if y.ndim != 2 or residual.ndim != 2 or w.ndim != 2:
        return None
    (tokens, width), (_, rows) = y.shape, residual.shape
    wanted = [
        (w, UINT32, (rows, width * bits // 32)),
        (scales, y.dtype, (rows, width // group_size)),
        (biases, y.dtype, (rows, width // group_size)),
        (y, residual.dtype, (1, width)),
        (residual, residual.dtype, (1, rows)),
        (folded, y.dtype, (matrices, width + rows)),
    ]
    is_whole = bits in BITS and group_size in GROUP_SIZES and width * bits % 1024 == 0 and y.dtype.itemsize == 2
    whole = Product(rows, width, 1, group_size, bits, False)
    ring = ring_of(whole, target, is_normed=False) if all_fit(wanted) and is_whole and tokens == 1 else None
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
        "WHOLE": rows,
        "GROUPS": configuration.grid[0],
    }
    return Launch(PROJECTED, configuration.grid, configuration.threads, template, columns=rows)
