"""Notation: arguments of primitives as the numbers, texts, bytes and lists that msgpack has.

A number, a text, a bool and None stand for themselves. All else is a list whose first element says what it is::

    ["value", n]        the n-th value of the function: its inputs first, then the results of its primitives
    ["constant", n]     the n-th constant of the file
    ["kernel", n]       the n-th kernel of the file
    ["axis", n, axis]   the size of an axis of a value
    ["+", a, b]         a number computed from sizes; also - * // %
    ["list", …], ["tuple", …], ["dict", [key, value], …], ["slice", start, stop, step], ["..."]
    ["dtype", name]     a dtype of numbers
    ["structure", [[name, dtype, offset], …], itemsize], ["elements", dtype, shape], ["address"]
    ["array", dtype, shape, bytes], ["number", dtype, bytes]    numpy's, of the host
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from hiprt.array import Array
from hiprt.graphs.trace.size import OPERATORS, Size
from hiprt.module import ADDRESS
from hiprt.op import CustomKernel

__all__ = ["DEPTH", "NUMBERS", "Reader", "Writer", "check", "is_index", "is_shape"]

DEPTH = 32  # of lists in lists
MOST_AXES = 64
NUMBERS: dict[str, np.dtype[Any]] = {
    np.dtype(each).name: np.dtype(each)
    for each in (
        *(np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int16, np.int32, np.int64),
        *(np.float16, np.float32, np.float64, np.complex64, np.complex128),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    )
}


class Writer:
    """Writes arguments.

    Parameters
    ----------
    constant : callable
        Returns the number of a captured array.
    kernel : callable
        Returns the number of a kernel.
    """

    def __init__(self, constant: Callable[[Array], int], kernel: Callable[[CustomKernel], int]) -> None:
        self.constant, self.kernel = constant, kernel
        self.values: dict[int, int] = {}  # of a function: places by the numbers of values

    def add(self, number: int) -> None:
        """Give the next place to a value."""
        self.values[number] = len(self.values)

    def write(self, part: Any) -> Any:
        """Return a part of an argument in notation.

        Raises
        ------
        TypeError
            It is of a type that has none.
        """
        kind = type(part)
        if part is None or kind in (bool, str, float):
            return part
        if kind is int:
            if not -(2**63) <= part < 2**64:
                raise TypeError(f"a number of more than 64 bits, {part}")
            return part
        if isinstance(part, Array):
            if part.primitive is None:
                return ["constant", self.constant(part)]
            return ["value", self.values[part.number]]
        if kind is Size:
            text, a, b = part.terms
            return ["axis", self.values[a], b] if text == "axis" else [text, self.write(a), self.write(b)]
        if kind is dict:
            return ["dict", *([self.write(key), self.write(each)] for key, each in part.items())]
        if isinstance(part, (list, tuple)):
            return ["list" if isinstance(part, list) else "tuple", *map(self.write, part)]
        if kind is slice:
            return ["slice", *map(self.write, (part.start, part.stop, part.step))]
        if part is ...:
            return ["..."]
        if isinstance(part, np.dtype):
            return dtype_text(part)
        if isinstance(part, type) and issubclass(part, (np.generic, bool, int, float, ml_dtypes.bfloat16)):
            return dtype_text(np.dtype(part))
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            return ["array", dtype_text(part.dtype), list(part.shape), part.tobytes()]
        if isinstance(part, np.generic) and not part.dtype.hasobject:
            return ["number", dtype_text(part.dtype), part.tobytes()]
        if hasattr(part, "definition"):
            return ["kernel", self.kernel(part)]
        raise TypeError(f"a {kind.__name__}")


def dtype_text(dtype: np.dtype[Any]) -> list[Any]:
    """Return a dtype in notation."""
    if dtype.metadata is not None and dtype.metadata.get("hiprt") == "address":
        return ["address"]
    if dtype.subdtype is not None:
        return ["elements", dtype_text(dtype.subdtype[0]), list(dtype.subdtype[1])]
    if dtype.fields is not None:
        fields = [[name, dtype_text(dtype.fields[name][0]), dtype.fields[name][1]] for name in dtype.names or ()]
        return ["structure", fields, dtype.itemsize]
    if dtype.name not in NUMBERS:
        raise TypeError(f"the dtype {dtype}")
    return ["dtype", dtype.name]


class Reader:
    """Reads arguments that may be anything.

    Parameters
    ----------
    constants : sequence of Array
    kernels : sequence of CustomKernel
    """

    def __init__(self, constants: Sequence[Array], kernels: Sequence[CustomKernel] = ()) -> None:
        self.constants, self.kernels = constants, kernels
        self.values: list[Array] = []

    def read(self, part: Any, depth: int = 0) -> Any:
        """Return what a notation stands for.

        Raises
        ------
        ValueError
            It stands for nothing.
        """
        kind = type(part)
        if part is None or kind in (bool, int, str, float):
            return part
        check(depth < DEPTH, "lists within lists, without an end")
        check(kind is list and part and type(part[0]) is str, f"{part!r:.60} is no notation")
        word, *rest = part
        count, inside = len(rest), depth + 1
        if word in ("list", "tuple"):
            items = [self.read(each, inside) for each in rest]
            return items if word == "list" else tuple(items)
        if word == "dict":
            check(all(type(pair) is list and len(pair) == 2 for pair in rest), "a dictionary without its values")
            pairs = [(self.read(key, inside), self.read(each, inside)) for key, each in rest]
            check(all(type(key) in (str, int) for key, _ in pairs), "a dictionary without names")
            return dict(pairs)
        if word == "slice":
            check(count == 3, "a slice has three bounds")
            return slice(*(self.read(each, inside) for each in rest))
        if word == "..." and not rest:
            return ...
        if word in ("value", "constant", "kernel") and count == 1:
            found: Sequence[Any] = {"value": self.values, "constant": self.constants, "kernel": self.kernels}[word]
            check(is_index(rest[0], len(found)), f"{word} {rest[0]!r:.40}, of {len(found)}")
            return found[rest[0]]
        if word == "axis" and count == 2:
            check(is_index(rest[0], len(self.values)), f"an axis of value {rest[0]!r:.40}, of {len(self.values)}")
            shape = self.values[rest[0]].shape
            check(is_index(rest[1], len(shape)), f"axis {rest[1]!r:.40} of {len(shape)}")
            return shape[rest[1]]
        if word in OPERATORS and count == 2:
            a, b = (self.read(each, inside) for each in rest)
            check(type(a) in (int, Size) and type(b) in (int, Size), f"{word} of what is no size")
            try:
                return OPERATORS[word](a, b)
            except ZeroDivisionError:
                raise ValueError("a division by zero") from None
        if word in ("dtype", "structure", "elements", "address"):
            return self.dtype(part, depth)
        if word in ("array", "number"):
            return self.host_array(word, rest, inside)
        raise ValueError(f"{word!r:.40} of {count} is no notation")

    def dtype(self, part: Any, depth: int) -> np.dtype[Any]:
        """Return the dtype of a notation."""
        check(depth < DEPTH and type(part) is list and part and type(part[0]) is str, f"{part!r:.60} is no dtype")
        word, *rest = part
        if word == "dtype" and len(rest) == 1 and type(rest[0]) is str and rest[0] in NUMBERS:
            return NUMBERS[rest[0]]
        if word == "address" and not rest:
            return ADDRESS
        if word == "elements" and len(rest) == 2 and is_shape(rest[1]):
            check(math.prod(rest[1]) <= 65536, "a dtype of more than 64 Ki elements")
            return np.dtype((self.dtype(rest[0], depth + 1), tuple(rest[1])))
        if word == "structure" and len(rest) == 2 and type(rest[0]) is list and is_index(rest[1], 1 << 20):
            check(all(type(field) is list and len(field) == 3 for field in rest[0]), "a structure without its members")
            names, kinds, offsets = [list(each) for each in zip(*rest[0])] or ([], [], [])
            check(all(type(name) is str for name in names), "a member without a name")
            check(all(is_index(offset, rest[1]) for offset in offsets), "a member outside of its structure")
            formats = [self.dtype(kind, depth + 1) for kind in kinds]
            fields = {"names": names, "formats": formats, "offsets": offsets, "itemsize": rest[1], "aligned": True}
            return np.dtype(fields)  # type: ignore[call-overload,no-any-return]
        raise ValueError(f"{part!r:.60} is no dtype")

    def host_array(self, word: str, rest: list[Any], depth: int) -> Any:
        """Return an array or a number of numpy's."""
        if word == "number" and len(rest) == 2:
            rest = [rest[0], [], rest[1]]
        check(len(rest) == 3 and is_shape(rest[1]) and type(rest[2]) is bytes, "an array without its bytes")
        dtype, shape = self.dtype(rest[0], depth), tuple(rest[1])
        check(dtype.subdtype is None, "an array of arrays")
        check(math.prod(shape) * dtype.itemsize == len(rest[2]), "an array whose bytes are not those of its shape")
        made = np.frombuffer(rest[2], dtype).reshape(shape) if rest[2] else np.empty(shape, dtype)
        return made[()] if word == "number" else made


def check(is_right: Any, what: str) -> None:
    """Raise ValueError that says what a file has, unless it may have that."""
    if not is_right:
        raise ValueError(what)


def is_index(value: Any, count: int) -> bool:
    """Whether a value is an index into as many."""
    return type(value) is int and 0 <= value < count


def is_shape(value: Any) -> bool:
    """Whether a value is a list of sizes."""
    return type(value) is list and len(value) <= MOST_AXES and all(is_index(n, 2**63) for n in value)
