"""Expressions: elementwise kernels generated from C++ text, for operands of any dtypes, shapes and strides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from hiprt.array import Array, Form as ArrayForm, make, row_strides
from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import LARGEST, result
from hiprt.kernels.ops.broadcasting import broadcast_shapes, broadcast_to, layout_of, spread_strides
from hiprt.kernels.ops.elementwise.fused_kernel import STILL, UNIT, Load, Store, Value, fused_kernel
from hiprt.kernels.ops.elementwise.headers import headers_of
from hiprt.kernels.ops.promotion import BOOL, WORDS, as_number, is_complex, is_float, promote, strided, weak
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.stream import Stream, current_stream

__all__ = [
    "Expression",
    "Operand",
    "apply",
    "evaluate",
    "given",
    "joint_dtypes",
    "number_word",
    "strides_of",
]

DType = np.dtype[Any]
Operand = Array | float
Given = ArrayForm | type[float]  # an array, or a Python number
NAMES = "abc"
OPERANDS = tuple(f"{name}_in" for name in NAMES)  # as kernels name them
THREADS = 256
MOST_AXES = 6
LARGE = 1 << 16  # elements for which a kernel with wide loads is worth its compilation
RUN_BYTES, MOST_RUN = 16, 8  # what a thread loads at once, and elements of that


@dataclass(frozen=True)
class Expression:
    """The computation of an op for one element.

    Attributes
    ----------
    name : str
        The op's name.
    text : str
        The C++ expression of the operands ``a``, ``b`` and ``c``.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Form:
    """The properties of the operands and the result that a kernel's text depends on.

    Attributes
    ----------
    words : tuple of str
        The type of each operand in memory.
    common : tuple of str
        The dtype that each operand is converted to before it is used.
    out : str
        The result's dtype.
    numbers : tuple of bool
        Whether each operand is a Python number.
    axes : int
        The number of axes that are walked; 0 where operands are walked element by element.
    still : tuple of bool
        Whether each operand stays at one element, where `axes` is 0.
    is_whole : bool
        Whether the result has no gaps between its first and its last element.
    """

    words: tuple[str, ...]
    common: tuple[str, ...]
    out: str
    numbers: tuple[bool, ...]
    axes: int
    still: tuple[bool, ...]
    is_whole: bool


@cache
def kernel_of(expression: Expression, form: Form) -> Kernel:
    """Return the kernel of an expression."""
    names = NAMES[: len(form.words)]
    arrays = {f"{name}_in": word for name, word, number in zip(names, form.words, form.numbers) if not number}
    scalars = {f"{name}_in": word for name, word, number in zip(names, form.words, form.numbers) if number}
    scalars["size"] = "uint"
    scalars |= {f"n{axis}": "uint" for axis in range(1, form.axes)}
    walked = [name for name in names if f"{name}_in" in arrays] + ["out"]
    scalars |= {f"{name}_{axis}": "int" for axis in range(form.axes) for name in walked}
    lines = ["uint i = thread_position_in_grid.x;", "if (i >= size) return;", *places(form, walked)]
    for name, common, number, still in zip(names, form.common, form.numbers, form.still):
        value = f"{name}_in" if number else f"{name}_in[{'0' if still else f'{name}_at' if form.axes else 'i'}]"
        wide = "float" if common in ("half", "bfloat16_t") else common
        lines.append(f"{wide} {name} = {wide}({common}({value}));")
    lines.append(f"out[{'out_at' if form.axes else 'i'}] = {form.out}({expression.text});")
    words = [*form.words, *form.common, form.out]
    shape = f"{form.axes}" + "".join("s" if still else "" for still in form.still)
    written = {"out": form.out}
    # Operands that are walked by axes may be the result only for some strides, which the op checks.
    moving = [f"{name}_in" for name, number, still in zip(names, form.numbers, form.still) if not (number or still)]
    return Kernel(
        "_".join([expression.name, *words, shape, *("n" for number in form.numbers if number)]),
        inputs=arrays,
        updates=None if form.is_whole else written,
        outputs=written if form.is_whole else None,
        scalars=scalars,
        headers=headers_of(words),
        aliasing={"out": moving if form.is_whole and not form.axes else ()},
        source="\n".join(lines),
    )


def places(form: Form, walked: Sequence[str]) -> list[str]:
    """Return the lines that find the place of element i in each array."""
    if not form.axes:
        return []
    lines = ["uint rest = i;"]
    for axis in range(form.axes - 1, 0, -1):
        lines += [f"int c{axis} = int(rest % n{axis});", f"rest /= n{axis};"]
    lines.append("int c0 = int(rest);")
    for name in walked:
        terms = " + ".join(f"c{axis} * {name}_{axis}" for axis in range(form.axes))
        lines.append(f"int {name}_at = {terms};")
    return lines


def evaluate(
    expression: Expression,
    operands: Sequence[Operand],
    common: tuple[DType, ...],
    out: Array,
    stream: Stream,
    *,
    is_whole: bool = True,
) -> None:
    """Compute an expression of operands that broadcast to the shape of `out`, and write it there.

    Parameters
    ----------
    expression : Expression
    operands : sequence of Array or number
    common : tuple of dtype
        The dtype that each operand is converted to before it is used.
    out : Array
        The result, of any strides.
    stream : Stream
    is_whole : bool
        Whether everything within the extent of `out` is written. Otherwise the elements in its gaps stay.
    """
    if not out.size:
        return
    if stream.written is not None and not stream.plans_launches:
        stream.written.append(out)
        return
    kinds = tuple(map(given, operands))
    wide = (
        wide_launch_of(expression, common, out, target_of(stream), *kinds) if is_whole and out.size >= LARGE else None
    )
    if wide is not None:
        wide(stream, out0=out, **{f"x{i}": value for i, value in enumerate(operands)})
        return
    launch = launch_of(expression, common, out, is_whole, *kinds)
    if launch is not None:
        launch(stream, out=out, **dict(zip(OPERANDS, operands)))
    else:
        views = [broadcast_to(v, out.shape) if isinstance(v, Array) else v for v in operands]
        for at in range(out.shape[0]):
            parts = [v[at] if isinstance(v, Array) else v for v in views]
            evaluate(expression, parts, common, out[at], stream, is_whole=is_whole)


def given(operand: Operand) -> Any:
    """Return the part of an operand that a plan depends on: an array, whose form counts, or the type of a number."""
    return operand if isinstance(operand, Array) else type(operand)


@Planned
def wide_launch_of(
    expression: Expression, common: tuple[DType, ...], out: ArrayForm, target: Target, *operands: Given
) -> Launch | None:
    """Return the launch of a kernel whose threads load several elements at once; None where arrays do not lie so."""
    arrays = [v for v in operands if isinstance(v, ArrayForm)]
    strides = [spread_strides(v.shape, strides_of(v), out.shape) for v in arrays]
    layout = layout_of(out.shape, [*strides, strides_of(out)])
    if not layout.is_flat or layout.strides[-1] != (UNIT,) or any(is_complex(v.dtype) for v in (out, *arrays)):
        return None
    steps = iter(layout.strides)
    loads = tuple(
        Load(WORDS[v.dtype], False, next(steps)[0]) if isinstance(v, ArrayForm) else Load(number_word(v), True, STILL)
        for v in operands
    )
    walked = [out, *(v for v, step in zip(arrays, layout.strides) if step[0] == UNIT)]
    run = min(MOST_RUN, RUN_BYTES // max(v.dtype.itemsize for v in walked))
    # An operand of another dtype may be the result, if its elements are as wide; the kernel's text does not allow it.
    is_retyped = any(v.dtype != out.dtype and v.dtype.itemsize == out.dtype.itemsize for v in walked)
    size = math.prod(out.shape)
    if size > LARGEST or size % run or is_retyped or not all(v.is_aligned for v in walked):
        return None
    value = Value(
        expression.name, expression.text, tuple(range(len(loads))), tuple(WORDS[d] for d in common), WORDS[out.dtype]
    )
    kernel = fused_kernel(loads, (value,), (Store(len(loads), WORDS[out.dtype]),), 0, run)
    stretch = target.table.loop_elements
    grid, threads = (-(-size // stretch), 1) if target.takes_loops else (-(-size // (THREADS * run)), THREADS)
    return Launch(kernel, (grid, 1, 1), (threads, 1, 1), size=size, stretch=stretch)


@Planned
def launch_of(
    expression: Expression, common: tuple[DType, ...], out: ArrayForm, is_whole: bool, *operands: Given
) -> Launch | None:
    """Return the launch, which gets its operands at a call; None where there are too many axes."""
    shape = out.shape
    arrays = [v for v in operands if isinstance(v, ArrayForm)]
    strides = [spread_strides(v.shape, strides_of(v), shape) for v in arrays]
    layout = layout_of(shape, [*strides, strides_of(out)])
    if len(layout.shape) > MOST_AXES:
        return None
    numbers = tuple(not isinstance(v, ArrayForm) for v in operands)
    flat = layout.is_flat and (not layout.shape or layout.strides[-1][0] == 1)
    axes = 0 if flat else len(layout.shape)
    steps = iter(layout.strides)
    still = tuple(not number and flat and not sum(next(steps)) for number in numbers)
    words = tuple(WORDS[v.dtype] if isinstance(v, ArrayForm) else number_word(v) for v in operands)
    form = Form(words, tuple(WORDS[d] for d in common), WORDS[out.dtype], numbers, axes, still, is_whole)
    walked = [name for name, number in zip(NAMES, numbers) if not number] + ["out"]
    size = math.prod(shape)
    scalars = {"size": size} | {f"n{axis}": layout.shape[axis] for axis in range(1, axes)}
    for name, steps_of in zip(walked, layout.strides):
        scalars |= {f"{name}_{axis}": steps_of[axis] for axis in range(axes)}
    return Launch(kernel_of(expression, form), (-(-size // THREADS), 1, 1), (THREADS, 1, 1), **scalars)


def strides_of(array: ArrayForm) -> tuple[int, ...]:
    """Return the strides of an array."""
    return row_strides(array.shape) if array.strides is None else array.strides


def number_word(number: type[float]) -> str:
    """Return the word of a Python number's type."""
    return "float" if issubclass(number, float) else "int"


def apply(
    expression: Expression,
    names: Sequence[str],
    operands: Sequence[Operand],
    rule: Callable[[DType], tuple[DType, DType]],
    stream: Stream | None,
    out: Array | None,
) -> Array:
    """Return an expression of operands that are promoted together.

    Parameters
    ----------
    expression : Expression
    names : sequence of str
        The names that the op gives the operands.
    operands : sequence of Array or number
        The operands, of which at least one is an array. A scalar of numpy's counts as a Python number.
    rule : callable
        A function of the promoted dtype that returns the dtype to compute in and the result's. It raises TypeError
        for a dtype that the op does not take.
    stream : Stream or None
    out : Array or None

    Raises
    ------
    TypeError
        No operand is an array, or a dtype is wrong.
    ValueError
        The shapes do not fit, or `out` overlaps an operand that it is not.
    OverflowError
        A Python integer does not fit the dtype.
    """
    op = expression.name
    try:
        kinds = [
            given(v) if isinstance(v, (Array, bool, int, float)) else strided(op, n, v) for n, v in zip(names, operands)
        ]
    except TypeError:
        numbers = [as_number(v) for v in operands]
        if all(number is v for number, v in zip(numbers, operands)):
            raise
        return apply(expression, names, numbers, rule, stream, out)
    common, dtype, shape = joint_of(op, tuple(names), rule, *kinds)
    arrays = [v for v in operands if isinstance(v, Array)]
    if len(arrays) < len(operands):
        for value in operands:
            if not isinstance(value, Array):
                fits(op, value, common[0])
    stream = stream or current_stream()
    out = target(op, out, shape, dtype, stream, arrays)
    evaluate(expression, operands, common, out, stream)
    return out


@Planned
def joint_of(
    op: str, names: tuple[str, ...], rule: Callable[[DType], tuple[DType, DType]], *operands: Given
) -> tuple[tuple[DType, ...], DType, tuple[int, ...]]:
    """Check the operands and return what each is computed in, and the result's dtype and shape."""
    arrays = [strided(op, n, v) for n, v in zip(names, operands) if not isinstance(v, type)]
    if not arrays:
        raise TypeError(f"{op}: no operand is a hiprt.Array")
    common, dtype = joint_dtypes(rule, [v if isinstance(v, type) else v.dtype for v in operands])
    return common, dtype, broadcast_shapes(op, *(v.shape for v in arrays))


def joint_dtypes(
    rule: Callable[[DType], tuple[DType, DType]], kinds: Sequence[DType | type[float]]
) -> tuple[tuple[DType, ...], DType]:
    """Return the dtype that each operand is converted to and the result's, given dtypes and the types of numbers."""
    dtype = promote(*(kind for kind in kinds if not isinstance(kind, type)))
    for kind in kinds:
        if isinstance(kind, type):
            number = next(each for each in (bool, int, float) if issubclass(kind, each))  # an enumeration is one, too
            dtype = weak(number(), dtype)
    computed, made = rule(dtype)
    return (computed,) * len(kinds), made


def target(
    op: str, out: Array | None, shape: tuple[int, ...], dtype: DType, stream: Stream, arrays: Sequence[Array]
) -> Array:
    """Return `out` after checking it, or a new array. `out` may be an operand whose elements lie where its own do."""
    if out is None:
        return make(shape, dtype, stream)
    operands = dict(zip(NAMES, arrays))
    item = dtype.itemsize
    alike = [n for n, v in operands.items() if v.shape == shape and v.is_contiguous and v.dtype.itemsize == item]
    return result(op, out, shape, dtype, stream, operands, alike)


def fits(op: str, number: float, dtype: DType) -> None:
    """Refuse an integer that the dtype or a kernel's argument does not hold."""
    if isinstance(number, float) or is_float(dtype) or is_complex(dtype) or isinstance(number, bool) or dtype == BOOL:
        return
    limits = np.iinfo(dtype)
    if not max(limits.min, -(2**31)) <= number <= min(limits.max, 2**31 - 1):
        raise OverflowError(f"{op}: {number} does not fit {dtype}")
