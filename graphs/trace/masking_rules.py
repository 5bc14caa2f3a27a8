"""How padding is hidden from each primitive: a table of functions, which return its results and their padded axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, full, zeros
from hiprt.graphs.trace import value as values
from hiprt.graphs.trace.masking import Units, Use
from hiprt.graphs.trace.rehearsal import substitute
from hiprt.graphs.trace.size import Guard, Size

__all__ = ["ELEMENTWISE", "RULES"]

# What makes a primitive's results in the masked program, and their units.
Made = tuple[list[Any], list[Units]]


def joined(use: Use, operands: Iterable[Any], shape: tuple[int, ...]) -> Units:
    """Return the padded axes of what operands of one shape, or broadcast to it, give element by element."""
    found: Units = {}
    plain: set[int] = set()
    for operand in operands:
        if not isinstance(operand, Array):
            continue
        own, sizes = use.units_of(operand), use.shape_of(operand)
        ahead = len(shape) - len(sizes)
        for axis, n in enumerate(sizes):
            if axis in own:
                found[axis + ahead] = own[axis]
            elif n != 1:
                plain.add(axis + ahead)
    if plain & set(found):
        use.refuse(
            f"joins axis {min(plain & set(found))}, which is padded in one operand and not in another. Name both "
            "arguments in bucketed(axis={...}), or make the other one from the padded array's shape"
        )
    return found


def apart(use: Use) -> Made:
    """Element by element."""
    units = joined(use, use.primitive.inputs, use.shape)
    return use.call(), [units] * len(use.primitive.rule[1])


def along_last(use: Use) -> Made:
    """Rows along the last axis, each for itself."""
    units = joined(use, use.primitive.inputs, use.shape)
    if len(use.shape) - 1 in units:
        use.refuse("joins the elements of the padded axis. Pad another axis, or hide the padding by where()")
    return use.call(), [units] * len(use.primitive.rule[1])


def softmax(use: Use) -> Made:
    """Rows along an axis, of which padding is hidden."""
    x, units = use.given["x"], use.units_of(use.given["x"])
    axis = use.axis_of(use.given["axis"], x.ndim)
    if axis not in units:
        return use.call(), [units]
    use_no_out(use)
    return [kernels.softmax(use.hidden(x, [axis], "exp"), axis)], [units]


def use_no_out(use: Use) -> None:
    """Refuse ``out=`` where the call is replaced by another."""
    if isinstance(use.given.get("out"), Array):
        use.refuse("has out=, which cannot be kept where padding is hidden; use what the op returns")


def reduced_axes(use: Use) -> tuple[Array, list[int], Units]:
    """Return what a reduction is given, its axes, and the padded axes of the result."""
    x, axis = use.given["x"], use.given["axis"]
    named = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [use.axis_of(each, x.ndim) for each in named]
    kept = [each for each in range(x.ndim) if use.given["keepdims"] or each not in axes]
    units = use.units_of(x)
    return x, axes, {place: units[each] for place, each in enumerate(kept) if each in units and each not in axes}


def reduction(use: Use, identity: str) -> Made:
    """A reduction: of the padded axes all but the valid elements are hidden."""
    x, axes, units = reduced_axes(use)
    inside = [axis for axis in axes if axis in use.units_of(x)]
    if not inside:
        return use.call(), [units]
    use_no_out(use)
    return [use.op(use.hidden(x, inside, identity), axis=use.given["axis"], keepdims=use.given["keepdims"])], [units]


def mean(use: Use) -> Made:
    """A mean: a sum of the valid elements over their number."""
    x, axes, units = reduced_axes(use)
    inside = [axis for axis in axes if axis in use.units_of(x)]
    if not inside:
        return use.call(), [units]
    use_no_out(use)
    dtype = use.primitive.rule[1][0][0].dtype  # type: ignore[union-attr]
    wide = kernels.astype(use.hidden(x, inside, "0"), np.float32)
    count = math.prod(x.form.shape[axis] for axis in axes if axis not in inside)
    valid = kernels.astype(use.replaced(use.masking.length), np.float32)
    number = kernels.multiply(valid, float(count * math.prod(use.units_of(x)[axis] for axis in inside)))
    for _ in inside[1:]:
        number = kernels.multiply(number, valid)
    total = kernels.sum(wide, axis=use.given["axis"], keepdims=use.given["keepdims"])
    return [kernels.astype(kernels.divide(total, number.reshape([1] * total.ndim)), dtype)], [units]


def place(use: Use, identity: str) -> Made:
    """The place of the largest or smallest element: padding comes behind all others."""
    x, units = use.given["x"], use.units_of(use.given["x"])
    if use.given["axis"] is None:
        if any(n != 1 for n in x.form.shape[: min(units)]) or len(units) > 1:
            use.refuse("counts places over padded axes, which are other places without padding. Name the axis")
        axes, left = list(units), Units()
    else:
        axis = use.axis_of(use.given["axis"], x.ndim)
        kept = [each for each in range(x.ndim) if use.given["keepdims"] or each != axis]
        left = {place: units[each] for place, each in enumerate(kept) if each in units and each != axis}
        axes = [axis] if axis in units else []
    if not axes:
        return use.call(), [left]
    use_no_out(use)
    return [use.op(use.hidden(x, axes, identity), axis=use.given["axis"], keepdims=use.given["keepdims"])], [left]


def cumsum(use: Use) -> Made:
    """Sums up to each element; from the end, padding is hidden."""
    x, units, axis = use.given["a"], use.units_of(use.given["a"]), use.given["axis"]
    if axis is None and x.ndim > 1:
        use.refuse("joins all axes. Name the axis")
    axis = use.axis_of(axis or 0, x.ndim)
    if axis not in units or not use.given["reverse"]:
        return use.call(), [units]
    use_no_out(use)
    hidden = use.hidden(x, [axis], "0")
    return [kernels.cumsum(hidden, axis=axis, reverse=True, inclusive=use.given["inclusive"])], [units]


def along_axis(use: Use) -> Made:
    """Rows along an axis that must not be padded."""
    x = use.given["a"]
    units, axis = use.units_of(x), use.given["axis"]
    if axis is None or use.axis_of(axis, x.ndim) in units:
        use.refuse("orders the elements of the padded axis. Hide them by where(), outside of the bucketed function")
    return use.call(), [units]


def matmul(use: Use) -> Made:
    """A product: rows and columns are apart; what is summed over is hidden in both operands."""
    a, b = use.given["a"], use.given["b"]
    left, right = use.units_of(a), use.units_of(b)
    inner, outer = a.ndim - 1, max(b.ndim - 2, 0)
    if (inner in left) != (outer in right):
        use.refuse(
            "sums over an axis that is padded in one operand and not in the other. Name both arguments in "
            "bucketed(axis={...}), or make the other one from the padded array's shape"
        )
    rows, columns = int(a.ndim > 1), int(b.ndim > 1)
    batch = len(use.shape) - rows - columns
    found: Units = {}
    plain: set[int] = set()
    for value, units in ((a, left), (b, right)):
        own = max(value.ndim - 2, 0)
        for axis in range(own):
            if axis in units:
                found[batch - own + axis] = units[axis]
            elif value.form.shape[axis] != 1:
                plain.add(batch - own + axis)
    if plain & set(found):
        use.refuse("has a batch axis that is padded in one operand and not in the other")
    if rows and a.ndim - 2 in left:
        found[batch] = left[a.ndim - 2]
    if columns and b.ndim - 1 in right:
        found[batch + rows] = right[b.ndim - 1]
    if inner not in left:
        return use.call(), [found]
    use_no_out(use)
    return [kernels.matmul(use.hidden(a, [inner], "0"), use.hidden(b, [outer], "0"))], [found]


def rows_only(use: Use) -> Made:
    """A product with weights, or a look-up of rows, of one operand that may be padded, but for its last axis."""
    name = "ids" if "ids" in use.given else "x"
    x = use.given[name]
    units = use.units_of(x)
    if any(use.units_of(each) for each in use.primitive.inputs if each is not x):
        use.refuse(f"is given another operand than {name} that is padded. Only {name} may be")
    if name == "x" and x.ndim - 1 in units:
        use.refuse("sums over the padded axis. Pad another axis")
    return use.call(), [units]


def rope(use: Use) -> Made:
    """A rotation of each head of each row by the row's position."""
    x, position = use.given["x"], use.given["position"]
    units, own = use.units_of(x), use.units_of(position)
    if x.ndim - 1 in units:
        use.refuse("joins the elements of the padded axis. Pad another axis")
    has_rows = x.ndim == 3 and position.form.shape[0] != 1
    if has_rows and own.get(0) != units.get(0):
        use.refuse(
            "is given rows and positions of which only one is padded. Name both arguments in bucketed(axis={...})"
        )
    return use.call(), [units]


def take(use: Use) -> Made:
    """Elements at places: the places may be padded, what they are taken from may be along other axes."""
    a, indices, axis = use.given["a"], use.given["indices"], use.given["axis"]
    own, units = use.units_of(a), use.units_of(indices)
    width = indices.ndim if isinstance(indices, Array) else np.ndim(indices)
    if axis is None:
        if own:
            use.refuse("counts places over padded axes, which are other places without padding. Name the axis")
        return use.call(), [units]
    at = use.axis_of(axis, a.ndim)
    if at in own:
        use.refuse("takes elements of the padded axis, whose places from the end are others without padding")
    found = {at + place: unit for place, unit in units.items()}
    found |= {each if each < at else each + width - 1: unit for each, unit in own.items()}
    return use.call(), [found]


def take_along_axis(use: Use) -> Made:
    """Elements at places of the same row."""
    a, indices, axis = use.given["a"], use.given["indices"], use.given["axis"]
    if axis is None or use.axis_of(axis, a.ndim) in use.units_of(a):
        use.refuse("takes elements of the padded axis, whose places from the end are others without padding")
    at = use.axis_of(axis, a.ndim)
    units = use.units_of(indices)
    others = {each: unit for each, unit in units.items() if each != at}
    if others != use.units_of(a):
        use.refuse("has an axis that is padded in one operand and not in the other")
    return use.call(), [units]


def concatenate(use: Use) -> Made:
    """Arrays one behind the other, along an axis that must not be padded."""
    given = list(use.given["arrays"])
    axis = use.axis_of(use.given["axis"], given[0].ndim)
    units = use.units_of(given[0])
    if any(use.units_of(each) != units for each in given):
        use.refuse("has an axis that is padded in one array and not in another")
    if axis in units:
        use.refuse("puts something behind the padding. Do it outside of the bucketed function")
    return use.call(), [units]


def made(use: Use) -> Made:
    """A new array of a shape."""
    shape = use.given["shape"]
    return use.call(), [use.sized(shape if isinstance(shape, (tuple, list)) else (shape,))]


def arange(use: Use) -> Made:
    """Numbers from 0, of which padding makes more."""
    start, stop, step = use.given["start"], use.given["stop"], use.given["step"]
    end = start if stop is None else stop
    if type(end) is Size and (stop is None or (type(start) is int and start == 0)) and type(step) is int and step == 1:
        return use.call(), [use.sized((end,))]
    return use.call(), [{}]  # its sizes are expected to be what they are


def broadcast_to(use: Use) -> Made:
    """A view with more axes, and with axes of one element repeated."""
    x, shape = use.given["x"], use.given["shape"]
    ahead = len(use.shape) - x.ndim
    units = {axis + ahead: unit for axis, unit in use.units_of(x).items()}
    sized = use.sized(shape)
    for axis, unit in units.items():
        if sized.get(axis) != unit:
            use.refuse("gives a padded axis a size that is not made from the padded array's shape")
    return use.call(), [sized]


def reshape(use: Use) -> Made:
    """A view of another shape, in which the valid elements must still come first along an axis."""
    x, shape = use.given["array"], use.shape
    found: Units = {}
    for mine, its in grouped(x.form.shape, shape):
        padded = [axis for axis in mine if axis in use.units_of(x)]
        if not padded:
            continue
        ahead = [axis for axis in mine if axis < padded[0] and x.form.shape[axis] != 1]
        to = next(axis for axis in its if shape[axis] != 1)
        valid = use.units_of(x)[padded[0]] * math.prod(x.form.shape[axis] for axis in mine if axis > padded[0])
        unit, rest = divmod(valid, math.prod(shape[axis] for axis in its if axis > to))
        if len(padded) > 1 or ahead or rest or shape[to] != unit * use.masking.bucket:
            use.refuse(
                "puts padding between valid elements. Move the padded axis to the front of those that are joined"
            )
        found[to] = unit
    asked = use.given["shape"]
    for axis, size in enumerate(asked):
        if axis in found and use.masking.depends(size):
            use.expect(size, use.axis_size(found[axis]))
    return use.call(), [found]


def grouped(mine: Sequence[int], its: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return which axes of two shapes of as many elements hold the same elements, in the smallest groups."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(mine) or j < len(its):
        first, second = [i] if i < len(mine) else [], [j] if j < len(its) else []
        i, j = i + len(first), j + len(second)
        a, b = math.prod(mine[k] for k in first), math.prod(its[k] for k in second)
        while a != b:
            if (a < b and i < len(mine)) or j == len(its):
                first.append(i)
                a, i = a * mine[i], i + 1
            else:
                second.append(j)
                b, j = b * its[j], j + 1
        groups.append((first, second))
    return groups


def transpose(use: Use) -> Made:
    """A view with the axes in another order."""
    x, axes = use.given["array"], use.given["axes"]
    flat = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    order = [use.axis_of(axis, x.ndim) for axis in flat] if flat else list(reversed(range(x.ndim)))
    units = use.units_of(x)
    return use.call(), [{place: units[axis] for place, axis in enumerate(order) if axis in units}]


def view(use: Use) -> Made:
    """The same bytes as another dtype."""
    x = use.primitive.inputs[0]
    units = use.units_of(x)
    if use.shape != use.shape_of(x) and x.ndim - 1 in units:
        use.refuse("gives the padded axis another size")
    return use.call(), [units]


def getitem(use: Use) -> Made:
    """A view of a part; of a padded axis the whole, or one element, counted from the front or the end."""
    x = use.primitive.inputs[0]
    index = use.given[use.op.names[1]]
    units = use.units_of(x)
    if isinstance(index, Array):
        if 0 in units:
            use.refuse("takes elements of the padded axis, whose places from the end are others without padding")
        rows = use.units_of(index)
        return use.call(), [{**rows, **{axis + index.ndim - 1: unit for axis, unit in units.items()}}]
    items = list(index) if isinstance(index, tuple) else [index]
    named = sum(item is not None and item is not ... for item in items)
    if any(item is ... for item in items):
        at = next(place for place, item in enumerate(items) if item is ...)
        items[at : at + 1] = [slice(None)] * (x.ndim - named)
    items += [slice(None)] * (x.ndim - sum(item is not None for item in items))
    found: Units = {}
    source: Any = None
    axis = made_axes = 0
    for place, item in enumerate(items):
        if item is None:
            made_axes += 1
            continue
        unit = units.get(axis)
        if unit is not None and not isinstance(item, slice):
            source = one_of(use, use.replaced(x) if source is None else source, axis, item, unit)
            items[place] = 0
        elif unit is not None and not is_whole(item):
            use.refuse("takes a part of the padded axis. Take it from what the bucketed function returns")
        elif unit is not None:
            found[made_axes] = unit
        made_axes += isinstance(item, slice)
        axis += 1
    if source is None:
        return use.call(), [found]
    return [source[substitute(tuple(items), use.replaced)]], [found]


def is_whole(item: slice) -> bool:
    """Whether a slice is all of an axis as it is."""
    return item.start in (None, 0) and item.stop is None and item.step in (None, 1)


def one_of(use: Use, source: Array, axis: int, item: Any, unit: int) -> Array:
    """Return one element along a padded axis, which stays; a guard says that it is a valid one."""
    if type(item) is not int:
        use.refuse("takes an element of the padded axis at a place that is no plain number; x[-1] is the last one")
    whole = use.axis_size(unit)
    least = -item if item < 0 else item + 1
    use.masking.guards.append(Guard(0, whole, ">=", least, True))
    if item >= 0:
        part: Any = (slice(None),) * axis + (slice(item, item + 1),)
        return source[part]
    length = use.replaced(use.masking.length)
    at = kernels.add(kernels.multiply(length, unit) if unit != 1 else length, item)
    return kernels.take(source, at, axis=axis)


Rule = Callable[[Use], Made]
ELEMENTWISE = (
    "abs add arccos arccosh arcsin arcsinh arctan arctan2 arctanh astype bitwise_and bitwise_invert bitwise_or "
    "bitwise_xor ceil clip complex conjugate contiguous copy cos cosh divide equal "
    "erf erfinv exp expm1 floor floor_divide gelu gelu_approx gelu_fast_approx greater greater_equal imag isfinite "
    "isinf isnan left_shift less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or maximum "
    "minimum multiply negative not_equal power real reciprocal remainder right_shift round rsqrt sigmoid sign silu "
    "silu_mul sin sinh softplus sqrt square subtract tan tanh where"
).split()
RULES: dict[Any, Rule] = {
    **{getattr(kernels, name): apart for name in ELEMENTWISE},
    **{getattr(kernels, name): along_last for name in ("add_rms_norm", "gated_rms_norm", "layer_norm", "rms_norm")},
    **{getattr(kernels, name): along_axis for name in ("argpartition", "argsort", "partition", "sort", "topk")},
    **{getattr(kernels, name): partial(reduction, identity="0") for name in ("sum", "any")},
    **{getattr(kernels, name): partial(reduction, identity="1") for name in ("prod", "all")},
    kernels.max: partial(reduction, identity="least"),
    kernels.logsumexp: partial(reduction, identity="exp"),
    **{getattr(kernels, name): rows_only for name in ("qmv", "quantized_embedding", "quantized_matmul")},
    kernels.min: partial(reduction, identity="most"),
    kernels.mean: mean,
    kernels.argmax: partial(place, identity="least"),
    kernels.argmin: partial(place, identity="most"),
    kernels.softmax: softmax,
    kernels.cumsum: cumsum,
    kernels.matmul: matmul,
    kernels.rope: rope,
    kernels.take: take,
    kernels.take_along_axis: take_along_axis,
    kernels.concatenate: concatenate,
    kernels.arange: arange,
    kernels.broadcast_to: broadcast_to,
    zeros: made,
    full: made,
    values.RESHAPE: reshape,
    values.TRANSPOSE: transpose,
    values.VIEW: view,
    values.GETITEM: getitem,
}
