"""The first half of a mixture in decoding: the router's product, the choice of experts, and their gates and ups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, UINT32
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.experts.experts import STACK
from hiprt.kernels.ops.experts.moe_gate_up import moe_gate_up
from hiprt.kernels.ops.experts.routing import moe_route
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.tuning.rings import ring_configuration, routed_ring_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["ROUTED", "Routed", "routed_gate_up", "routed_of"]

ROUTER_BITS = 8
MOST_CHOSEN = 32  # a lane of a simdgroup for each
FIRST_LOGIT, LOGIT_COPIES = 64, 8  # as in router.h


def router_bytes(template: Mapping[str, Any]) -> int:
    """Return the bytes of threadgroup memory for a threadgroup's rows of the router, and for the norm."""
    if not template["ROUTERS"]:
        return 0
    rows = -(-(template["EXPERTS"] + template["SHARED"]) // template["ROUTERS"])
    width, group = template["WIDTH"], template["ROUTER_GROUP"]
    return int(rows * (width + 4 * width // group) + 2 * width)


ROUTED = ring_kernel(
    "moe_routed_gate_up",
    inputs={"x": "T", "router": "uint", "router_scales": "T", "router_biases": "T", **STACK, "norm": "T"},
    updates={"arrivals": "uint"},
    outputs={"out": "T", "places": "int", "portions": "T"},
    scalars={"columns": "uint", "eps": "float", "is_normalised": "uint"},
    template={
        "NORMED": "bool",
        "CHOSEN": "int",
        "COLUMNS": "int",
        "EXPERTS": "int",
        "SHARED": "bool",
        "ROUTERS": "int",
        "ROUTER_GROUP": "int",
    },
    ahead=("router", "router_scales", "router_biases", "norm"),
    matrices="GATHERED",
    is_gated=True,
    headers=("experts/router.h",),
    other_bytes=router_bytes,
)


@op
def routed_gate_up(
    x: Array,
    router: Array,
    router_scales: Array,
    router_biases: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    k: int,
    norm: Array,
    eps: float = 1e-6,
    normalize: bool = True,
    shared: bool = False,
    router_group_size: int = 64,
    router_bits: int = ROUTER_BITS,
    group_size: int = 64,
    bits: int = 4,
    stream: Stream | None = None,
) -> tuple[Array, Array, Array]:
    """Return what `product`, `moe_route` and `moe_gate_up` return one after the other.

    Where `routed_ring_of` finds how, one kernel does it for one token: its first threadgroups multiply with the router
    while the others prepare `x`. It sums the logits in another order than `product`, in float32.

    Parameters
    ----------
    x : Array, [B, K]
    router, router_scales, router_biases : Array, [E, ...]
        The router's matrix, as `quantize` returns it. With `shared` its last row is the gate of the shared expert.
    w, scales, biases : Array, [E, 2 * N, ...]
        The stack, as for `moe_gate_up`.
    k, normalize, shared
        As for `moe_route`.
    norm : Array, [K]
        The weight of an RMS norm of `x`.
    eps : float
        The norm's epsilon.
    router_group_size, router_bits, group_size, bits : int
        The formats.

    Returns
    -------
    Array, [B, k, N], with `shared` [B, k + 1, N]
        The products.
    indices, weights : Array, [B, k], with `shared` [B, k + 1]
        The experts and their shares, as `moe_route` returns them.

    Raises
    ------
    TypeError, ValueError
        What these ops raise.
    """
    stream = stream or current_stream()
    matrix, stack, forms = (router, router_scales, router_biases), (w, scales, biases), (group_size, bits)
    routes = k, bool(normalize), bool(shared), router_group_size, router_bits
    routed = routed_of(x, *matrix, *stack, norm, eps, *routes, *forms, target_of(stream))
    if routed is not None:
        return routed.run(stream, x, matrix, stack, norm)
    logits = product(x, *matrix, group_size=router_group_size, bits=router_bits, norm=norm, eps=eps, stream=stream)
    indices, weights = moe_route(logits, k, normalize=normalize, shared=shared, stream=stream)
    inner = moe_gate_up(x, indices, *stack, norm=norm, eps=eps, group_size=group_size, bits=bits, stream=stream)
    return inner, indices, weights


class Routed(NamedTuple):
    """The launch of `ROUTED`, and the numbers of experts that a token takes and of columns of each."""

    chosen: int
    columns: int
    launch: Launch

    def run(
        self,
        stream: Stream,
        x: Array,
        matrix: tuple[Array, Array, Array],
        stack: tuple[Array, Array, Array],
        norm: Array,
    ) -> tuple[Array, Array, Array]:
        """Launch on a stream, and return the results."""
        out = make((1, self.chosen, self.columns), x.dtype, stream)
        places, portions = make((1, self.chosen), INT32, stream), make((1, self.chosen), x.dtype, stream)
        given = dict(zip(("router", "router_scales", "router_biases", *STACK), (*matrix, *stack)))
        results = {"out": out, "places": places, "portions": portions}
        self.launch(stream, x=x, **given, norm=norm, arrivals=arrivals(stream), **results)
        return out, places, portions


@Planned
def routed_of(
    x: Form,
    router: Form,
    router_scales: Form,
    router_biases: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form,
    eps: float,
    k: int,
    normalize: bool,
    shared: bool,
    router_group_size: int,
    router_bits: int,
    group_size: int,
    bits: int,
    target: Target,
    has_logits: bool = False,
) -> Routed | None:
    """Return the launch; None where other kernels take the operands, or their ops refuse them.

    With `has_logits` the kernel that makes `x` leaves the logits.
    """
    if w.ndim != 3 or x.ndim != 2 or bits not in BITS or not {group_size, router_group_size} <= set(GROUP_SIZES):
        return None
    (tokens, width), (matrices, rows, _) = x.shape, w.shape
    columns, experts, chosen = rows // 2, matrices - shared, k + shared
    router_groups, groups = width // router_group_size, width // group_size
    wanted = [
        (router, UINT32, (matrices, width // 4)),
        (router_scales, x.dtype, (matrices, router_groups)),
        (router_biases, x.dtype, (matrices, router_groups)),
        (w, UINT32, (matrices, 2 * columns, width * bits // 32)),
        (scales, x.dtype, (matrices, rows, groups)),
        (biases, x.dtype, (matrices, rows, groups)),
        (norm, x.dtype, (width,)),
        (x, x.dtype, (1, width)),
    ]
    fits = all(
        each.dtype == dtype and each.shape == shape and each.is_contiguous and each.is_aligned
        for each, dtype, shape in wanted
    )
    is_whole = router_bits == ROUTER_BITS and width % 512 == 0 and router_groups % 8 == 0 and columns % 4 == 0
    is_few = 1 <= k <= experts and chosen <= MOST_CHOSEN and matrices <= (COUNTERS - FIRST_LOGIT) // LOGIT_COPIES
    if not (fits and is_whole and is_few and tokens == 1 and x.dtype.itemsize == 2 and columns):
        return None
    whole = Product(chosen * rows, width, 1, group_size, bits, True)
    found = routed_ring_of(whole, target, has_logits)
    if found is None:
        return None
    ring, routers = found
    configuration = ring_configuration(whole, ring, target, routers=routers)
    template = {
        "T": x.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        **configuration.template,
        "NORMED": True,
        "CHOSEN": chosen,
        "COLUMNS": columns,
        "EXPERTS": experts,
        "SHARED": shared,
        "ROUTERS": routers,
        "ROUTER_GROUP": router_group_size,
    }
    scalars = {"columns": columns, "eps": eps, "is_normalised": normalize}
    return Routed(chosen, columns, Launch(ROUTED, configuration.grid, configuration.threads, template, **scalars))
