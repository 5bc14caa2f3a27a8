"""Integers that remember where they come from, while a function is recorded whose values depend on them.

A decode step of a model reads the position from its cache, compares it, slices with it, and leaves the next one there.
While a `Recording` is open, such a number is an `Integer`: a sum of numbers that were read, each times a constant, and
a constant. Comparisons are noted as tests, under which the recording holds. Every other use asks for the number itself,
which is noted as well: the recording then holds for that number alone. So nothing depends on a number unnoticed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeGuard

import numpy as np

from hiprt.array import Array
from hiprt.graphs.trace.asked import TESTS, Asked

__all__ = ["Integer", "Recording", "current_recording", "is_recorded"]

Terms = tuple[tuple[int, int], ...]  # which number that was read, and what it is multiplied by
Test = tuple[int, Terms, str]  # a sum, and how it compares with 0
# Numbers are below 2**40 (graphs/native/recipe_pattern.c), so that sums are below 2**62: C computes them exactly.
MOST_TIMES, MOST_CONSTANT = 2**21, 2**61
OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


class Recording:
    """What a function asks of integers while it runs, in one thread.

    Attributes
    ----------
    tests : dict
        The comparisons that hold, in order.
    shapes : dict
        The shapes of values whose sizes are integers, by the values' numbers.
    caches : set of int
        The numbers of those of them that are arrays the function was given, or what it left of one by writing a part.
    is_general : bool
        Whether calls are made that are the same for other sizes of caches, but for their forms.
    positions : dict
        The values that hold integers in device memory, by what the integers are.
    refusal : str
        Why the function cannot be recorded; empty if it can.
    is_open : bool
    """

    def __init__(self) -> None:
        self.tests: dict[Test, None] = {}
        self.shapes: dict[int, tuple[Any, ...]] = {}
        self.caches: set[int] = set()
        self.is_general = False
        self.positions: dict[tuple[int, Terms], Array] = {}
        self.refusal = ""
        self.is_open = False

    def __enter__(self) -> Recording:
        """Let this be the recording of the calling thread."""
        self.before, state.recording = state.recording, self
        self.is_open = True
        return self

    def __exit__(self, *_: object) -> None:
        state.recording, self.is_open = self.before, False

    def refuse(self, reason: str) -> None:
        """Note why the function cannot be recorded."""
        self.refusal = self.refusal or reason

    def read(self, symbol: int, value: int) -> Integer:
        """Return a number that the function reads."""
        return Integer(self, 0, ((symbol, 1),), value)

    @contextmanager
    def general(self) -> Iterator[None]:
        """Make calls within the block that are the same for other sizes of caches, but for the forms of arrays."""
        before, self.is_general = self.is_general, True
        try:
            yield
        finally:
            self.is_general = before

    def position(self, n: Integer, leaf: Callable[[int], Array], fresh: Callable[[int], Array]) -> Array:
        """Return the value that holds an integer: `leaf` makes one for each number, `fresh` another one."""
        key = n.constant, n.terms
        if key not in self.positions:
            made = leaf(n.value)
            # Two integers that are the same number now are two values.
            is_taken = any(each is made for each in self.positions.values())
            self.positions[key] = fresh(n.value) if is_taken else made
        return self.positions[key]


class State(threading.local):
    """The recording of a thread."""

    recording: Recording | None = None


state = State()


def current_recording() -> Recording | None:
    """Return the recording that is open in this thread."""
    return state.recording


class Integer(Asked):
    """A number that a recorded function has read, or a sum of such numbers; see the module.

    `isinstance` takes it for an int. It is no subclass, since Python's own functions would use its number unnoticed.

    Attributes
    ----------
    value : int
        What it is now.
    """

    __slots__ = ("constant", "recording", "terms")

    def __init__(self, recording: Recording, constant: int, terms: Terms, value: int) -> None:
        self.recording, self.constant, self.terms, self.value = recording, constant, terms, value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return int

    def plus(self, other: Any, times: int, own: int = 1) -> Any:
        """Return this times one number plus another one times a second one."""
        if type(other) is not Integer:
            if not isinstance(other, int):
                return NotImplemented
            number = int(other)
            if own == 1 and abs(self.constant + times * number) <= MOST_CONSTANT:
                return Integer(self.recording, self.constant + times * number, self.terms, self.value + times * number)
            sums, constant, value = {}, times * number, times * number
        else:
            sums = {symbol: times * n for symbol, n in other.terms}
            constant, value = times * other.constant, times * other.value
        for symbol, n in self.terms:
            sums[symbol] = sums.get(symbol, 0) + own * n
        terms = tuple(sorted((symbol, n) for symbol, n in sums.items() if n))
        constant, value = constant + own * self.constant, value + own * self.value
        if sum(abs(n) for _, n in terms) > MOST_TIMES or abs(constant) > MOST_CONSTANT:
            return own * int(self) + times * int(other)
        return Integer(self.recording, constant, terms, value) if terms else value

    def __add__(self, other: Any) -> Any:
        return self.plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.plus(other, -1)

    def __rsub__(self, other: Any) -> Any:
        return self.plus(other, 1, -1)

    def __neg__(self) -> Any:
        return self.plus(0, 0, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __mul__(self, other: Any) -> Any:
        if type(other) is Integer or not isinstance(other, int):
            return int(self) * other
        return self.plus(0, 0, int(other))

    __rmul__ = __mul__

    def asked(self, test: str, other: Any) -> Any:
        """Return the answer of a comparison, and note it."""
        if not isinstance(other, int):
            return TESTS[test](int(self), other) if isinstance(other, float) else NotImplemented
        difference = self - other
        if type(difference) is not Integer:
            return TESTS[test](difference, 0)
        answer = TESTS[test](difference.value, 0)
        if self.recording.is_open:
            holds = test if answer else OPPOSITE[test]
            self.recording.tests[difference.constant, difference.terms, holds] = None
        return answer

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(int(self), *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(int(self), name)

    def __copy__(self) -> int:
        return int(self)

    def __deepcopy__(self, memo: Any) -> int:
        return int(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)

    def __repr__(self) -> str:
        return repr(int(self))

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)


def is_recorded(n: object) -> TypeGuard[Integer]:
    """Whether a number is an `Integer`."""
    return type(n) is Integer


def of_number(name: str) -> Callable[..., Any]:
    """Return a method that does with the number itself what int's does."""
    method = getattr(int, name)

    def applied(self: Integer, *others: Any) -> Any:
        return method(int(self), *(int(each) if type(each) is Integer else each for each in others))

    return applied


# All other operators are applied to the number.
for name in dir(int):
    if name.startswith("__") and name not in {*vars(Asked), *vars(Integer), *dir(object), "__getnewargs__"}:
        setattr(Integer, name, of_number(name))
