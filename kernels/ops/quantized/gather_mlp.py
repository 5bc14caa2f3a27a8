"""A mixture's gated products: vectors with the quantised matrices that each chooses, and what follows them."""

from __future__ import annotations

from typing import NamedTuple

from hiprt.array import Array, empty
from hiprt.kernels.ops.elementwise.copies import contiguous
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.matmul.stacks import side_of, size_of
from hiprt.kernels.ops.quantized.formats import format_of
from hiprt.kernels.ops.quantized.gather_qmm import gather_qmm, plan_of
from hiprt.kernels.ops.quantized.gathered_tiles import GatheredPlan
from hiprt.kernels.ops.quantized.operands import operands_of
from hiprt.kernels.tuning.target import target_of
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["gather_mlp", "gather_swiglu"]


@op
def gather_swiglu(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    indices: Array,
    *,
    group_size: int,
    bits: int,
    stream: Stream | None = None,
) -> Array:
    """Return the products of `gather_qmm`, whose first half gates the second: ``silu(first) * second``.

    Vectors are multiplied with the matrices that each token chooses of a stack. Where one kernel does it, it has the
    bits of `gather_qmm` and `silu_mul`.

    Parameters
    ----------
    x : Array, [B, k, K] or [B, 1, K]
        float16, bfloat16 or float32. A vector for each choice, or one for all choices.
    w, scales, biases : Array, [E, N, ...]
        The stack, as `quantize` returns it.
    indices : Array, [B, k]
        Of any integer dtype. An index that names no matrix gives zeros.
    group_size, bits : int
        As in `quantize`.

    Returns
    -------
    Array, [B, k, N / 2]

    Raises
    ------
    ValueError
        What `gather_qmm` raises.
    """
    stream = stream or current_stream()
    if w.shape[-2] % 2 == 0 and w.ndim == 3:
        found = gathered("gather_swiglu", x, (w, scales, biases), indices, group_size, bits, True, stream)
        if found is not None:
            return found.run(stream).out
    return gated_behind(x, (w, scales, biases), indices, group_size, bits, stream)


@op
def gather_mlp(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array,
    down: Array,
    down_scales: Array,
    down_biases: Array,
    indices: Array,
    *,
    group_size: int,
    bits: int,
    down_group_size: int,
    down_bits: int,
    stream: Stream | None = None,
) -> Array:
    """Return what `gather_qmm` returns behind `gather_swiglu`, of vectors that each token takes to all of its choices.

    Where Hopper's tiles take both products, their rows are put in order once.

    Parameters
    ----------
    x : Array, [B, 1, K]
    w, scales, biases : Array, [E, N, ...]
    down, down_scales, down_biases : Array, [E, H, ...]
        Of matrices with N / 2 columns.
    indices : Array, [B, k]
    group_size, bits, down_group_size, down_bits : int

    Returns
    -------
    Array, [B, k, H]

    Raises
    ------
    ValueError
        What these ops raise.
    """
    stream = stream or current_stream()
    stack, last = (w, scales, biases), (down, down_scales, down_biases)
    first = None
    if w.ndim == down.ndim == 3 and w.shape[-2] % 2 == 0:
        first = gathered("gather_swiglu", x, stack, indices, group_size, bits, True, stream)
    if first is not None:
        inner, runs = first.run(stream)
        second = gathered("gather_qmm", inner, last, indices, down_group_size, down_bits, False, stream)
        if second is not None:
            return second.run(stream, runs if second.plan.runs == first.plan.runs else None).out
    else:
        inner = gated_behind(x, stack, indices, group_size, bits, stream)
    wide = inner.reshape(*indices.shape, 1, inner.shape[-1])
    y = gather_qmm(wide, *last, None, indices, group_size=down_group_size, bits=down_bits, stream=stream)
    return y.reshape(*indices.shape, down.shape[-2])


def gated_behind(
    x: Array, stack: tuple[Array, Array, Array], indices: Array, group_size: int, bits: int, stream: Stream
) -> Array:
    """Return the gated products by a kernel that multiplies and one for the gate behind it."""
    wide, rows = x.reshape(*x.shape[:-1], 1, x.shape[-1]), stack[0].shape[-2]
    y = gather_qmm(wide, *stack, None, indices, group_size=group_size, bits=bits, stream=stream)
    y, half = y.reshape(*indices.shape, rows), rows // 2
    return silu_mul(*(contiguous(part, stream=stream) for part in (y[..., :half], y[..., half:])), stream=stream)


class Products(NamedTuple):
    """Products that were launched, and the order of their rows by the matrices that they name."""

    out: Array
    runs: tuple[Array, Array]


class Gathered(NamedTuple):
    """A plan of Hopper's tiles with its operands."""

    plan: GatheredPlan
    shape: tuple[int, ...]
    x: Array
    indices: Array
    stack: tuple[Array, Array, Array]

    def run(self, stream: Stream, runs: tuple[Array, Array] | None = None) -> Products:
        """Launch on a stream; `runs` is the order of the rows where it is there already."""
        out = empty(self.shape, self.x.dtype, stream)
        return Products(out, self.plan.run(stream, out, self.x, self.indices, *self.stack, runs))


def gathered(
    op: str,
    x: Array,
    stack: tuple[Array, Array, Array],
    indices: Array,
    group_size: int,
    bits: int,
    is_gated: bool,
    stream: Stream,
) -> Gathered | None:
    """Return how Hopper's tiles take the products with a stack; None where other kernels take them."""
    wide, (matrices, rows, _) = x.reshape(*x.shape[:-1], 1, x.shape[-1]), stack[0].shape
    given = operands_of(op, wide, *stack, True, format_of(op, group_size, bits, "affine"), stream)
    left = side_of(wide.shape[:-2], indices.shape, size_of(wide.shape[:-2]), None, stream)
    right = side_of(indices.shape, indices.shape, matrices, indices, stream)
    plan = plan_of(given, 1, indices.size, left, right, is_gated, target_of(stream))
    if plan is None or right.indices is None or given.biases is None:
        return None
    shape = (*indices.shape, rows // 2 if is_gated else rows)
    return Gathered(plan, shape, given.x, right.indices, (given.w, given.scales, given.biases))
