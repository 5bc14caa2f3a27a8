"""Fused kernels: the text of several elementwise ops as one kernel, which reads each operand once.

Each value is rounded to the dtype that the op alone would return, so that the bits are those of the ops one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from hiprt.kernels.lang.kernel import Kernel
from hiprt.kernels.ops.elementwise.headers import headers_of

__all__ = ["STILL", "UNIT", "Load", "Store", "Value", "fused_kernel"]

UNIT, STILL = 1, 0  # steps along the last axis; any other step is a scalar of the kernel
LONGEST_NAME = 60
LOOP = """#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif"""


@dataclass(frozen=True)
class Load:
    """An operand.

    Attributes
    ----------
    word : str
        Its type in memory, or the type of a number.
    is_number : bool
    step : int or None
        Its step along the last axis: `UNIT`, `STILL`, or None for any other.
    """

    word: str
    is_number: bool
    step: int | None


@dataclass(frozen=True)
class Value:
    """The value that one op makes for an element.

    Attributes
    ----------
    name : str
        The op's name.
    text : str
        The C++ expression of ``a``, ``b`` and ``c``.
    operands : tuple of int
        The operands of the kernel by number, and behind them the values before this one.
    common : tuple of str
        The dtype that each of them is converted to before it is used.
    word : str
        The dtype of the value.
    """

    name: str
    text: str
    operands: tuple[int, ...]
    common: tuple[str, ...]
    word: str


@dataclass(frozen=True)
class Store:
    """A result: which value it is, counted like operands, and its dtype."""

    value: int
    word: str


@cache
def fused_kernel(
    loads: tuple[Load, ...], values: tuple[Value, ...], stores: tuple[Store, ...], axes: int, run: int
) -> Kernel:
    """Return the kernel of some values.

    Parameters
    ----------
    loads, values, stores : tuple
    axes : int
        The number of axes that are walked; 0 where operands are walked element by element, or stay where they are.
    run : int
        How many neighbours a thread of a GPU takes, by one load and one store of each array.
    """
    arrays = {f"x{i}": load for i, load in enumerate(loads) if not load.is_number}
    scalars = {f"x{i}": load.word for i, load in enumerate(loads) if load.is_number}
    scalars |= {"size": "uint", "stretch": "uint"} | {f"n{axis}": "uint" for axis in range(axes)}
    scalars |= {f"{name}_{axis}": "int" for name in arrays for axis in range(axes)}
    widths = {store.word for store in stores}
    # An operand that is walked like the results may be one of them, if its elements are as wide.
    alike = [name for name, load in arrays.items() if not axes and load.step == UNIT and {load.word} == widths]
    names = "_".join(dict.fromkeys(value.name for value in values))[:LONGEST_NAME]
    digest = hashlib.blake2s(repr((loads, values, stores, axes, run)).encode(), digest_size=4).hexdigest()
    return Kernel(
        f"fused_{names}_{digest}" if len(values) > 1 else f"{names}_{digest}",
        inputs={name: load.word for name, load in arrays.items()},
        outputs={f"out{i}": store.word for i, store in enumerate(stores)},
        scalars=scalars,
        headers=headers_of([*widths, *(word for value in values for word in (value.word, *value.common))]),
        aliasing={f"out{i}": alike for i in range(len(stores))} if alike else None,
        source=source(loads, values, stores, axes, run),
    )


def source(loads: Sequence[Load], values: Sequence[Value], stores: Sequence[Store], axes: int, run: int) -> str:
    """Return the kernel's body: plain loops for the CPU device, and a thread for each run of elements elsewhere."""
    loop = rows_loop(loads, values, stores, axes) if axes else flat_loop(loads, values, stores)
    return "\n".join(["#if HIPRT_CPU_LOOPS", *loop, "#else", *lanes(loads, values, stores, axes, run), "#endif"])


def flat_loop(loads: Sequence[Load], values: Sequence[Value], stores: Sequence[Store]) -> list[str]:
    """Return a plain loop over a stretch of elements."""
    found = [(load, f"x{i}[i]" if load.step == UNIT else f"x{i}[0]") for i, load in enumerate(loads)]
    return [
        "const size_t first = size_t(threadgroup_position_in_grid.x) * stretch;",
        "const size_t end = min(size_t(size), first + stretch);",
        LOOP,
        "for (size_t i = first; i < end; i++) {",
        *element(found, values),
        *(f"  out{k}[i] = v{store.value};" for k, store in enumerate(stores)),
        "}",
    ]


def rows_loop(loads: Sequence[Load], values: Sequence[Value], stores: Sequence[Store], axes: int) -> list[str]:
    """Return a plain loop over a stretch of rows, and one over the elements of a row."""
    last = axes - 1
    found = []
    for i, load in enumerate(loads):
        places = {UNIT: "j", STILL: "0", None: f"long(j) * x{i}_{last}"}
        found.append((load, f"x{i}[x{i}_at + {places[load.step]}]" if not load.is_number else ""))
    return [
        f"const size_t width = n{last}, rows = size / n{last};",
        "const size_t first = size_t(threadgroup_position_in_grid.x) * stretch;",
        "for (size_t row = first; row < min(rows, first + stretch); row++) {",
        *coordinates("row", last),
        *places_of(loads, last),
        LOOP,
        "for (size_t j = 0; j < width; j++) {",
        *element(found, values),
        *(f"  out{k}[row * width + j] = v{store.value};" for k, store in enumerate(stores)),
        "}",
        "}",
    ]


def lanes(loads: Sequence[Load], values: Sequence[Value], stores: Sequence[Store], axes: int, run: int) -> list[str]:
    """Return what a thread of a GPU does with its run of neighbours, which lie in one row."""
    last = axes - 1
    lines = [f"const uint i = thread_position_in_grid.x * {run}u;", "if (i >= size) return;"]
    if axes:
        lines += [f"const uint inside = i % n{last};", *coordinates(f"i / n{last}", last), *places_of(loads, last)]
    found = []
    for k, load in enumerate(loads):
        first = f"x{k}_at" if axes else "0"
        start = f"{first} + int(inside)" if axes else "i"
        if load.is_number or load.step == STILL:
            found.append((load, f"x{k}[{first}]"))
        elif load.step is None:
            found.append((load, f"x{k}[{first} + int(inside + j) * x{k}_{last}]"))
        elif run == 1:
            found.append((load, f"x{k}[{start}]"))
        else:
            pack = f"pack<{load.word}, {run}>"
            lines.append(f"const {pack} p{k} = *(const device {pack}*)(x{k} + {start});")
            found.append((load, f"p{k}.values[j]"))
    if run == 1:
        lines += ["const uint j = 0;"] if any(load.step is None for load in loads if not load.is_number) else []
        stored = (f"out{k}[i] = v{store.value};" for k, store in enumerate(stores))
        return [*lines, *element(found, values), *stored]
    lines += [f"pack<{store.word}, {run}> q{k};" for k, store in enumerate(stores)]
    lines += ["#pragma unroll", f"for (uint j = 0; j < {run}; j++) {{", *element(found, values)]
    lines += [f"  q{k}.values[j] = v{store.value};" for k, store in enumerate(stores)]
    lines += ["}"]
    lines += [f"*(device pack<{store.word}, {run}>*)(out{k} + i) = q{k};" for k, store in enumerate(stores)]
    return lines


def coordinates(row: str, axes: int) -> list[str]:
    """Return the lines that find a row's place along each axis but the last."""
    if not axes:
        return []
    lines = [f"uint rest = uint({row});"]
    for axis in range(axes - 1, 0, -1):
        lines += [f"const int c{axis} = int(rest % n{axis});", f"rest /= n{axis};"]
    return [*lines, "const int c0 = int(rest);"]


def places_of(loads: Sequence[Load], axes: int) -> list[str]:
    """Return the lines that find where a row begins in each array."""
    found = []
    for i, load in enumerate(loads):
        if not load.is_number:
            terms = " + ".join(f"c{axis} * x{i}_{axis}" for axis in range(axes)) or "0"
            found.append(f"const int x{i}_at = {terms};")
    return found


def element(found: Iterable[tuple[Load, str]], values: Sequence[Value]) -> list[str]:
    """Return the lines that compute all values of one element, ``v0`` and so on, the operands first."""
    lines = []
    count = 0
    for load, text in found:
        lines.append(f"  const {load.word} v{count} = {f'x{count}' if load.is_number else text};")
        count += 1
    for value in values:
        lines.append(f"  {value.word} v{count};")
        operands = []
        for name, operand, common in zip("abc", value.operands, value.common):
            wide = "float" if common in ("half", "bfloat16_t") else common
            operands.append(f"const {wide} {name} = {wide}({common}(v{operand}));")
        lines.append(f"  {{ {' '.join(operands)} v{count} = {value.word}({value.text}); }}")
        count += 1
    return lines
