"""Ops: functions that launch kernels, and that a trace can record instead of calling."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Protocol, TypeVar, cast

from hiprt import objects

__all__ = ["CustomKernel", "Op", "custom_ops", "op"]

F = TypeVar("F", bound=Callable[..., Any])


class CustomKernel(Protocol):
    """A user's kernel, which programs that are written to files take with them."""

    name: str

    def definition(self) -> dict[str, Any]:
        """Return all that the kernel is made from, as texts, numbers, dtypes, lists and dictionaries of these."""

    def portable(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name as they mean the same in another process, or raise ValueError."""

    @classmethod
    def defined(cls, definition: dict[str, Any], shared: dict[str, Any]) -> CustomKernel:
        """Make a kernel from its definition; `shared` keeps what several kernels of one file have in common."""


# The ops that run kernels of users, by name, with the class of their kernels.
custom_ops: dict[str, tuple[Op, type[CustomKernel]]] = {}


class Op(objects.Op):
    """A function on arrays, called as it is.

    While its thread traces (`hiprt.compile`), a call becomes a primitive of the traced program, and the function is
    called when the program runs. What it returns then, and what it writes, is found out by calling it once, for
    operands of each form, where launches do nothing: its own checks and shapes are the primitive's rule.

    Parameters
    ----------
    function : callable
        It returns arrays, or a tuple or list of them. It launches on its parameter ``stream``, which comes last if it
        can be given by position.
    name : str, optional
        The function's name by default.
    kernel : type, optional
        The class of the users' kernels that the op runs, which it is given as its first argument.
    has_effect : bool
        Whether a call does more than its results show: none is left out, and none stands for another one.

    Attributes
    ----------
    declared : callable
        The function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str = "",
        kernel: type[CustomKernel] | None = None,
        *,
        has_effect: bool = False,
    ) -> None:
        self.declared, self.has_effect = function, has_effect
        called: Any = function if hasattr(function, "__code__") else function.__call__  # type: ignore[operator]
        code = called.__code__
        bound = int(hasattr(called, "__self__"))
        names = code.co_varnames[bound : code.co_argcount + code.co_kwonlyargcount]
        positional = code.co_argcount - bound
        values = called.__defaults__ or ()
        known = dict(zip(names[positional - len(values) : positional], values)) | (called.__kwdefaults__ or {})
        kept = tuple(each for each in names if each != "stream")
        by_position = sum(each in kept for each in names[:positional])
        update_wrapper(self, function)
        defaults = tuple(known.get(each, ...) for each in kept)
        self.declare(called, name or function.__name__, kept, defaults, by_position)
        if kernel is not None:
            custom_ops[self.name] = (self, kernel)

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def op(function: F) -> F:
    """Declare a function an op; see `Op`."""
    return cast(F, Op(function))
