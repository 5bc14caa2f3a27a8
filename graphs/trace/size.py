"""Sizes: the axes of values in a trace whose program is given arrays of other shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

from hiprt.graphs.trace import core
from hiprt.graphs.trace.asked import TESTS, Asked

__all__ = ["Guard", "Size", "size_text", "value_of"]

Number = Union[int, "Size"]
# What computes each operator; with its text.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}


@dataclass(frozen=True)
class Guard:
    """What a traced function has asked about a size: the program holds where the answer is the same.

    Attributes
    ----------
    at : int
        How many primitives the trace had then.
    size : Size
    test : str
        The comparison.
    other : int or Size
    answer : bool
    """

    at: int
    size: Size
    test: str
    other: Number
    answer: bool

    def holds(self, axis: Callable[[int, int], int]) -> bool:
        """Whether sizes, as `value_of` takes them, give the same answer."""
        return bool(TESTS[self.test](value_of(self.size, axis), value_of(self.other, axis))) == self.answer


class Size(Asked):
    """A size that knows what it is: an axis of a value, or whole numbers computed from such.

    It is used like an int. To compare it, or to use it where Python needs a number, ties the program to the answer: for
    shapes that answer otherwise, the function is traced again.

    Attributes
    ----------
    value : int
        What it is in the shapes that the function was traced with.
    terms : tuple
        ``("axis", value's number, axis)``, or an operator of `OPERATORS` with its two operands.
    """

    __slots__ = ("terms",)

    def __init__(self, value: int, terms: tuple[Any, ...]) -> None:
        self.value = value
        self.terms = terms

    @classmethod
    def axis(cls, number: int, axis: int, value: int) -> Size:
        """Return the size of an axis of a value."""
        return cls(value, ("axis", number, axis))

    def made(self, text: str, a: Any, b: Any) -> Any:
        """Return what an operator gives; a number that is no int ties the program."""
        if isinstance(a, (int, Size)) and isinstance(b, (int, Size)) and not isinstance(a, bool):
            return Size(OPERATORS[text](plain(a), plain(b)), (text, a, b))
        return OPERATORS[text](int(a) if a is self else a, int(b) if b is self else b)

    def __add__(self, other: Any) -> Any:
        return self.made("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.made("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.made("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.made("-", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.made("*", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.made("*", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.made("//", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.made("//", other, self)

    def __mod__(self, other: Any) -> Any:
        return self.made("%", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self.made("%", other, self)

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self.made("-", 0, self)

    def __truediv__(self, other: Any) -> Any:
        return int(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / int(self)

    def __pow__(self, other: Any) -> Any:
        return int(self) ** other

    def __rpow__(self, other: Any) -> Any:
        return other ** int(self)

    def asked(self, test: str, other: Any) -> bool:
        """Return the answer of a comparison, and tie the program to it."""
        if not isinstance(other, (int, Size)):
            return bool(TESTS[test](int(self), other))
        answer = bool(TESTS[test](self.value, plain(other)))
        trace: Any = core.Trace.current()
        if trace is not None:
            trace.guards.append(Guard(len(trace.primitives), self, test, other, answer))
        return answer

    def __float__(self) -> float:
        return float(int(self))

    def __format__(self, format_spec: str) -> str:
        return format(int(self), format_spec)

    def __repr__(self) -> str:
        return f"Size({self.value})"


def plain(number: Number) -> int:
    """Return the number that a size is in the trace."""
    return number.value if isinstance(number, Size) else number


def value_of(number: Number, axis: Callable[[int, int], int]) -> int:
    """Return what a size is in other shapes.

    Parameters
    ----------
    number : int or Size
    axis : callable
        Returns the size of an axis, ``axis(number of the value, axis)``.
    """
    if not isinstance(number, Size):
        return number
    text, a, b = number.terms
    if text == "axis":
        return axis(a, b)
    return int(OPERATORS[text](value_of(a, axis), value_of(b, axis)))


def size_text(number: Number, name: Callable[[int], str]) -> str:
    """Return a size as a program's text has it; ``name(number)`` names a value."""
    if not isinstance(number, Size):
        return str(number)
    text, a, b = number.terms
    if text == "axis":
        return f"{name(a)}.shape[{b}]"
    return f"({size_text(a, name)} {text} {size_text(b, name)})"
