"""What ops of ours are in MLX's primitives: a table of functions, which add them to a `TapeWriter`.

A function is given the tape and a `Call`, and returns the array that the op makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hiprt.array import Array, dtype_of
from hiprt.graphs.export.mlxfn.layout import MODES
from hiprt.graphs.export.mlxfn.tape_writer import DType, Ref, Shape, TapeWriter, refuse
from hiprt.graphs.trace.core import Primitive
from hiprt.graphs.trace.size import Size
from hiprt.kernels.ops.elementwise.expression import joint_dtypes
from hiprt.kernels.ops.elementwise.result_dtypes import number

__all__ = ["add"]

BOOL, INT32, UINT32, FLOAT32 = (np.dtype(each) for each in (np.bool_, np.int32, np.uint32, np.float32))
GPU_STREAM = (-1, 1, 0)  # any stream of the GPU
# How MLX names what becomes of what is there: of slices that are scattered, or of values along an axis.
ADDED, REPLACED, ALONG = 2, 4, 1
MATH_MODES = ("safe", "relaxed", "fast")


@dataclass(frozen=True)
class Call:
    """A call of an op.

    Attributes
    ----------
    primitive : Primitive
    given : dict
        The arguments by name; arrays are those of the tape.
    shape, dtype
        Those of the result.
    """

    primitive: Primitive
    given: dict[str, Any]
    shape: Shape
    dtype: DType

    @property
    def x(self) -> Ref:
        """The first argument."""
        first: Ref = next(iter(self.given.values()))
        return first


def add(tape: TapeWriter, primitive: Primitive, found: dict[int, Ref]) -> None:
    """Add what an op of ours is in MLX's primitives, and note what it makes.

    Raises
    ------
    ValueError
        MLX has no primitives for it.
    """
    op = primitive.op
    assert op is not None

    def read(part: Any) -> Any:
        if isinstance(part, Array):
            return tape.constant(part) if part.primitive is None else found[part.number]
        if isinstance(part, (list, tuple)):
            return type(part)(map(read, part))
        if type(part) is Size:
            refuse("it depends on a size, which MLX's files have as a number")
        return part

    try:
        if op.name not in TABLE and op.name != "metal_kernel":
            refuse("no primitive of MLX's does it")
        if primitive.rule[2]:
            refuse("it writes in place")
        if op.name == "metal_kernel":
            for i, each in enumerate(custom_kernel(tape, primitive, read)):
                found[primitive.number + i] = each
            return
        if len(primitive.rule[1]) != 1:
            refuse("it makes several arrays")
        pattern = primitive.rule[1][0][0]
        assert pattern is not None
        given = {name: read(value) for name, value in zip(op.names, primitive.arguments)}
        if given.pop("out", None) is not None:
            refuse("it writes in place")
        made = TABLE[op.name](tape, Call(primitive, given, pattern.form.shape, pattern.dtype))
        if made.shape != pattern.form.shape or made.dtype != pattern.dtype:
            refuse(f"MLX makes {made.dtype}{list(made.shape)} of it, not {pattern.dtype}{list(pattern.form.shape)}")
    except ValueError as error:
        raise ValueError(
            f"[export_function] {op.name} cannot be written as MLX's primitives: {error}. A file whose name does not "
            "end in .mlxfn holds it."
        ) from None
    found[primitive.number] = made


def custom_kernel(tape: TapeWriter, primitive: Primitive, read: Callable[[Any], Any]) -> list[Ref]:
    """Add a call of a `metal_kernel`, whose whole generated text is in the file."""
    if tape.is_general:
        refuse("MLX has no rule for its shape in functions for all shapes")
    assert primitive.op is not None
    given = dict(zip(primitive.op.names, primitive.arguments))
    kernel = given.pop("kernel")
    call = kernel.generated(given)
    inputs = [tape.constant(x) if isinstance(x, np.ndarray) else read(x) for x in call.inputs]
    state = [
        *(call.name, call.text, call.grid, call.threadgroup, call.details, given["contiguous"], call.init_value),
        *([], False, 0, MATH_MODES.index(kernel.math_mode)),
    ]
    forms = [(pattern.form.shape, pattern.dtype) for pattern, _, _ in primitive.rule[1] if pattern is not None]
    return tape.add_several("CustomKernel", inputs, state, forms, GPU_STREAM)


def axes_of(axis: Any, ndim: int) -> list[int]:
    """Return axes that are given as one, several, or all by None."""
    axes = range(ndim) if axis is None else [axis] if isinstance(axis, (int, np.integer)) else axis
    return sorted(int(each) % ndim for each in axes)


def operands(tape: TapeWriter, call: Call, names: Sequence[str], rule: Any = None) -> tuple[list[Ref], DType]:
    """Return operands, which may be numbers, in the dtype that the op computes in, and that of the result."""
    values = [call.given[name] for name in names]
    kinds = [each.dtype if isinstance(each, Ref) else type(each) for each in values]
    assert call.primitive.op is not None
    # An op that is a function of its own has the rule of numbers.
    common, dtype = joint_dtypes(rule or getattr(call.primitive.op.declared, "rule", number), kinds)
    made = [tape.cast(each, to) if isinstance(each, Ref) else tape.number(each, to) for each, to in zip(values, common)]
    return made, dtype


def unary(name: str, *state: Any) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds a primitive of one array."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        (x,), dtype = operands(tape, call, ["a"])
        return tape.add(name, [x], state, x.shape, dtype)

    return added


def binary(name: str, *state: Any) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds a primitive of two arrays."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        pair, dtype = operands(tape, call, ["a", "b"])
        return tape.apply(name, pair, dtype, *state)

    return added


def reciprocal(tape: TapeWriter, call: Call) -> Ref:
    (x,), dtype = operands(tape, call, ["a"])
    return tape.apply("Divide", [tape.number(1, dtype), x], dtype)


def isnan(tape: TapeWriter, call: Call) -> Ref:
    return tape.add("NotEqual", [call.x, call.x], [], call.x.shape, BOOL)


def silu(tape: TapeWriter, call: Call) -> Ref:
    (x,), dtype = operands(tape, call, ["a"])
    return tape.apply("Multiply", [x, tape.add("Sigmoid", [x], [], x.shape, dtype)], dtype)


def where(tape: TapeWriter, call: Call) -> Ref:
    values, dtype = operands(tape, call, ["x", "y"], lambda dtype: (dtype, dtype))
    return tape.apply("Select", [tape.cast(call.given["condition"], BOOL), *values], dtype)


def clip(tape: TapeWriter, call: Call) -> Ref:
    made = call.x
    for name, primitive in (("a_min", "Maximum"), ("a_max", "Minimum")):
        bound = call.given[name]
        if bound is not None:
            bound = tape.cast(bound, call.dtype) if isinstance(bound, Ref) else tape.number(bound, call.dtype)
            made = tape.apply(primitive, [tape.cast(made, call.dtype), bound], call.dtype)
    return made


def getitem(tape: TapeWriter, call: Call) -> Ref:
    index = call.given["index"]
    items = list(index) if isinstance(index, tuple) else [index]
    x = call.x
    if any(item is ... for item in items):
        at = next(i for i, item in enumerate(items) if item is ...)
        rest = len(x.shape) - sum(item is not None and item is not ... for item in items)
        items[at : at + 1] = [slice(None)] * rest
    starts: list[int] = []
    strides: list[int] = []
    counts: list[int] = []
    gone: list[int] = []
    new: list[int] = []
    for item in items:
        axis = len(starts)
        if item is None:
            new.append(axis + len(new) - len(gone))
            continue
        n = x.shape[axis]
        if isinstance(item, slice):
            start, stop, stride = item.indices(n)
            starts.append(start)
            strides.append(stride)
            counts.append(len(range(start, stop, stride)))
        else:
            starts.append(int(item) % n)
            strides.append(1)
            counts.append(1)
            gone.append(axis)
    for n in x.shape[len(starts) :]:
        starts.append(0)
        strides.append(1)
        counts.append(n)
    if tuple(counts) != x.shape or any(stride != 1 for stride in strides):
        if tape.is_general:
            refuse("MLX has no rule for slices of all shapes")
        ends = [start + stride * count for start, stride, count in zip(starts, strides, counts)]
        # Of a reversed axis MLX's stop is before the first place, counted from the end.
        ends = [end if end >= 0 else end - n for end, n in zip(ends, x.shape)]
        x = tape.add("Slice", [x], [starts, ends, strides], counts, x.dtype)
    x = tape.squeeze(x, gone)
    if new:
        shape = list(x.shape)
        for axis in new:
            shape.insert(axis, 1)
        x = tape.add("ExpandDims", [x], [new], shape, x.dtype)
    return x


def transposed(tape: TapeWriter, call: Call) -> Ref:
    return tape.transpose(call.x, call.given["axes"] or range(len(call.x.shape))[::-1])


def reshaped(tape: TapeWriter, call: Call) -> Ref:
    return tape.reshape(call.x, call.shape)


def viewed(tape: TapeWriter, call: Call) -> Ref:
    dtype = dtype_of(call.given["dtype"])
    return tape.add("View", [call.x], [dtype], call.x.shape, dtype)


def broadcast(tape: TapeWriter, call: Call) -> Ref:
    return tape.broadcast(call.x, call.shape)


def concatenate(tape: TapeWriter, call: Call) -> Ref:
    arrays = [tape.cast(each, call.dtype) for each in call.given["arrays"]]
    return tape.add("Concatenate", arrays, [call.given["axis"] % len(call.shape)], call.shape, call.dtype)


def reduction(kind: int, to_bool: bool = False) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds a reduction."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        x, axis = tape.cast(call.x, BOOL if to_bool else call.dtype), call.given["axis"]
        return tape.reduce(kind, x, axes_of(axis, len(x.shape)), call.given["keepdims"])

    return added


def mean(tape: TapeWriter, call: Call) -> Ref:
    axes = axes_of(call.given["axis"], len(call.x.shape))
    if tape.is_general:
        refuse("it divides by a size, which MLX's files have as a number")
    total = tape.reduce(2, tape.cast(call.x, FLOAT32), axes, call.given["keepdims"])
    count = tape.number(math.prod(call.x.shape[i] for i in axes), FLOAT32)
    return tape.cast(tape.apply("Divide", [total, count], FLOAT32), call.dtype)


def at_the_end(tape: TapeWriter, x: Ref, axis: int) -> tuple[Ref, list[int]]:
    """Return an array with an axis as its last, and the order of axes, which undoes itself."""
    order = list(range(len(x.shape)))
    order[axis], order[-1] = order[-1], order[axis]
    return tape.transpose(x, order), order


def softmax(tape: TapeWriter, call: Call) -> Ref:
    x, order = at_the_end(tape, tape.cast(call.x, call.dtype), call.given["axis"] % len(call.shape))
    return tape.transpose(tape.add("Softmax", [x], [True], x.shape, x.dtype), order)


def logsumexp(tape: TapeWriter, call: Call) -> Ref:
    axes = axes_of(call.given["axis"], len(call.x.shape))
    if len(axes) != 1:
        refuse("MLX has it along one axis")
    x, order = at_the_end(tape, tape.cast(call.x, call.dtype), axes[0])
    made = tape.add("LogSumExp", [x], [], [*x.shape[:-1], 1], x.dtype)
    made = tape.transpose(made, order)
    return made if call.given["keepdims"] else tape.squeeze(made, axes)


def flat(tape: TapeWriter, call: Call) -> tuple[Ref, int]:
    """Return the first argument and the axis that is given, None for the whole as one row."""
    axis = next(value for name, value in call.given.items() if name == "axis")
    if axis is None:
        return tape.reshape(call.x, [math.prod(call.x.shape)]), 0
    return call.x, axis % len(call.x.shape)


def along(name: str, dtype: DType | None = None) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds a primitive that orders an axis."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        x, axis = flat(tape, call)
        return tape.cast(tape.add(name, [x], [axis], x.shape, dtype or x.dtype), call.dtype)

    return added


def cumsum(tape: TapeWriter, call: Call) -> Ref:
    x, axis = flat(tape, call)
    state = [2, axis, call.given["reverse"], call.given["inclusive"]]
    return tape.add("Scan", [tape.cast(x, call.dtype)], state, x.shape, call.dtype)


def place(kind: int) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds the place of an extreme value."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        x, axis = flat(tape, call)
        shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
        made = tape.add("ArgReduce", [x], [kind, axis], shape, UINT32)
        return tape.cast(made if call.given["keepdims"] else tape.squeeze(made, [axis]), call.dtype)

    return added


def matmul(tape: TapeWriter, call: Call) -> Ref:
    a, b = (tape.cast(call.given[name], call.dtype) for name in ("a", "b"))
    gone = []
    if len(a.shape) == 1:
        a = tape.add("ExpandDims", [a], [[0]], [1, *a.shape], a.dtype)
        gone.append(-2)
    if len(b.shape) == 1:
        b = tape.add("ExpandDims", [b], [[1]], [*b.shape, 1], b.dtype)
        gone.append(-1)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    pair = (a, b)
    if len(batch) and (a.shape[:-2] != b.shape[:-2] or tape.is_general):
        if tape.is_general:
            refuse("it broadcasts products of all shapes")
        a, b = (tape.broadcast(each, (*batch, *each.shape[-2:])) for each in pair)
    made = tape.add("Matmul", [a, b], [], [*batch, a.shape[-2], b.shape[-1]], a.dtype)
    return tape.squeeze(made, sorted(len(made.shape) + axis for axis in gone))


def take(tape: TapeWriter, call: Call) -> Ref:
    x, axis = flat(tape, call)
    indices = call.given["indices"]
    if tape.is_general:
        refuse("MLX has slices of all other axes as numbers in the file")
    sizes = [1 if i == axis else n for i, n in enumerate(x.shape)]
    count = len(indices.shape)
    made = tape.add("Gather", [x, indices], [[axis], sizes], [*indices.shape, *sizes], x.dtype)
    made = tape.squeeze(made, [count + axis])
    order = [*range(count, count + axis), *range(count), *range(count + axis, len(made.shape))]
    return tape.transpose(made, order)


def take_along_axis(tape: TapeWriter, call: Call) -> Ref:
    axis = call.given["axis"] % len(call.x.shape)
    indices = tape.broadcast(call.given["indices"], call.shape)
    return tape.add("GatherAxis", [call.x, indices], [axis], call.shape, call.x.dtype)


def put_along_axis(tape: TapeWriter, call: Call) -> Ref:
    axis, indices = call.given["axis"] % len(call.shape), call.given["indices"]
    shape = (*call.shape[:axis], indices.shape[axis], *call.shape[axis + 1 :])
    values = tape.cast(call.given["values"], call.dtype)
    inputs = [call.x, tape.broadcast(indices, shape), tape.broadcast(values, shape)]
    return tape.add("ScatterAxis", inputs, [ALONG, axis], call.shape, call.dtype)


def scattered(kind: int) -> Callable[[TapeWriter, Call], Ref]:
    """Return what adds updates of whole slices along an axis."""

    def added(tape: TapeWriter, call: Call) -> Ref:
        axis, indices = call.given["axis"] % len(call.shape), call.given["indices"]
        if tape.is_general:
            refuse("MLX has the slices of all other axes as numbers in the file")
        taken = (*call.shape[:axis], *indices.shape, *call.shape[axis + 1 :])
        updates = tape.broadcast(tape.cast(call.given["updates"], call.dtype), taken)
        count = len(indices.shape)
        order = [*range(axis, axis + count), *range(axis), *range(axis + count, len(updates.shape))]
        shape = [*indices.shape, *(1 if i == axis else n for i, n in enumerate(call.shape))]
        slices = tape.reshape(tape.transpose(updates, order), shape)
        return tape.add("Scatter", [call.x, indices, slices], [kind, [axis]], call.shape, call.dtype)

    return added


def assign(tape: TapeWriter, call: Call) -> Ref:
    index, x = call.given["index"], call.x
    if tape.is_general or not isinstance(index, tuple) or not all(isinstance(item, slice) for item in index):
        refuse("its part is not made of slices of a known shape")
    taken = [item.indices(n) for item, n in zip((*index, *[slice(None)] * len(x.shape)), x.shape)]
    if any(stride < 0 for _, _, stride in taken):
        refuse("its part is reversed")
    starts, ends, strides = (list(each) for each in zip(*taken))
    counts = tuple(len(range(*each)) for each in taken)
    update = tape.broadcast(tape.cast(call.given["update"], call.dtype), counts)
    return tape.add("SliceUpdate", [x, update], [REPLACED, starts, ends, strides], call.shape, call.dtype)


def random_bits(tape: TapeWriter, call: Call) -> Ref:
    return tape.add("RandomBits", [call.x], [call.shape, UINT32.itemsize], call.shape, UINT32)


def arange(tape: TapeWriter, call: Call) -> Ref:
    start, stop, step = (call.given[name] for name in ("start", "stop", "step"))
    first, last = (0, start) if stop is None else (start, stop)
    return tape.add("Arange", [], [float(first), float(last), float(step)], call.shape, call.dtype)


def full(tape: TapeWriter, call: Call) -> Ref:
    value = call.given.get("value", 0)
    if isinstance(value, (list, np.ndarray)):
        return tape.constant(np.full(call.shape, np.asarray(value, call.dtype)))
    return tape.broadcast(tape.number(value, call.dtype), call.shape)


def rms_norm(tape: TapeWriter, call: Call) -> Ref:
    return normalised(tape, call, tape.cast(call.x, FLOAT32), ["weight"])


def layer_norm(tape: TapeWriter, call: Call) -> Ref:
    x = tape.cast(call.x, FLOAT32)
    middle = mean_of_row(tape, x)
    return normalised(tape, call, tape.apply("Subtract", [x, middle], FLOAT32), ["weight", "bias"])


def mean_of_row(tape: TapeWriter, x: Ref) -> Ref:
    """Return the mean along the last axis, which stays."""
    if tape.is_general:
        refuse("it divides by a size, which MLX's files have as a number")
    total = tape.reduce(2, x, [len(x.shape) - 1], True)
    return tape.apply("Divide", [total, tape.number(x.shape[-1], FLOAT32)], FLOAT32)


def normalised(tape: TapeWriter, call: Call, x: Ref, names: Sequence[str]) -> Ref:
    """Return rows over the root of the mean of their squares, with weight and bias."""
    squares = mean_of_row(tape, tape.add("Square", [x], [], x.shape, FLOAT32))
    steady = tape.apply("Add", [squares, tape.number(call.given["eps"], FLOAT32)], FLOAT32)
    made = tape.apply("Multiply", [x, tape.add("Sqrt", [steady], [True], steady.shape, FLOAT32)], FLOAT32)
    for name, primitive in zip(names, ("Multiply", "Add")):
        if call.given[name] is not None:
            made = tape.apply(primitive, [made, tape.cast(call.given[name], FLOAT32)], FLOAT32)
    return tape.cast(made, call.dtype)


def silu_mul(tape: TapeWriter, call: Call) -> Ref:
    gate, up = (tape.cast(each, FLOAT32) for each in call.given.values())
    silu = tape.apply("Multiply", [gate, tape.add("Sigmoid", [gate], [], gate.shape, FLOAT32)], FLOAT32)
    return tape.cast(tape.apply("Multiply", [silu, up], FLOAT32), call.dtype)


def quantized_operands(tape: TapeWriter, call: Call) -> tuple[list[Ref], list[Any]]:
    """Return the vectors and the parts of the matrices, and what says their format."""
    given = call.given
    if given["mode"] not in MODES or given["group_size"] is None or given["bits"] is None:
        refuse("its format is not given by group_size and bits")
    matrices = [given[name] for name in ("w", "scales", "biases") if given[name] is not None]
    matrices = [matrices[0], *(tape.cast(each, call.dtype) for each in matrices[1:])]
    state = [given["group_size"], given["bits"], MODES.index(given["mode"]), given["transpose"]]
    return [tape.cast(call.x, call.dtype), *matrices], state


def quantized_matmul(tape: TapeWriter, call: Call) -> Ref:
    inputs, state = quantized_operands(tape, call)
    return tape.add("QuantizedMatmul", inputs, state, call.shape, call.dtype)


def gather_qmm(tape: TapeWriter, call: Call) -> Ref:
    """MLX's primitive takes both kinds of indices, of one shape; one that is not given counts the matrices."""
    inputs, state = quantized_operands(tape, call)
    indices = []
    for name, stack in (("lhs_indices", call.x), ("rhs_indices", call.given["w"])):
        chosen, lead = call.given[name], stack.shape[:-2]
        if chosen is None:
            if tape.is_general:
                refuse("the number of its matrices is a number in the file")
            count = math.prod(lead)
            chosen = tape.reshape(tape.add("Arange", [], [0.0, float(count), 1.0], (count,), UINT32), lead)
        indices.append(tape.cast(chosen, UINT32))
    shape = np.broadcast_shapes(*(each.shape for each in indices))
    inputs += [tape.broadcast(each, shape, indices) for each in indices]
    return tape.add("GatherQMM", inputs, [*state, False, call.given["sorted_indices"]], call.shape, call.dtype)


def same(tape: TapeWriter, call: Call) -> Ref:
    return call.x


TABLE: dict[str, Callable[[TapeWriter, Call], Ref]] = {
    **{
        name.lower(): unary(name)
        for name in ("Abs", "Ceil", "Cos", "Erf", "ErfInv", "Exp", "Expm1", "Floor", "Log1p", "Negative", "Round")
    },
    **{name.lower(): unary(name) for name in ("Sigmoid", "Sign", "Sin", "Square", "Tanh")},
    **{name.lower(): binary(name) for name in ("Add", "Divide", "Greater", "Less", "Maximum", "Minimum", "Multiply")},
    **{name.lower(): binary(name) for name in ("LogAddExp", "Power", "Remainder", "Subtract")},
    "all": reduction(0, to_bool=True),
    "any": reduction(1, to_bool=True),
    "arange": arange,
    "argmax": place(1),
    "argmin": place(0),
    "argsort": along("ArgSort", UINT32),
    "assign": assign,
    "astype": lambda tape, call: tape.cast(call.x, call.dtype),
    "bitwise_and": binary("BitwiseBinary", 0),
    "bitwise_or": binary("BitwiseBinary", 1),
    "bitwise_xor": binary("BitwiseBinary", 2),
    "broadcast_to": broadcast,
    "clip": clip,
    "concatenate": concatenate,
    "contiguous": same,
    "copy": same,
    "cumsum": cumsum,
    "equal": binary("Equal", False),
    "floor_divide": binary("FloorDivide"),
    "full": full,
    "getitem": getitem,
    "gather_qmm": gather_qmm,
    "greater_equal": binary("GreaterEqual"),
    "isnan": isnan,
    "layer_norm": layer_norm,
    "left_shift": binary("BitwiseBinary", 3),
    "less_equal": binary("LessEqual"),
    "log": unary("Log", 2),
    "log10": unary("Log", 1),
    "log2": unary("Log", 0),
    "logical_and": binary("LogicalAnd"),
    "logical_not": unary("LogicalNot"),
    "logical_or": binary("LogicalOr"),
    "logsumexp": logsumexp,
    "matmul": matmul,
    "max": reduction(5),
    "mean": mean,
    "min": reduction(4),
    "not_equal": binary("NotEqual"),
    "prod": reduction(3),
    "put_along_axis": put_along_axis,
    "quantized_matmul": quantized_matmul,
    "random_bits": random_bits,
    "reciprocal": reciprocal,
    "reshape": reshaped,
    "right_shift": binary("BitwiseBinary", 4),
    "rms_norm": rms_norm,
    "rsqrt": unary("Sqrt", True),
    "scatter": scattered(REPLACED),
    "scatter_add": scattered(ADDED),
    "silu": silu,
    "silu_mul": silu_mul,
    "softmax": softmax,
    "sort": along("Sort"),
    "sqrt": unary("Sqrt", False),
    "sum": reduction(2),
    "take": take,
    "take_along_axis": take_along_axis,
    "transpose": transposed,
    "view": viewed,
    "where": where,
    "zeros": full,
}
