"""Rows: what is computed of one token with axes of one element in front, computed as rows of a matrix.

Models that take a batch of texts write decode steps so: with x of shape [1, 1, K], heads that change places with the
one token, and caches that are updated by slices. The kernels of decode steps are found in the plain form.
"""

from __future__ import annotations

from typing import Any

from hiprt import kernels
from hiprt.array import Array
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.passes.decode.uses import argument
from hiprt.graphs.trace.passes.fusion import NAMES
from hiprt.graphs.trace.program import Program
from hiprt.graphs.trace.rebuild import Call, rebuild
from hiprt.graphs.trace.value import GETITEM, RESHAPE, TRANSPOSE, ShapelessValue
from hiprt.kernels.lang.operands import INT32

__all__ = ["rows"]

# Ops of single elements besides those that fuse; operands of fewer axes are broadcast.
ELEMENTWISE = (kernels.silu, kernels.silu_mul)
# Ops of the last axes, and their parameter that names one of these.
BY_AXIS = {
    kernels.softmax: "axis",
    kernels.argpartition: "axis",
    kernels.take_along_axis: "axis",
    kernels.sum: "axis",
}
# Ops of the last axis, whose other operands have no axes in front.
BY_ROW = (kernels.rms_norm, kernels.quantized_matmul)


def rows(program: Program) -> Program:
    """Return the program with one axis less where the first two have one element, and with views in few steps.

    The values are the same, in the same order. Programs whose products have matrices already are returned as they are.
    """
    products = [each for each in program.primitives if each.op is kernels.quantized_matmul]
    is_shapeless = any(isinstance(value, ShapelessValue) for value in program.inputs)
    if is_shapeless or not any(is_token(argument(each, "x")) for each in products):
        return program
    caches = {
        argument(each, name).number
        for each in program.primitives
        if each.op is kernels.attention
        for name in ("keys", "values")
        if argument(each, name).primitive is not None
    }

    views = Views()

    def change(primitive: Primitive, call: Call, replaced: Any) -> list[Any]:
        if primitive.op is kernels.slice_update and is_token_of_cache(primitive, caches):
            cache, update, place = (replaced(argument(primitive, name)) for name in ("a", "update", "start_indices"))
            heads = views.of(update, (1, update.shape[1], update.shape[3]))
            return [kernels.kv_write(cache, heads, place)]
        if keeps_order(primitive):
            made = primitive.rule[1][0][0]
            assert made is not None
            return [views.of(replaced(primitive.inputs[0]), made.form.shape)]
        if primitive.op is kernels.rope and argument(primitive, "x").form.ndim == 2:
            x, position, base = (argument(primitive, name) for name in ("x", "position", "base"))
            if position.form.shape == (1,) and argument(primitive, "out") is None:
                options = {name: argument(primitive, name) for name in ("dims", "traditional")}
                made = kernels.rope(views.of(replaced(x), (1, *x.form.shape)), replaced(position), base=base, **options)
                return [views.of(made, x.form.shape)]
        if is_token_op(primitive):
            return [token_call(primitive, replaced, views)]
        return call()

    return rebuild(program, change)


def is_token(value: Any) -> bool:
    """Whether a value has more than two axes, the first two of one element."""
    return isinstance(value, Array) and value.form.ndim > 2 and value.form.shape[:2] == (1, 1)


def is_token_of_cache(primitive: Primitive, caches: set[int]) -> bool:
    """Whether an update in place writes one token's heads into a cache that attention reads."""
    cache, update, place = (argument(primitive, name) for name in ("a", "update", "start_indices"))
    return (
        argument(primitive, "out") is cache
        and cache.primitive is not None
        and cache.number in caches
        and tuple(argument(primitive, "axes")) == (2,)
        and cache.form.ndim == update.form.ndim == 4
        and update.form.shape[::2] == (1, 1)
        and update.dtype == cache.dtype
        and cache.form.is_contiguous
        and update.form.is_contiguous
        and place.dtype == INT32
        and place.form.shape == (1,)
    )


def keeps_order(primitive: Primitive) -> bool:
    """Whether a primitive gives the elements of a contiguous value, all of them and in order, another shape."""
    if primitive.op is not RESHAPE and primitive.op is not TRANSPOSE and primitive.op is not GETITEM:
        return False
    x, made = primitive.inputs[0], primitive.rule[1][0][0]
    if made is None or len(primitive.inputs) != 1 or not x.form.is_contiguous or x.form.size != made.form.size:
        return False
    if primitive.op is TRANSPOSE:
        places = [axis % x.form.ndim for axis in primitive.arguments[1] if x.form.shape[axis] != 1]
        return places == sorted(places)
    # A part of as many elements is all of them, in order unless a step is negative.
    return primitive.op is RESHAPE or (made.form.is_contiguous and primitive.rule[1][0][2] == 0)


class Views:
    """The shapes that values were given, each made once."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, tuple[int, ...]], Array] = {}

    def of(self, value: Array, shape: tuple[int, ...]) -> Array:
        """Return the elements of a value in another shape: what it is a reshape of, where that has the shape."""
        source = value
        while source.primitive is not None and source.primitive.op is RESHAPE:
            source = source.primitive.arguments[0]
        if source.shape == shape:
            return source
        found = self.made.get((source.number, shape)) if source.primitive is not None else None
        if found is None and source.is_contiguous:
            found = source.reshape(shape)
        elif found is None and shape == source.shape[1:]:
            found = source[0]
        elif found is None:
            found = source[None] if shape[1:] == source.shape else kernels.contiguous(source).reshape(shape)
        if source.primitive is not None:
            self.made[source.number, shape] = found
        return found


def is_token_op(primitive: Primitive) -> bool:
    """Whether a primitive computes one token of one text, and would do the same with one axis less."""
    op = primitive.op
    if op is None or primitive.rule[0] or primitive.rule[2] or len(primitive.rule[1]) != 1:
        return False
    made = primitive.rule[1][0][0]
    if made is None or not is_token(made) or ("out" in op.names and argument(primitive, "out") is not None):
        return False
    if op is GETITEM:
        index = primitive.arguments[1]
        is_cut = isinstance(index, tuple) and index[:2] == (slice(None), slice(None))
        return is_cut and len(primitive.inputs) == 1 and is_token(primitive.inputs[0])
    if op in BY_ROW:
        others = primitive.inputs[1:]
        return is_token(primitive.inputs[0]) and all(each.form.ndim <= 2 for each in others)
    if op is kernels.gather_qmm:
        x, chosen = argument(primitive, "x"), argument(primitive, "rhs_indices")
        has_places = is_token(chosen) and chosen.form.ndim == 3 and x.form.shape[:2] == (1, 1) and x.form.ndim == 5
        return has_places and argument(primitive, "lhs_indices") is None
    if op in BY_AXIS:
        axis = argument(primitive, BY_AXIS[op])
        axes = axis if isinstance(axis, (tuple, list)) else (axis,)
        ndim = primitive.inputs[0].form.ndim
        are_behind = all(type(each) is int and each % ndim > 1 for each in axes)
        return are_behind and all(is_token(each) and each.form.ndim == ndim for each in primitive.inputs)
    ndim = made.form.ndim
    return (id(op) in NAMES or op in ELEMENTWISE) and all(
        each.form.ndim < ndim or (is_token(each) and each.form.ndim == ndim) for each in primitive.inputs
    )


def token_call(primitive: Primitive, replaced: Any, views: Views) -> Array:
    """Call an op with one axis less, and return its result in the shape that it had."""
    op, made = primitive.op, primitive.rule[1][0][0]
    assert op is not None
    assert made is not None
    if op is GETITEM:
        x, index = primitive.arguments
        return views.of(views.of(replaced(x), x.form.shape[1:])[index[1:]], made.form.shape)
    ndim = max(each.form.ndim for each in primitive.inputs)
    given: list[Any] = []
    for name, value in zip(op.names, primitive.arguments):
        if isinstance(value, Array):
            has_less = is_token(value) and (value.form.ndim == ndim or op is kernels.gather_qmm)
            now = replaced(value)
            given.append(views.of(now, value.form.shape[1:]) if has_less else now)
        elif op in BY_AXIS and name == BY_AXIS[op]:
            axes = value if isinstance(value, (tuple, list)) else (value,)
            moved = tuple(each if each < 0 else each - 1 for each in axes)
            given.append(moved if isinstance(value, (tuple, list)) else moved[0])
        else:
            given.append(replaced(value))
    named = dict(zip(op.names[op.positional :], given[op.positional :]))
    found: Array = op(*given[: op.positional], **named)
    return views.of(found, made.form.shape)
