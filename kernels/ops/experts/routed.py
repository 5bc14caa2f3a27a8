"""The first half of a mixture in decoding: the router's product, the choice of experts, and their gates and ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, UINT32
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.experts.experts import STACK, STAGED_BYTES
from hiprt.kernels.ops.experts.moe_gate_up import moe_gate_up, rings_of
from hiprt.kernels.ops.experts.routing import moe_route
from hiprt.kernels.ops.quantized.formats import BITS, GROUP_SIZES
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.tuning.rings import ring_configuration, routed_ring_of
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["CHOOSING", "ROUTED", "Routed", "all_fit", "chosen_of", "routed_gate_up", "routed_of"]

ROUTER_BITS = 8
MOST_CHOSEN = 32  # a lane of a simdgroup for each
FIRST_LOGIT, LOGIT_COPIES = 64, 8  # as in router.h
MOST_MATRICES = (COUNTERS - FIRST_LOGIT) // LOGIT_COPIES


def router_bytes(template: Mapping[str, Any]) -> int:
    """Return the bytes of threadgroup memory for a threadgroup's rows of the router, and for the norm."""
    if not template["ROUTERS"]:
        return 0
    rows = -(-(template["EXPERTS"] + template["SHARED"]) // template["ROUTERS"])
    width, group = template["WIDTH"], template["ROUTER_GROUP"]
    return int(rows * (width + 4 * width // group) + 2 * width)


# What both kernels declare.
TEMPLATE = {"NORMED": "bool", "CHOSEN": "int", "COLUMNS": "int", "EXPERTS": "int", "SHARED": "bool"}
COMMON: dict[str, Any] = {
    "outputs": {"out": "T", "places": "int", "portions": "T"},
    "scalars": {"columns": "uint", "eps": "float", "is_normalised": "uint"},
    "matrices": "GATHERED",
    "is_gated": True,
    "headers": ("experts/router.h",),
}
# One token's experts, by a router or by logits that the kernel before leaves.
ROUTED = ring_kernel(
    "moe_routed_gate_up",
    inputs={"x": "T", "router": "uint", "router_scales": "T", "router_biases": "T", **STACK, "norm": "T"},
    updates={"arrivals": "uint"},
    template={**TEMPLATE, "ROUTERS": "int", "ROUTER_GROUP": "int"},
    ahead=("router", "router_scales", "router_biases", "norm"),
    other_bytes=router_bytes,
    **COMMON,
)
# Those of several tokens, by logits that are given.
CHOOSING = ring_kernel(
    "moe_chosen_gate_up",
    inputs={"x": "T", "logits": "T", **STACK, "norm": "T"},
    template=TEMPLATE,
    ahead=("norm",),
    **COMMON,
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
    while the others prepare `x`. It sums the logits in another order than `product`, in float32. Where rings share out
    the experts of several tokens, one kernel does what comes behind `product`.

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
    matrix, stack, target = (router, router_scales, router_biases), (w, scales, biases), target_of(stream)
    choice, forms = (k, bool(normalize), bool(shared)), (group_size, bits)
    routed = routed_of(x, *matrix, *stack, norm, eps, *choice, router_group_size, router_bits, *forms, target)
    if routed is not None:
        return routed.run(stream, x, matrix, stack, norm)
    logits = product(x, *matrix, group_size=router_group_size, bits=router_bits, norm=norm, eps=eps, stream=stream)
    several = chosen_of(x, logits, *stack, norm, eps, *choice, *forms, target)
    if several is not None:
        return several.results(stream, x, stack, norm, logits=logits)
    indices, weights = moe_route(logits, k, normalize=normalize, shared=shared, stream=stream)
    inner = moe_gate_up(x, indices, *stack, norm=norm, eps=eps, group_size=group_size, bits=bits, stream=stream)
    return inner, indices, weights


class Routed(NamedTuple):
    """The launch of one of the two kernels, and the shape of the products."""

    shape: tuple[int, int, int]
    launch: Launch

    def run(
        self,
        stream: Stream,
        x: Array,
        matrix: tuple[Array, Array, Array],
        stack: tuple[Array, Array, Array],
        norm: Array,
    ) -> tuple[Array, Array, Array]:
        """Launch `ROUTED` on a stream, and return the results."""
        router = dict(zip(("router", "router_scales", "router_biases"), matrix))
        return self.results(stream, x, stack, norm, **router, arrivals=arrivals(stream))

    def results(
        self, stream: Stream, x: Array, stack: tuple[Array, Array, Array], norm: Array, **others: Array
    ) -> tuple[Array, Array, Array]:
        """Launch with what only this kernel takes, and return the results."""
        out = make(self.shape, x.dtype, stream)
        places, portions = make(self.shape[:2], INT32, stream), make(self.shape[:2], x.dtype, stream)
        given = {**dict(zip(STACK, stack)), **others}
        self.launch(stream, x=x, **given, norm=norm, out=out, places=places, portions=portions)
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
    common = template_of(x, w, scales, biases, norm, k, shared, group_size, bits)
    if common is None or x.shape[0] != 1 or router_group_size not in GROUP_SIZES:
        return None
    width, (matrices, rows, _) = x.shape[1], w.shape
    groups = width // router_group_size
    wanted = [
        (router, UINT32, (matrices, width // 4)),
        (router_scales, x.dtype, (matrices, groups)),
        (router_biases, x.dtype, (matrices, groups)),
    ]
    is_whole = router_bits == ROUTER_BITS and width % 512 == 0 and groups % 8 == 0 and common["COLUMNS"] % 4 == 0
    if not (all_fit(wanted) and is_whole and x.dtype.itemsize == 2):
        return None
    whole = Product(common["CHOSEN"] * rows, width, 1, group_size, bits, True)
    found = routed_ring_of(whole, target, has_logits)
    if found is None:
        return None
    ring, routers = found
    configuration = ring_configuration(whole, ring, target, routers=routers)
    template = {**common, **configuration.template, "ROUTERS": routers, "ROUTER_GROUP": router_group_size}
    return launched(ROUTED, configuration, template, eps, normalize)


@Planned
def chosen_of(
    x: Form,
    logits: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form,
    eps: float,
    k: int,
    normalize: bool,
    shared: bool,
    group_size: int,
    bits: int,
    target: Target,
) -> Routed | None:
    """Return the launch for several tokens, whose logits are given; None as of `routed_of`."""
    common = template_of(x, w, scales, biases, norm, k, shared, group_size, bits)
    if common is None:
        return None
    tokens, width = x.shape
    is_taken = tokens > 1 and width * x.dtype.itemsize <= STAGED_BYTES
    if not (is_taken and all_fit([(logits, x.dtype, (tokens, w.shape[0]))])):
        return None
    sizes = common["CHOSEN"], common["COLUMNS"], width, group_size, bits, tokens
    configuration = rings_of(target, x.dtype, *sizes)
    if configuration is None:
        return None
    template = {**common, **configuration.template, "EARLY": 0}  # nothing can be asked for before the choice
    return launched(CHOOSING, configuration, template, eps, normalize)


def template_of(
    x: Form, w: Form, scales: Form, biases: Form, norm: Form, k: int, shared: bool, group_size: int, bits: int
) -> dict[str, Any] | None:
    """Return the parameters besides a ring's that both kernels have; None where neither takes the operands."""
    if w.ndim != 3 or x.ndim != 2 or bits not in BITS or group_size not in GROUP_SIZES:
        return None
    (tokens, width), (matrices, rows, _) = x.shape, w.shape
    columns, experts, chosen, groups = rows // 2, matrices - shared, k + shared, width // group_size
    wanted = [
        (w, UINT32, (matrices, 2 * columns, width * bits // 32)),
        (scales, x.dtype, (matrices, rows, groups)),
        (biases, x.dtype, (matrices, rows, groups)),
        (norm, x.dtype, (width,)),
        (x, x.dtype, (tokens, width)),
    ]
    is_few = 1 <= k <= experts and chosen <= MOST_CHOSEN and matrices <= MOST_MATRICES
    if not (all_fit(wanted) and is_few):
        return None
    return {
        "T": x.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        "NORMED": True,
        "CHOSEN": chosen,
        "COLUMNS": columns,
        "EXPERTS": experts,
        "SHARED": shared,
    }


def all_fit(wanted: Sequence[tuple[Form, np.dtype[Any], tuple[int, ...]]]) -> bool:
    """Whether arrays have their dtypes and shapes, and are contiguous and aligned."""
    return all(
        each.dtype == dtype and each.shape == shape and each.is_contiguous and each.is_aligned
        for each, dtype, shape in wanted
    )


def launched(
    kernel: Kernel, configuration: Configuration, template: Mapping[str, Any], eps: float, normalize: bool
) -> Routed:
    """Return the launch of a kernel, whose second axis are the tokens."""
    grid, threads, columns = configuration.grid, configuration.threads, template["COLUMNS"]
    scalars = {"columns": columns, "eps": eps, "is_normalised": normalize}
    return Routed((grid[1], template["CHOSEN"], columns), Launch(kernel, grid, threads, template, **scalars))
