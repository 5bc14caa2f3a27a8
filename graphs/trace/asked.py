"""Numbers of a program that is being recorded, which tell of each question about them."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

__all__ = ["TESTS", "Asked"]

TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Asked:
    """A number whose comparisons, and whose use as a number of Python's, are answered by `asked`.

    Attributes
    ----------
    value : int
        What it is now.
    """

    __slots__ = ("value",)
    value: int

    @abstractmethod
    def asked(self, test: str, other: Any) -> Any:
        """Return the answer of a comparison, one of `TESTS`, and note it."""

    def __eq__(self, other: object) -> Any:
        return self.asked("==", other)

    def __ne__(self, other: object) -> Any:
        return self.asked("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self.asked("<", other)

    def __le__(self, other: Any) -> Any:
        return self.asked("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self.asked(">", other)

    def __ge__(self, other: Any) -> Any:
        return self.asked(">=", other)

    def __bool__(self) -> bool:
        return bool(self.asked("!=", 0))

    def __int__(self) -> int:
        self.asked("==", self.value)
        return self.value

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(int(self))
