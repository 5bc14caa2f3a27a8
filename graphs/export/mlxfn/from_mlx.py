"""What each primitive of MLX's is in ops of ours: a table of functions, and those that take more than a line.

A function is given a `Node` and returns the array that the primitive makes, or a list of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiprt import kernels
from hiprt.array import Array, full
from hiprt.graphs.export.mlxfn.layout import MODES
from hiprt.graphs.export.mlxfn.metal_text import kernel_of
from hiprt.op import custom_ops

__all__ = ["call"]

Shape = tuple[int, ...]
Made = Any  # an array, or a list of them


@dataclass(frozen=True)
class Node:
    """A primitive with its inputs.

    Attributes
    ----------
    state : list
    inputs : list of Array
    forms : list of (shape, dtype)
        Those of what it makes, as the file has them.
    shapeless : bool
        Whether the function is for other shapes as well.
    """

    state: list[Any]
    inputs: list[Array]
    forms: list[tuple[Shape, np.dtype[Any]]]
    shapeless: bool

    @property
    def x(self) -> Array:
        """The first input."""
        return self.inputs[0]

    @property
    def shape(self) -> Shape:
        """The shape of the first output in the file."""
        return self.forms[0][0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first output."""
        return self.forms[0][1]


def call(
    name: str, state: list[Any], inputs: list[Array], forms: list[tuple[Shape, np.dtype[Any]]], shapeless: bool
) -> list[Array]:
    """Return what a primitive makes.

    Raises
    ------
    ValueError
        No ops do what it does, or the results have other shapes than the file says.
    """
    if name not in TABLE:
        raise ValueError("there is no op for it")
    made = TABLE[name](Node(state, inputs, forms, shapeless))
    arrays = made if isinstance(made, list) else [made]
    if len(arrays) != len(forms):
        raise ValueError(f"it makes {len(arrays)} arrays, and the file has {len(forms)}")
    arrays = [each if each.dtype == dtype else kernels.astype(each, dtype) for each, (_, dtype) in zip(arrays, forms)]
    for array, (shape, _) in zip(arrays, forms):
        if not shapeless and array.form.shape != shape:
            raise ValueError(f"it makes an array of the shape {array.form.shape}, where the file has {shape}")
    return arrays


def solid(x: Array) -> Array:
    """Return a contiguous array."""
    return kernels.contiguous(x)


def op(name: str) -> Callable[[Node], Made]:
    """Return what an op of all inputs and no state does."""
    return lambda node: getattr(kernels, name)(*node.inputs)


def choice(*names: str) -> Callable[[Node], Made]:
    """Return what one of several ops does, which the first number of the state tells."""
    return lambda node: getattr(kernels, pick(names, node.state[0]))(*node.inputs)


def pick(of: Sequence[Any], number: Any) -> Any:
    """Return one of several; raise ValueError for another number."""
    if not 0 <= int(number) < len(of):
        raise ValueError(f"{number} is none of {', '.join(map(str, of))}")
    return of[int(number)]


def axes_of(node: Node, axes: Sequence[int]) -> tuple[int, ...]:
    """Return axes of the first input, not negative."""
    ndim = node.x.form.ndim
    if any(not -ndim <= axis < ndim for axis in axes):
        raise ValueError(f"axes {list(axes)} of {ndim}")
    return tuple(axis % ndim for axis in axes)


def sizes(shape: Sequence[int]) -> Shape:
    """Return a shape of a state."""
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape {list(shape)!r:.60}")
    return tuple(shape)


def equal(node: Node) -> Made:
    same = kernels.equal(*node.inputs)
    if not node.state[0]:
        return same
    a, b = node.inputs
    return kernels.logical_or(same, kernels.logical_and(kernels.isnan(a), kernels.isnan(b)))


def add_mm(node: Node) -> Made:
    a, b, c = node.inputs
    alpha, beta = node.state
    product = kernels.matmul(a, b)
    product = product if alpha == 1 else kernels.multiply(product, alpha)
    return kernels.add(product, c if beta == 1 else kernels.multiply(c, beta))


def arange(node: Node) -> Made:
    start, stop, step = node.state
    if not all(map(math.isfinite, node.state)) or step == 0 or len(node.shape) != 1:
        raise ValueError(f"numbers from {start} to {stop} in steps of {step}")
    if start == int(start) and step == int(step) and max(abs(start), abs(stop), abs(step)) < 2**31:
        last = int(start) + node.shape[0] * int(step)
        return kernels.astype(kernels.arange(int(start), last, int(step)), node.dtype)
    places = kernels.astype(kernels.arange(node.shape[0]), np.float32)
    return kernels.add(kernels.multiply(places, step), start)


def broadcast(node: Node) -> Made:
    shape = sizes(node.state[0]) if len(node.inputs) == 1 else joint([each.shape for each in node.inputs])
    return kernels.broadcast_to(node.x, shape)


def broadcast_axes(node: Node) -> Made:
    ndim = node.x.form.ndim
    ignored = {axis % ndim for axis in node.state[0]}
    kept = [tuple(1 if i in ignored else n for i, n in enumerate(each.shape)) for each in node.inputs]
    shape = joint(kept)
    return kernels.broadcast_to(node.x, tuple(node.x.shape[i] if i in ignored else n for i, n in enumerate(shape)))


def joint(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """Return the shape to which shapes broadcast."""
    ndim = max(map(len, shapes))
    whole: list[Any] = [1] * ndim
    for shape in shapes:
        for i, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                whole[i] = n
    return tuple(whole)


def flattened(node: Node) -> Made:
    (first, last), shape = axes_of(node, node.state), node.x.shape
    size = 1
    for n in shape[first : last + 1]:
        size = size * n
    return solid(node.x).reshape(*shape[:first], size, *shape[last + 1 :])


def unflattened(node: Node) -> Made:
    (axis,), shape = axes_of(node, node.state[:1]), node.x.shape
    return solid(node.x).reshape(*shape[:axis], *node.state[1], *shape[axis + 1 :])


def expanded(node: Node) -> Made:
    ndim = node.x.form.ndim + len(node.state[0])
    new = {axis % ndim for axis in node.state[0]}
    return node.x[tuple(None if i in new else slice(None) for i in range(ndim))]


def squeezed(node: Node) -> Made:
    gone = set(axes_of(node, node.state[0]))
    return node.x[tuple(0 if i in gone else slice(None) for i in range(node.x.form.ndim))]


def filled(node: Node) -> Made:
    if node.shapeless:
        raise ValueError("MLX has no rule for its shape in functions for all shapes")
    return kernels.copy(kernels.broadcast_to(node.x, node.shape))


def gathered(node: Node) -> Made:
    source, *indices = node.inputs
    axes, slice_sizes = axes_of(node, node.state[0]), node.state[1]
    shape = source.shape
    ndim = len(shape)
    if len(axes) != len(indices) or len(slice_sizes) != ndim or not axes:
        raise ValueError("indices that do not belong to its axes")
    if any(slice_sizes[i] != (1 if i in axes else n) for i, n in enumerate(source.form.shape)):
        raise ValueError(
            f"slices of {slice_sizes} of {source.form.shape}: only whole axes, or single places, are taken"
        )
    rest = [i for i in range(ndim) if i not in axes]
    rows, place = rows_of(source, indices, axes)
    taken = kernels.take(rows, place, 0)
    kept = iter(shape[i] for i in rest)
    return taken.reshape(*place.shape, *(1 if i in axes else next(kept) for i in range(ndim)))


def rows_of(source: Array, indices: Sequence[Array], axes: Sequence[int]) -> tuple[Array, Array]:
    """Return an array whose rows are what is left beside some axes, and the row that indices of these axes name."""
    ndim = source.form.ndim
    rest = [i for i in range(ndim) if i not in axes]
    shape, length = source.shape, 1
    for axis in axes:
        length = length * shape[axis]
    rows = solid(source.transpose(*axes, *rest)).reshape(length, *(shape[i] for i in rest))
    place: Array | None = None
    for axis, index in zip(axes, indices):
        whole = kernels.astype(index, np.int32)
        if len(axes) > 1:  # of several axes each index counts from the end by itself
            whole = kernels.where(kernels.less(whole, 0), kernels.add(whole, shape[axis]), whole)
        place = whole if place is None else kernels.add(kernels.multiply(place, shape[axis]), whole)
    assert place is not None
    return rows, place


def scattered(node: Node) -> Made:
    source, *indices, updates = node.inputs
    kind, axes = node.state[0], axes_of(node, node.state[1])
    if kind not in (2, 4) or not axes or len(axes) != len(indices):
        raise ValueError("only updates that are added, or replace, can be scattered")
    shape, count = source.shape, indices[0].form.ndim
    rest = [i for i in range(source.form.ndim) if i not in axes]
    if any(n != (1 if i in axes else m) for i, (n, m) in enumerate(zip(updates.form.shape[count:], source.form.shape))):
        raise ValueError("only whole slices can be scattered")
    rows, place = rows_of(source, indices, axes)
    slices = solid(updates).reshape(*updates.shape[:count], *(shape[i] for i in rest))
    made = (kernels.scatter_add if kind == 2 else kernels.scatter)(rows, solid(place), slices, 0)
    back = made.reshape(*(shape[i] for i in (*axes, *rest)))
    order = [(*axes, *rest).index(i) for i in range(source.form.ndim)]
    return back.transpose(*order)


def scattered_along(node: Node) -> Made:
    if node.state[0] != 1:
        raise ValueError("only values that replace can be put along an axis")
    x, indices, values = node.inputs
    return kernels.put_along_axis(x, indices, values, node.state[1])


def random_bits(node: Node) -> Made:
    shape, width = node.state
    if node.x.form.shape != (2,) or width != 4:
        raise ValueError("only words of 4 bytes from one key can be drawn")
    return kernels.random_bits(node.x, sizes(shape))


def gather_mm(node: Node) -> Made:
    a, b, left, right = node.inputs
    return kernels.matmul(matrices(a, left), matrices(b, right))


def matrices(of: Array, indices: Array) -> Array:
    """Return the matrices that indices into all leading axes name."""
    return kernels.take(solid(of).reshape(-1, *of.shape[-2:]), indices, 0)


def number_of_elements(node: Node) -> Made:
    axes, is_inverted, dtype = node.state
    count: Any = 1
    for axis in axes_of(node, axes):
        count = count * node.x.shape[axis]
    return kernels.astype(full((), 1 / int(count) if is_inverted else count, np.float32), dtype)


def padded(node: Node) -> Made:
    x, value = node.inputs
    axes, low, high = axes_of(node, node.state[0]), node.state[1], node.state[2]
    for axis, before, behind in zip(axes, low, high):
        first, last = (block_of(value, x, axis, count) for count in (before, behind))
        x = kernels.concatenate([*first, x, *last], axis) if first or last else x
    return x


def block_of(value: Array, x: Array, axis: int, count: int) -> list[Array]:
    """Return the block of a value that makes an axis of an array so much longer; none for 0."""
    shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    return [kernels.broadcast_to(value, shape)] if count else []


def quantized_matmul(node: Node) -> Made:
    group_size, bits, mode, transpose = node.state
    x, w, scales, *biases = node.inputs
    named = {"group_size": group_size, "bits": bits, "mode": pick(MODES, mode)}
    return kernels.quantized_matmul(x, w, scales, biases[0] if biases else None, bool(transpose), **named)


def gather_qmm(node: Node) -> Made:
    group_size, bits, mode, transpose, _, right_sorted = node.state
    x, w, scales, *biases, left, right = node.inputs
    named = {"group_size": group_size, "bits": bits, "mode": pick(MODES, mode), "sorted_indices": bool(right_sorted)}
    return kernels.gather_qmm(x, w, scales, biases[0] if biases else None, left, right, bool(transpose), **named)


def quantize(node: Node) -> Made:
    group_size, bits, mode, is_back = node.state
    named = {"group_size": group_size, "bits": bits, "mode": pick(MODES, mode)}
    if not is_back:
        return list(kernels.quantize(node.x, **named))
    w, scales, *biases = node.inputs
    return kernels.dequantize(w, scales, biases[0] if biases else None, **named)


def reduced(node: Node) -> Made:
    kind = pick(("all", "any", "sum", "prod", "min", "max"), node.state[0])
    return getattr(kernels, kind)(node.x, axes_of(node, node.state[1]), True)


def scanned(node: Node) -> Made:
    kind, axis, is_reversed, inclusive = node.state
    if kind != 2:
        raise ValueError(f"a running {pick(('maximum', 'minimum', 'sum', 'product', 'logaddexp'), kind)} has no op")
    return kernels.cumsum(node.x, axis, reverse=bool(is_reversed), inclusive=bool(inclusive))


def sliced(node: Node) -> Made:
    return node.x[places(node, node.state[0], node.state[2], node.shape)]


def places(node: Node, starts: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> tuple[slice, ...]:
    """Return slices of the first input that take so many places of each axis.

    The stops in a file are not looked at: where an axis has one place, MLX writes 1 as its stride, and leaves the stop.
    """
    shape = node.x.form.shape
    if not len(starts) == len(strides) == len(counts) == len(shape):
        raise ValueError(f"slices of {len(starts)} of {len(shape)} axes")
    found = []
    for start, stride, count, n in zip(starts, strides, counts, shape):
        last = start + stride * (count - 1)
        if count and not (0 <= start < n and 0 <= last < n):
            raise ValueError(f"{count} places from {start} in steps of {stride} of an axis with {n}")
        stop = last + (1 if stride > 0 else -1)
        found.append(slice(start, None if stop < 0 else stop, stride or 1) if count else slice(0, 0))
    return tuple(found)


def slice_updated(node: Node) -> Made:
    *kinds, starts, _, strides = node.state
    x, update = node.inputs
    made = kernels.copy(x)
    part = made[places(node, starts, strides, update.form.shape)]
    name = pick(("maximum", "minimum", "add", "multiply", ""), kinds[0] if kinds else 4)
    kernels.copyto(part, getattr(kernels, name)(part, update) if name else update)
    return made


def dynamic_slice(node: Node) -> Made:
    axes, shape = node.state
    return kernels.slice(node.x, kernels.astype(solid(node.inputs[1]), np.int32), axes_of(node, axes), sizes(shape))


def dynamic_slice_update(node: Node) -> Made:
    x, update, start = node.inputs
    return kernels.slice_update(x, update, kernels.astype(solid(start), np.int32), axes_of(node, node.state[0]))


def split(node: Node) -> Made:
    places, (axis,) = node.state[0], axes_of(node, node.state[1:])
    ends = [*places, None]
    lead = (slice(None),) * axis
    return [node.x[(*lead, slice(begin, end))] for begin, end in zip([0, *places], ends)]


def viewed(node: Node) -> Made:
    return solid(node.x).view(node.state[0])


def extreme(node: Node) -> Made:
    return getattr(kernels, pick(("argmin", "argmax"), node.state[0]))(node.x, node.state[1], True)


def tan(node: Node) -> Made:
    return kernels.divide(kernels.sin(node.x), kernels.cos(node.x))


def sinh(node: Node) -> Made:
    grown = kernels.expm1(node.x)
    return kernels.multiply(kernels.add(grown, kernels.divide(grown, kernels.add(grown, 1))), 0.5)


def cosh(node: Node) -> Made:
    return kernels.multiply(kernels.add(kernels.exp(node.x), kernels.exp(kernels.negative(node.x))), 0.5)


def arc_sinh(node: Node) -> Made:
    size = kernels.abs(node.x)
    root = kernels.sqrt(kernels.add(kernels.square(size), 1))
    small = kernels.divide(kernels.square(size), kernels.add(root, 1))
    return kernels.multiply(kernels.sign(node.x), kernels.log1p(kernels.add(size, small)))


def arc_cosh(node: Node) -> Made:
    above = kernels.subtract(node.x, 1)
    return kernels.log1p(kernels.add(above, kernels.sqrt(kernels.multiply(above, kernels.add(node.x, 1)))))


def arc_tanh(node: Node) -> Made:
    size = kernels.abs(node.x)
    ratio = kernels.divide(kernels.multiply(size, 2), kernels.subtract(1, size))
    return kernels.multiply(kernels.sign(node.x), kernels.multiply(kernels.log1p(ratio), 0.5))


def norm_weight(array: Array) -> Array | None:
    """Return the weight of a norm; MLX has a number in the place of one that is not given."""
    return array if array.form.ndim else None


def rms_norm(node: Node) -> Made:
    return kernels.rms_norm(solid(node.x), norm_weight(node.inputs[1]), node.state[0])


def layer_norm(node: Node) -> Made:
    x, weight, bias = node.inputs
    return kernels.layer_norm(solid(x), norm_weight(weight), norm_weight(bias), node.state[0])


def rope(node: Node) -> Made:
    dims, is_traditional, base, scale, is_forward = node.state
    x, offset, *given = node.inputs
    if dims <= 0 or dims % 2 or node.x.form.ndim < 3:
        raise ValueError(f"rotary positions of {dims} elements")
    half = dims // 2
    steps = kernels.multiply(kernels.astype(kernels.arange(half), np.float32), -math.log(base or 1.0) / half)
    pace = kernels.reciprocal(given[0]) if given else kernels.exp(steps)
    first = kernels.astype(offset, np.float32)
    first = first if not offset.form.ndim else first.reshape(-1, *(1,) * (x.form.ndim - 2))
    places = kernels.add(kernels.astype(kernels.arange(x.shape[-2]), np.float32), first)
    angles = kernels.multiply(kernels.multiply(places, scale)[..., None], pace)
    cos, sin = kernels.cos(angles), kernels.sin(angles)
    sin = sin if is_forward else kernels.negative(sin)
    turned = kernels.astype(x[..., :dims], np.float32)
    a, b = (turned[..., ::2], turned[..., 1::2]) if is_traditional else (turned[..., :half], turned[..., half:])
    new_a = kernels.subtract(kernels.multiply(a, cos), kernels.multiply(b, sin))
    new_b = kernels.add(kernels.multiply(a, sin), kernels.multiply(b, cos))
    if is_traditional:
        both = kernels.concatenate([new_a[..., None], new_b[..., None]], -1)
        made = both.reshape(*x.shape[:-1], dims)
    else:
        made = kernels.concatenate([new_a, new_b], -1)
    made = kernels.astype(made, x.dtype)
    return made if dims == x.form.shape[-1] else kernels.concatenate([made, x[..., dims:]], -1)


def attention(node: Node) -> Made:
    scale, is_causal, has_sinks, has_sums, *_ = node.state
    q, k, v, *more = node.inputs
    if has_sums:
        raise ValueError("attention that returns its logsumexp has no op")
    sinks = more.pop() if has_sinks else None
    heads, groups = q.form.shape[1], k.form.shape[1]
    if not groups or heads % groups:
        raise ValueError(f"{heads} heads for {groups} of keys")
    wide = heads // groups
    q5 = solid(q).reshape(q.shape[0], groups, wide, *q.shape[2:])
    scores = kernels.matmul(kernels.multiply(q5, scale), k[:, :, None].transpose(0, 1, 2, 4, 3))
    scores = kernels.astype(scores, np.float32)
    if is_causal:
        keys, queries = kernels.arange(k.shape[2]), kernels.arange(q.shape[2])
        last = kernels.add(queries, k.shape[2] - q.shape[2])[:, None]
        scores = kernels.where(kernels.less_equal(keys, last), scores, -math.inf)
    elif more:
        mask = kernels.broadcast_to(more[0], (q.shape[0], heads, q.shape[2], k.shape[2]))
        mask = solid(mask).reshape(q.shape[0], groups, wide, q.shape[2], k.shape[2])
        is_choice = mask.dtype == np.bool_
        scores = kernels.where(mask, scores, -math.inf) if is_choice else kernels.add(scores, mask)
    if sinks is not None:
        column = kernels.astype(sinks, np.float32).reshape(1, groups, wide, 1, 1)
        column = kernels.broadcast_to(column, (q.shape[0], groups, wide, q.shape[2], 1))
        scores = kernels.concatenate([column, scores], -1)
    weights = kernels.softmax(scores, -1)
    weights = weights if sinks is None else weights[..., 1:]
    made = kernels.matmul(kernels.astype(weights, v.dtype), v[:, :, None])
    return solid(made).reshape(*q.shape[:-1], v.shape[-1])


def custom_kernel(node: Node) -> Made:
    name, source, grid, threadgroup, shapes, contiguous, init, scalars, precompiled, shared, *mode = node.state
    if precompiled or scalars or shared or "metal_kernel" not in custom_ops:
        raise ValueError("only kernels in Metal's text run")
    if node.shapeless:
        raise ValueError("MLX has no rule for its shape in functions for all shapes")
    options = {"math_mode": pick(("safe", "relaxed", "fast"), mode[0] if mode else 0)}
    op, kind = custom_ops["metal_kernel"]
    definition, template = kernel_of(name, source, shapes)
    kernel = kind.defined(definition | {"compile_options": options}, {})
    return op(
        kernel,
        inputs=list(node.inputs),
        output_shapes=[shape for shape, _ in node.forms],
        output_dtypes=[dtype for _, dtype in node.forms],
        grid=grid,
        threadgroup=threadgroup,
        template=template,
        init_value=init,
        contiguous=bool(contiguous),
    )


TABLE: dict[str, Callable[[Node], Made]] = {
    "Abs": op("abs"),
    "Add": op("add"),
    "AddMM": add_mm,
    "Arange": arange,
    "ArcCosh": arc_cosh,
    "ArcSinh": arc_sinh,
    "ArcTanh": arc_tanh,
    "ArgPartition": lambda node: kernels.argpartition(node.x, *node.state),
    "ArgReduce": extreme,
    "ArgSort": lambda node: kernels.argsort(node.x, node.state[0]),
    "AsType": lambda node: kernels.astype(node.x, node.state[0]),
    "BitwiseBinary": choice("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"),
    "Broadcast": broadcast,
    "BroadcastAxes": broadcast_axes,
    "Ceil": op("ceil"),
    "Concatenate": lambda node: kernels.concatenate(node.inputs, node.state[0]),
    "Copy": lambda node: node.x,
    "Cos": op("cos"),
    "Cosh": cosh,
    "CustomKernel": custom_kernel,
    "Depends": lambda node: node.inputs[: len(node.forms)],
    "DivMod": lambda node: [kernels.floor_divide(*node.inputs), kernels.remainder(*node.inputs)],
    "Divide": op("divide"),
    "DynamicSlice": dynamic_slice,
    "DynamicSliceUpdate": dynamic_slice_update,
    "Equal": equal,
    "Erf": op("erf"),
    "ErfInv": op("erfinv"),
    "Exp": op("exp"),
    "ExpandDims": expanded,
    "Expm1": op("expm1"),
    "Flatten": flattened,
    "Floor": op("floor"),
    "FloorDivide": op("floor_divide"),
    "Full": filled,
    "Gather": gathered,
    "GatherAxis": lambda node: kernels.take_along_axis(node.x, node.inputs[1], node.state[0]),
    "GatherMM": gather_mm,
    "GatherQMM": gather_qmm,
    "Greater": op("greater"),
    "GreaterEqual": op("greater_equal"),
    "LayerNorm": layer_norm,
    "Less": op("less"),
    "LessEqual": op("less_equal"),
    "Log": choice("log2", "log10", "log"),
    "Log1p": op("log1p"),
    "LogAddExp": op("logaddexp"),
    "LogSumExp": lambda node: kernels.logsumexp(node.x, -1, True),
    "LogicalAnd": op("logical_and"),
    "LogicalNot": op("logical_not"),
    "LogicalOr": op("logical_or"),
    "Matmul": op("matmul"),
    "Maximum": op("maximum"),
    "Minimum": op("minimum"),
    "Multiply": op("multiply"),
    "Negative": op("negative"),
    "NotEqual": op("not_equal"),
    "NumberOfElements": number_of_elements,
    "Pad": padded,
    "Partition": lambda node: kernels.partition(node.x, *node.state),
    "Power": op("power"),
    "Quantize": quantize,
    "QuantizedMatmul": quantized_matmul,
    "RMSNorm": rms_norm,
    "RandomBits": random_bits,
    "Reduce": reduced,
    "Remainder": op("remainder"),
    "Reshape": lambda node: solid(node.x).reshape(tuple(node.state[0])),
    "RoPE": rope,
    "Round": op("round"),
    "ScaledDotProductAttention": attention,
    "Scan": scanned,
    "Scatter": scattered,
    "ScatterAxis": scattered_along,
    "Select": op("where"),
    "Sigmoid": op("sigmoid"),
    "Sign": op("sign"),
    "Sin": op("sin"),
    "Sinh": sinh,
    "Slice": sliced,
    "SliceUpdate": slice_updated,
    "Softmax": lambda node: kernels.softmax(node.x, -1),
    "Sort": lambda node: kernels.sort(node.x, node.state[0]),
    "Split": split,
    "Sqrt": choice("sqrt", "rsqrt"),
    "Square": op("square"),
    "Squeeze": squeezed,
    "StopGradient": lambda node: node.x,
    "Subtract": op("subtract"),
    "Tan": tan,
    "Tanh": op("tanh"),
    "Transpose": lambda node: node.x.transpose(*axes_of(node, node.state[0])),
    "Unflatten": unflattened,
    "View": viewed,
}
