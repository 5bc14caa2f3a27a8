"""A quantised product and the place of each row's largest result, which for one vector the product's kernel finds."""

from __future__ import annotations

from hiprt.array import Array, Form, make
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import INT32, result
from hiprt.kernels.ops.arrivals import COUNTERS, arrivals
from hiprt.kernels.ops.quantized.integer_rings import ring_kernel
from hiprt.kernels.ops.quantized.product import product
from hiprt.kernels.ops.quantized.qmv import check
from hiprt.kernels.ops.quantized.qmv_kernels import OPERANDS
from hiprt.kernels.ops.quantized.qmv_ways import MOST, chosen
from hiprt.kernels.ops.reduction.argmax import argmax
from hiprt.kernels.tuning.rings import Ring, ring_configuration
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.kernels.tuning.tiling import Product
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["product_argmax"]

PLACED = ring_kernel(
    "qmv_argmax",
    inputs={name: kind for name, kind in OPERANDS.items() if name != "residual"},
    updates={"arrivals": "uint"},
    outputs={"out": "T", "place": "int"},
    scalars={"columns": "uint", "eps": "float"},
    template={"NORMED": "bool"},
    ahead=("weight", "scales", "biases", "norm"),
    headers=("reduction/largest.h", "reduction/largest_word.h"),
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

    Where `Ring` shares out the product of one vector, its threadgroups keep the largest of the results that they make,
    and the last one finds the largest of all: that is one kernel less, which would read all results again.

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
    places = result("product_argmax", places, (1,), INT32, stream, given)
    y = make((1, w.shape[0]), x.dtype, stream)
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
    """Return the launch for one vector; None where other kernels take the operands."""
    if x.ndim != 2 or x.shape[0] != 1:
        return None
    columns, width = check("qmv", x, w, scales, biases, group_size, bits, norm, None, False, MOST), x.shape[1]
    whole = Product(columns, width, 1, group_size, bits, False)
    ring = chosen(target, x.dtype, whole, norm is not None) if columns else None
    if not isinstance(ring, Ring):
        return None
    configuration = ring_configuration(whole, ring, target)
    if 2 * configuration.grid[0] > COUNTERS:  # a word of each threadgroup is two counters
        return None
    template = {
        "T": x.dtype,
        "GROUP": group_size,
        "BITS": bits,
        "WIDTH": width,
        **configuration.template,
        "NORMED": norm is not None,
    }
    return Launch(PLACED, configuration.grid, configuration.threads, template, columns=columns, eps=eps)
