"""Cells: places in device memory for values that a step is given anew at each call.

A kernel reads a cell when it runs, so that another value needs no other graph: it is written ahead of the launch, in
stream order, which is one call to HIP.
"""

from __future__ import annotations

import inspect
import operator
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hiprt.array import Array, dtype_of, empty
from hiprt.stream import Stream

__all__ = ["Cells"]

WIDEST = 8  # bytes of a value; a fill writes up to 4
MOST_ARMED = 16  # cells that the C core writes
NO_NUMBERS = "SUMm"  # numpy's texts and times
# The types of which the C core writes values, in the words of Python's struct.
FORMATS = {"float32": "f", "float64": "d", "int32": "i", "int64": "q"}


class Cells:
    """The cells of one step: one for each argument that varies, on each stream that the step has run on.

    Parameters
    ----------
    function : callable
        The step's function.
    varying : mapping
        Name of an argument to the dtype of its cell.

    Raises
    ------
    TypeError
        The function has no such argument.
    ValueError
        The dtype has more than 8 bytes.
    """

    def __init__(self, function: Callable[..., Any], varying: Mapping[str, DTypeLike]) -> None:
        if not isinstance(varying, Mapping):
            raise TypeError(
                f'varying is {varying!r}; give the dtype of each argument by its name: {{"scale": "float32"}}'
            )
        parameters = inspect.signature(function).parameters
        takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self.dtypes = {name: dtype_of(dtype) for name, dtype in varying.items()}
        self.positions: dict[str, int] = {}
        self.defaults: dict[str, Any] = {}
        for name, dtype in self.dtypes.items():
            if dtype.itemsize > WIDEST:
                raise ValueError(f"varying: {name} of {dtype} has {dtype.itemsize} bytes; up to {WIDEST} are possible")
            if name not in parameters and not takes_any:
                raise TypeError(f"varying: {function} has no argument {name}, only {', '.join(parameters)}")
        for position, (name, each) in enumerate(parameters.items()):
            if name in self.dtypes and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
                self.positions[name] = position
            if name in self.dtypes and each.default is not each.empty:
                self.defaults[name] = each.default
        self.arrays: weakref.WeakKeyDictionary[Stream, dict[str, Array]] = weakref.WeakKeyDictionary()

    def place(
        self, args: tuple[Any, ...], keywords: Mapping[str, Any], stream: Stream, *, anew: bool = False
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Write the values that vary into their cells, in stream order, and put the cells in their places.

        Parameters
        ----------
        args, keywords : tuple, mapping
            The arguments of a call. A value is a number; or an array of its dtype and one element, which is copied.
        stream : Stream
        anew : bool
            Whether to make cells for this call alone, because other threads may call the function at the same time.

        Returns
        -------
        tuple
            The arguments for the function.

        Raises
        ------
        TypeError, ValueError, OverflowError
            A value is no number of its cell's dtype.
        """
        positional, named = list(args), dict(keywords)
        arrays = {} if anew else self.arrays.setdefault(stream, {})
        for name, dtype in self.dtypes.items():
            position = self.positions.get(name, len(args))
            is_given = position < len(args) or name in named
            if not is_given and name not in self.defaults:
                continue  # the call itself says what is missing
            value = positional[position] if position < len(args) else named.get(name, self.defaults.get(name))
            cell = arrays.get(name)
            if cell is None:
                cell = arrays[name] = empty((), dtype, stream)
            write(cell, value, name, stream)
            if position < len(args):
                positional[position] = cell
            else:
                named[name] = cell
        return tuple(positional), dict(sorted(named.items())) if len(named) > len(keywords) else named

    def owns(self, array: Array, stream: Stream) -> bool:
        """Whether an array lies in a cell, where the next call on the stream writes another value."""
        return any(array.buffer is cell.buffer for cell in self.arrays.get(stream, {}).values())

    def formats(self, count: int, names: tuple[str, ...], stream: Stream) -> list[tuple[int, int, str]] | None:
        """Return what the C core needs to write the cells of a call's arguments.

        Parameters
        ----------
        count : int
            How many arguments are given by position.
        names : tuple of str
            The names of the others, which are counted on from there.
        stream : Stream

        Returns
        -------
        list of tuple or None
            Position, address and format of each; None where a value is of another type, or not among those arguments.
        """
        found: list[tuple[int, int, str]] = []
        if len(self.dtypes) > MOST_ARMED:
            return None
        for name, dtype in self.dtypes.items():
            position, form = self.positions.get(name, count), FORMATS.get(dtype.name)
            if name in names:
                position = count + names.index(name)
            if position >= count + len(names) or form is None:
                return None
            found.append((position, self.arrays[stream][name].address, form))
        return found


def check_number(value: Any) -> None:
    """Raise a TypeError for what is no number, although numpy makes one of it: None becomes NaN, a text is read."""
    if value is None or np.asarray(value).dtype.kind in NO_NUMBERS:
        raise TypeError("it is no number")


def write(cell: Array, value: Any, name: str, stream: Stream) -> None:
    """Write a number into a cell, in stream order."""
    if isinstance(value, Array):
        if value.size != 1 or value.dtype != cell.dtype:
            raise TypeError(f"argument {name} is {value}; a number is needed, or one element of {cell.dtype}")
        cell.copy_from(value.reshape(()), stream)
        return
    try:
        check_number(value)
        whole = np.asarray(operator.index(value) if cell.dtype.kind in "iu" else value, cell.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"argument {name} is {value!r}; a {cell.dtype} is needed: {error}") from None
    if whole.shape:
        raise TypeError(f"argument {name} has the shape {whole.shape}; a number is needed")
    raw, width = whole.tobytes(), min(cell.dtype.itemsize, 4)
    for at in range(0, len(raw), width):
        stream.fill(cell.address + at, int.from_bytes(raw[at : at + width], "little"), width, 1, to=cell.buffer)
