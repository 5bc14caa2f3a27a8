"""Functions of functions: `checkpoint`, `custom_function`, and imported functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from hiprt.array import Array
from hiprt.graphs.export.importer import import_function as import_program
from hiprt.graphs.trace.memory import Memory
from hiprt.metal_compat.mlx import distributed
from hiprt.metal_compat.mlx.array import apply, array, device_array, held
from hiprt.metal_compat.mlx.compiled import thread
from hiprt.op import op

__all__ = [
    "checkpoint",
    "custom_function",
    "depends",
    "import_function",
]

Function = Callable[..., Any]


def checkpoint(fun: Function) -> Function:
    """Return the function: there are no gradients for which intermediate arrays would be kept."""
    return fun


class custom_function:  # noqa: N801
    """A function with its own transformations, which are taken and not used: there are no gradients.

    Parameters
    ----------
    f : callable
    """

    def __init__(self, f: Function) -> None:
        self.function = f
        update_wrapper(self, f)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        return self.function(*args, **kwargs)

    def vjp(self, f: Function) -> custom_function:
        """Return this object, under whose name `f` may be declared, as a decorator does."""
        return self

    def jvp(self, f: Function) -> custom_function:
        """Return this object, under whose name `f` may be declared, as a decorator does."""
        return self

    def vmap(self, f: Function) -> custom_function:
        """Return this object, under whose name `f` may be declared, as a decorator does."""
        return self


def depends(inputs: array | Sequence[array], dependencies: array | Sequence[array]) -> Any:
    """Return the inputs; where they are computed, the dependencies are too, such as messages to other processes."""
    given = [inputs] if isinstance(inputs, array) else list(inputs)
    if distributed.groups:
        given = apply(with_others, given, [dependencies] if isinstance(dependencies, array) else list(dependencies))
    return given[0] if isinstance(inputs, array) else given


@op
def with_others(x: list[Array], others: list[Array]) -> list[Array]:
    """Return the first arrays."""
    return x


def import_function(file: str | os.PathLike[str], return_metadata: bool = False) -> Any:
    """Return the function of a file that MLX's ``export_function`` or hiprt's has written.

    It takes arrays by position and name, or a list or a dictionary of them, and returns a tuple of arrays. Within a
    function that is compiled or exported, it becomes part of that one.

    Raises
    ------
    RuntimeError
        The file cannot be read.
    ValueError
        It is not of these formats, or has a primitive that no op does.
    """
    found: Any = import_program(file, return_metadata=return_metadata)
    function, metadata = found if return_metadata else (found, None)

    def imported(*args: Any, **kwargs: Any) -> tuple[array, ...]:
        if thread.is_tracing:
            if any(Memory(program).written for program in function.programs):
                raise ValueError(
                    f"{function!r} writes arrays in place, which it cannot within a function that is traced"
                )
            lazily = apply(function, *args, **kwargs)
            return tuple(each if each.value.primitive else held(each.value) for each in lazily)
        made = function(*(on_device(each) for each in args), **{k: on_device(each) for k, each in kwargs.items()})
        return tuple(held(each) for each in made)

    return (imported, metadata) if return_metadata else imported


def on_device(tree: Any) -> Any:
    """Return arguments with arrays of the device in the place of arrays."""
    if isinstance(tree, array):
        return device_array(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(on_device(each) for each in tree)
    if isinstance(tree, dict):
        return {name: on_device(each) for name, each in tree.items()}
    return tree
