"""A quantised product and the place of each row's largest result, which the product's kernel finds where it can."""

from __future__ import annotations

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, result
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.qmv import check
from hiprt.kernels.ops.quantized.qmv_kernels import OPERANDS
from hiprt.kernels.ops.quantized.qmv_ways import MOST, Way, chosen
from hiprt.kernels.ops.quantized.vector_rings import vector_ring_kernel
from hiprt.kernels.ops.reduction.argmax import argmax
from hiprt.kernels.tuning.rings import Ring, ring_configuration
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Configuration, Product
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_configuration
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["product_argmax"]

GIVEN = {name: kind for name, kind in OPERANDS.items() if name != "residual"}
HEADERS = "reduction/largest.h", "reduction/largest_word.h"
PLACED = ring_kernel(
    "qmv_argmax",
    inputs=GIVEN,
    updates={"arrivals": "uint"},
    outputs={"out": "T", "place": "int"},
    scalars={"columns": "uint", "eps": "float"},
    template={"NORMED": "bool"},
    ahead=("weight", "scales", "biases", "norm"),
    headers=HEADERS,
)
# This one multiplies several vectors.
SEVERAL_PLACED = vector_ring_kernel(
    "qmv_vector_rings_argmax",
    inputs=GIVEN,
    updates={"arrivals": "uint"},
    outputs={"out": "T", "place": "int"},
    template={"NORMED": "bool"},
    headers=HEADERS,
)


@op
def product_argmax(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int,
    bits: int,
    norm: Array | None = None,
    eps: float = 1e-6,
    places: Array | None = None,
    stream: Stream | None = None,
) -> tuple[Array, Array]:
    """Return what `product` returns, and what `argmax` returns for it, with the same bits.

    Where `Ring` shares out the product of one vector, or `VectorRing` that of several without sharers, the threadgroups
    keep the largest of the results that they make, and the last one finds the largest of all. That saves the kernels of
    `argmax`, which would read all results again.

    Parameters
    ----------
    x, w, scales, biases, group_size, bits, norm, eps
        As for `product`.
    places : Array, [B], optional
        The array that receives the places.

    Returns
    -------
    Array, [B, N]
        The product.
    Array, [B]
        int32. `places`, or a new array.

    Raises
    ------
    TypeError, ValueError
        What the ops raise.
    """
    stream = stream or current_stream()
    launch = launch_of(x, w, scales, biases, norm, group_size, bits, eps, target_of(stream))
    if launch is None:
        y = product(x, w, scales, biases, group_size=group_size, bits=bits, norm=norm, eps=eps, stream=stream)
        return y, argmax(y, stream=stream, out=places)
    given = {"weight": w, "x": x, "scales": scales, "biases": biases, "norm": w if norm is None else norm}
    places = result("product_argmax", places, (x.shape[0],), INT32, stream, given)
    y = make((x.shape[0], w.shape[0]), x.dtype, stream)
    launch(stream, **given, arrivals=arrivals(stream), out=y, place=places)
    return y, places


@Planned
def launch_of(
    x: Form,
    w: Form,
    scales: Form,
    biases: Form,
    norm: Form | None,
    group_size: int,
    bits: int,
    eps: float,
    target: Target,
) -> Launch | None:
    """Return the launch that finds the places too; None where other kernels take the operands."""
    if x.ndim != 2 or not 1 <= x.shape[0] <= MOST:
        return None
    columns = check("qmv", x, w, scales, biases, group_size, bits, norm, None, False, MOST)
    batch, width = x.shape
    whole = Product(columns, width, batch, group_size, bits, False)
    found = kernel_of(whole, chosen(target, x.dtype, whole, norm is not None), target) if columns else None
    if found is None:
        return None
    kernel, configuration = found
    if 2 * configuration.grid[0] * batch > COUNTERS:  # a word of each threadgroup and vector is two counters
        return None
    template = {
        "T": x.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        **configuration.template,
        "NORMED": norm is not None,
    }
    return Launch(kernel, configuration.grid, configuration.threads, template, columns=columns, eps=eps)


def kernel_of(whole: Product, way: Way, target: Target) -> tuple[Kernel, Configuration] | None:
    """Return the kernel that finds the places where a product goes this way, and how it is shared out; None if none."""
    if isinstance(way, Ring):
        return PLACED, ring_configuration(whole, way, target)
    if not isinstance(way, VectorRing) or way.sharers > 1:
        return None
    configuration = vector_ring_configuration(whole, way)
    has_enough = configuration.threads[0] // 32 >= whole.batch  # simdgroups, each of which has results of one vector
    return (SEVERAL_PLACED, configuration) if has_enough else None
