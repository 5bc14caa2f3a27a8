"""The ways of a product of a few vectors: how the kernels of `qmv` may share it out, the rules' first."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from hiprt.array import Array, Form
from hiprt.kernels.ops.quantized.formats import BITS
from hiprt.kernels.tuning.blocks import MOST_VECTORS as MOST_OF_BLOCKS, Blocks, blocks, blocks_of, cost as blocks_cost
from hiprt.kernels.tuning.choices import MOST_WAYS
from hiprt.kernels.tuning.dots import Dots, dots_of, ranked_dots
from hiprt.kernels.tuning.rings import Ring, ring_of
from hiprt.kernels.tuning.sharing import Sharing, sharing_of, sharings
from hiprt.kernels.tuning.stages import Stages, stages_of
from hiprt.kernels.tuning.target import Target
from hiprt.kernels.tuning.tiling import Product, Tiling, tiling_of
from hiprt.kernels.tuning.vector_rings import VectorRing, vector_ring_of

__all__ = ["MOST", "Way", "chosen", "most_vectors", "ways_of"]

MOST = 8  # vectors that one launch multiplies on every target
# None stands for the kernel that every target has, with the sharing that the rules choose.
Way: TypeAlias = "Tiling | Ring | VectorRing | Stages | Dots | Blocks | Sharing | None"


def chosen(target: Target, dtype: np.dtype[Any], product: Product, is_normed: bool = True) -> Way:
    """Return how a kernel for 16-bit numbers and some targets shares out the work; None if none takes it."""
    if dtype.itemsize != 2:
        return None
    if product.bits not in BITS:
        return dots_of(product, target)
    if "matrix" not in target.features or product.width * product.bits % 1024:
        return blocks_of(product, is_normed, target) or dots_of(product, target)
    ring = ring_of(product, target, is_normed) or vector_ring_of(product, target, is_normed)
    return ring or stages_of(product, is_normed, target) or tiling_of(product, target)


def most_vectors(w: Form | Array, dtype: np.dtype[Any], group: int, bits: int, is_gated: bool, target: Target) -> int:
    """Return how many vectors one launch multiplies with a matrix."""
    if "blocks" not in target.features or dtype.itemsize != 2 or w.ndim != 2 or bits not in BITS:
        return MOST
    product = Product(w.shape[0], w.shape[1] * 32 // bits, MOST_OF_BLOCKS, group, bits, is_gated)
    return MOST_OF_BLOCKS if any(blocks(product, target)) else MOST


def ways_of(target: Target, dtype: np.dtype[Any], product: Product, is_normed: bool = True) -> list[Way]:
    """Return how a product can be shared out, as the rules have it first; several ways where timing may choose.

    Those are ways of one vector: by integer dot instructions, and by the kernel that every target has, the ways that
    the rules put next to theirs. By AMD's matrix instructions several vectors have ways too, among them one by which
    no threadgroups share the width, and that of integer dot instructions where it takes as many; fewer vectors go the
    way of one.
    """
    rule = chosen(target, dtype, product, is_normed)
    if isinstance(rule, Blocks):
        every = sorted(blocks(product, target), key=lambda sharing: blocks_cost(product, sharing, is_normed, target))
        whole = next(sharing for sharing in every if sharing.split == 1)
        few = [rule, *([] if whole == rule else [whole])]
        few += [sharing for sharing in every if sharing not in few]
        by_dots = dots_of(product, target) if product.batch <= MOST else None
        return [*few[: MOST_WAYS - 1], *([by_dots] if by_dots else [])]
    if product.batch > 1 or target.takes_loops or not (rule is None or isinstance(rule, Dots)):
        return [rule]
    plain = sharing_of(product, target)
    if rule is not None:
        return [*ranked_dots(product, target)[: MOST_WAYS - 1], plain]
    order = list(sharings(product, target.table.product_rows))
    at = order.index(plain)
    nearest = sorted(order, key=lambda sharing: abs(order.index(sharing) - at))
    return [*nearest[:MOST_WAYS]]
