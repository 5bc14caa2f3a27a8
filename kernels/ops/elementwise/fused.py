"""Several elementwise ops as one: what `hiprt.compile` makes of ops that follow each other."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hiprt.array import Array, Form, dtype_of, make
from hiprt.kernels.lang.launch import Launch
from hiprt.kernels.lang.operands import LARGEST, result
from hiprt.kernels.ops.broadcasting import broadcast_shapes, layout_of, spread_strides
from hiprt.kernels.ops.elementwise import binary, ternary, unary
from hiprt.kernels.ops.elementwise.add import add
from hiprt.kernels.ops.elementwise.binary import Binary
from hiprt.kernels.ops.elementwise.copies import COPY, astype, contiguous, copyto
from hiprt.kernels.ops.elementwise.expression import Expression, given, joint_dtypes, number_word, strides_of
from hiprt.kernels.ops.elementwise.fused_kernel import STILL, UNIT, Load, Store, Value, fused_kernel
from hiprt.kernels.ops.elementwise.result_dtypes import number
from hiprt.kernels.ops.elementwise.silu_mul import silu_mul
from hiprt.kernels.ops.elementwise.unary import Unary
from hiprt.kernels.ops.promotion import BOOL, WORDS, is_complex
from hiprt.kernels.tuning.target import Target, target_of
from hiprt.objects import Planned
from hiprt.op import op
from hiprt.stream import Stream, current_stream

__all__ = ["FUSABLE", "Fusable", "fused"]

DType = np.dtype[Any]
Kind = DType | type[float]  # an array's dtype, or the type of a number
THREADS = 256
MOST_AXES = 6
MOST_RUN = 8
LINE = re.compile(r"(\w+) = (\w+)\(([\w, ]*)\)")


@dataclass(frozen=True)
class Fusable:
    """An op that can be a line of `fused`.

    Attributes
    ----------
    op : callable
        The op itself.
    expression : Expression
    dtypes : callable
        A function of the operands' kinds, and of the dtype that the line names, if any, that returns the dtype that
        each operand is converted to and the result's.
    operands : int
        How many operands it has.
    names_dtype : bool
        Whether a dtype follows the operands.
    """

    op: Callable[..., Any]
    expression: Expression
    dtypes: Callable[[Sequence[Kind], DType | None], tuple[tuple[DType, ...], DType]]
    operands: int
    names_dtype: bool = False


def together(rule: Callable[[DType], tuple[DType, DType]]) -> Any:
    """Return the function of dtypes of an op that promotes its operands together."""
    return lambda kinds, _: joint_dtypes(rule, kinds)


def chosen(kinds: Sequence[Kind], _: DType | None) -> tuple[tuple[DType, ...], DType]:
    """Return the dtypes of ``where``: a condition, and two operands that are promoted together."""
    arrays = [kind for kind in kinds[1:] if not isinstance(kind, type)]
    common, dtype = joint_dtypes(number, kinds[1:] if arrays else [BOOL, *kinds[1:]])
    return (BOOL, common[0], common[0]), dtype


def converted(kinds: Sequence[Kind], dtype: DType | None) -> tuple[tuple[DType, ...], DType]:
    """Return the dtypes of a copy in a dtype, which is the operand's if none is named."""
    (kind,) = kinds
    assert isinstance(kind, np.dtype)
    return (kind,), kind if dtype is None else dtype


def tabled(module: Any, kind: type[Unary] | type[Binary], operands: int) -> dict[str, Fusable]:
    """Return the ops of a module that are a table of expressions."""
    found = {}
    for name in module.__all__:
        declared = getattr(getattr(module, name), "declared", None)
        if isinstance(declared, (Unary, Binary)) and isinstance(declared, kind):
            found[name] = Fusable(getattr(module, name), declared.expression, together(declared.rule), operands)
    return found


# By name. `add` is the op with a kernel of its own for arrays of one form; its bits are the expression's.
FUSABLE: dict[str, Fusable] = {
    **tabled(unary, Unary, 1),
    **tabled(binary, Binary, 2),
    "add": Fusable(add, Expression("add", "a + b"), together(number), 2),
    "silu_mul": Fusable(silu_mul, Expression("silu_mul", "a / (1.0f + exp(-a)) * b"), together(number), 2),
    "where": Fusable(ternary.where, ternary.WHERE, chosen, 3),
    "clip": Fusable(ternary.clip, ternary.CLIP, together(ternary.same_dtype), 3),
    "contiguous": Fusable(contiguous, COPY, converted, 1),
    "astype": Fusable(astype, COPY, converted, 1, names_dtype=True),
}


class Line(NamedTuple):
    """One op of a body: its operands are numbered, the given ones first, then the lines before."""

    name: str
    operands: tuple[int, ...]
    dtype: DType | None


class Body(NamedTuple):
    """The ops that a text names, and which of their results are returned."""

    lines: tuple[Line, ...]
    results: tuple[int, ...]


@cache
def read(text: str, count: int) -> Body:
    """Return the ops that a text names, for so many operands.

    Raises
    ------
    ValueError
        The text is not as `fused` describes it.
    """
    *texts, last = text.split("; ")
    numbers = {f"x{i}": i for i in range(count)}
    lines = []
    try:
        for each in texts:
            found = LINE.fullmatch(each)
            if found is None:
                raise ValueError(f"[fused] {each!r} is no line")
            made, name, words = found.groups()
            operands = words.split(", ")
            dtype = dtype_of(operands.pop()) if FUSABLE[name].names_dtype else None
            if len(operands) != FUSABLE[name].operands:
                raise ValueError(f"[fused] {each!r} has {len(operands)} operands")
            lines.append(Line(name, tuple(numbers[word] for word in operands), dtype))
            numbers[made] = count + len(lines) - 1
        if not last.startswith("return "):
            raise ValueError(f"[fused] {last!r} returns nothing")
        return Body(tuple(lines), tuple(numbers[word] for word in last.removeprefix("return ").split(", ")))
    except KeyError as error:
        raise ValueError(f"[fused] {error} in {text!r} is not known") from None


class Whole(NamedTuple):
    """What `fused` does for operands of certain forms: its results, and the launch; None where ops run one by one."""

    shape: tuple[int, ...]
    dtypes: tuple[DType, ...]
    launch: Launch | None


@op
def fused(
    operands: Sequence[Any], text: str, *, stream: Stream | None = None, out: Sequence[Array | None] | None = None
) -> tuple[Array, ...]:
    """Call several elementwise ops; one kernel does all of it where the results have one shape.

    Parameters
    ----------
    operands : sequence of Array or number
        Arrays of any dtypes and strides, whose shapes broadcast.
    text : str
        A line for each op, then what is returned: ``v0 = multiply(x0, x1); v1 = astype(v0, float16); return v1``. The
        operands are ``x0``, ``x1`` and so on. Each op is one of `FUSABLE`, with its own rules for dtypes and shapes.
    out : sequence of Array or None, optional
        They receive the results; None makes a new array. They are contiguous, of the results' shapes and dtypes, and
    share no memory with each other or an operand, unless that is the same array.

    Returns
    -------
    tuple of Array
        The same bits as the ops give one by one: each value is rounded to the dtype that its op returns.

    Raises
    ------
    TypeError, ValueError
        What the ops raise; or `out` does not fit.
    """
    stream = stream or current_stream()
    whole = whole_of(text, target_of(stream), *map(given, operands))
    over = () if whole is None or whole.launch is None else whole.launch.kernel.aliasing.get("out0", ())
    if whole is None or (out is not None and shares(out, operands, over)):
        found = one_by_one(operands, text, stream)
        if out is None:
            return found
        every = [f"x{i}" for i in range(len(operands))]
        made = received([(each.shape, each.dtype) for each in found], operands, out, stream, every)
        for to, each in zip(made, found):
            copyto(to, each, stream=stream)
        return tuple(made)
    forms = [(whole.shape, dtype) for dtype in whole.dtypes]
    made = [make(*form, stream) for form in forms] if out is None else received(forms, operands, out, stream, over)
    if whole.launch is not None:
        outputs = {f"out{i}": each for i, each in enumerate(made)}
        whole.launch(stream, **outputs, **{f"x{i}": each for i, each in enumerate(operands)})
    return tuple(made)


def shares(out: Sequence[Array | None], operands: Sequence[Any], over: Sequence[str]) -> bool:
    """Whether a result is written to the memory of an operand that the kernel may not write."""
    read = [v.extent for i, v in enumerate(operands) if isinstance(v, Array) and f"x{i}" not in over]
    written = [each.extent for each in out if each is not None]
    return any(start < last and first < end for start, end in written for first, last in read)


def received(
    forms: Sequence[tuple[tuple[int, ...], DType]],
    operands: Sequence[Any],
    out: Sequence[Array | None],
    stream: Stream,
    over: Sequence[str],
) -> list[Array]:
    """Return the caller's arrays for the results after checking them, and new ones; they may be the operands `over`."""
    if len(out) != len(forms):
        raise ValueError(f"[fused] out has {len(out)} arrays; {len(forms)} are needed")
    seen = {f"x{i}": v for i, v in enumerate(operands) if isinstance(v, Array)}
    made = []
    for i, (each, (shape, dtype)) in enumerate(zip(out, forms)):
        made.append(result("fused", each, shape, dtype, stream, seen, over))
        seen[f"out[{i}]"] = made[-1]
    return made


def one_by_one(operands: Sequence[Any], text: str, stream: Stream) -> tuple[Array, ...]:
    """Call the ops of a text one by one."""
    body = read(text, len(operands))
    known = list(operands)
    for line in body.lines:
        dtype = [] if line.dtype is None else [line.dtype]
        known.append(FUSABLE[line.name].op(*(known[i] for i in line.operands), *dtype, stream=stream))
    return tuple(known[i] for i in body.results)


@Planned
def whole_of(text: str, target: Target, *operands: Any) -> Whole | None:
    """Return what one kernel does; None where it takes several: results of several shapes, or too many axes."""
    body = read(text, len(operands))
    kinds: list[Kind] = [v.dtype if isinstance(v, Form) else v for v in operands]
    shapes: list[tuple[int, ...]] = [v.shape if isinstance(v, Form) else () for v in operands]
    values = []
    for line in body.lines:
        fusable = FUSABLE[line.name]
        common, dtype = fusable.dtypes([kinds[i] for i in line.operands], line.dtype)
        shapes.append(broadcast_shapes(line.name, *(shapes[i] for i in line.operands)))
        kinds.append(dtype)
        words = tuple(WORDS[each] for each in common)
        values.append(Value(line.name, fusable.expression.text, line.operands, words, WORDS[dtype]))
    shape = shapes[body.results[0]]
    arrays = {i: v for i, v in enumerate(operands) if isinstance(v, Form)}
    # The compiler contracts products of complex numbers in other ways than in the ops alone.
    if any(isinstance(kind, np.dtype) and is_complex(kind) for kind in kinds):
        return None
    is_large = math.prod(shape) > LARGEST or any(v.span > LARGEST for v in arrays.values())
    if is_large or any(shapes[i] != shape for i in body.results) or any(v.dtype not in WORDS for v in arrays.values()):
        return None
    strides = [spread_strides(v.shape, strides_of(v), shape) for v in arrays.values()]
    row = strides_of(Form(shape, None, BOOL, True, math.prod(shape)))
    layout = layout_of(shape, [*strides, row])
    if len(layout.shape) > MOST_AXES:
        return None
    dtypes = tuple(dtype for dtype in (kinds[i] for i in body.results) if not isinstance(dtype, type))
    size, axes = math.prod(shape), 0 if layout.is_flat else len(layout.shape)
    if not size:
        return Whole(shape, dtypes, None)
    steps = dict(zip(arrays, layout.strides))
    loads = tuple(
        Load(WORDS[v.dtype], False, step_of(steps[i])) if isinstance(v, Form) else Load(number_word(v), True, STILL)
        for i, v in enumerate(operands)
    )
    run = run_of(arrays, steps, dtypes, layout.shape)
    stores = tuple(Store(i, WORDS[dtype]) for i, dtype in zip(body.results, dtypes))
    scalars = {f"n{axis}": layout.shape[axis] for axis in range(axes)}
    scalars |= {f"x{i}_{axis}": steps[i][axis] for i in arrays for axis in range(axes)}
    stretch = target.table.loop_elements
    if axes:
        stretch = max(1, stretch // layout.shape[-1])
    if target.takes_loops:
        grid, threads = -(-(size // layout.shape[-1] if axes else size) // stretch), 1
    else:
        grid, threads = -(-size // (THREADS * run)), THREADS
    kernel = fused_kernel(loads, tuple(values), stores, axes, run)
    launch = Launch(kernel, (grid, 1, 1), (threads, 1, 1), size=size, stretch=stretch, **scalars)
    return Whole(shape, dtypes, launch)


def step_of(steps: tuple[int, ...]) -> int | None:
    """Return the kind of an array's step along the last axis."""
    last = steps[-1] if steps else STILL
    return last if last in (UNIT, STILL) else None


def run_of(
    arrays: Mapping[int, Form], steps: Mapping[int, tuple[int, ...]], dtypes: Sequence[DType], shape: tuple[int, ...]
) -> int:
    """Return how many neighbours a thread takes: as many as fill 16 bytes of the widest array, where all lie right."""
    walked = [i for i in arrays if step_of(steps[i]) == UNIT]
    widest = max(dtype.itemsize for dtype in (*dtypes, *(arrays[i].dtype for i in walked)))
    run = min(MOST_RUN, 16 // widest)
    if not shape or shape[-1] % run:
        return 1
    is_right = all(arrays[i].is_aligned and not any(step % run for step in steps[i][:-1]) for i in walked)
    return run if is_right else 1
