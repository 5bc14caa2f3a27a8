"""Inputs of exported functions: how they are given, and which function of a file takes them. The rules are MLX's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hiprt.array import Array, dtype_of

__all__ = ["Given", "fits", "given", "listed", "same_inputs"]

Given = tuple[list[Any], dict[str, Any]]


def given(prefix: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], is_array: Callable[[Any], bool]) -> Given:
    """Return a call's positional and keyword arrays.

    They are given as such, or as one list or tuple, as one dictionary, or as both.

    Raises
    ------
    ValueError
        There is something else than arrays.
    """

    def are(arrays: Iterable[Any]) -> bool:
        return all(map(is_array, arrays))

    if not args or is_array(args[0]):
        if are(args) and are(kwargs.values()):
            return list(args), dict(kwargs)
    elif not kwargs and len(args) <= 2:
        first, last = args[0], args[-1]
        by_name = dict(last) if isinstance(last, dict) else {}
        in_order = list(first) if isinstance(first, (list, tuple)) else []
        is_whole = isinstance(last, dict) if len(args) == 2 else isinstance(first, (list, tuple, dict))
        is_whole &= len(args) == 1 or isinstance(first, (list, tuple))
        if is_whole and are(in_order) and are(by_name.values()) and all(type(name) is str for name in by_name):
            return in_order, by_name
    raise ValueError(
        f"{prefix} Inputs can either be a variable number of positional and keyword arrays or a single tuple and/or "
        "dictionary of arrays."
    )


def same_inputs(a: Array, b: Array, shapeless: bool) -> bool:
    """Whether a function for one input takes the other as well."""
    if a.dtype != b.dtype or a.form.ndim != b.form.ndim:
        return False
    return shapeless or a.form.shape == b.form.shape


def fits(
    keywords: Sequence[str],
    inputs: Sequence[Array],
    args: Sequence[Array],
    kwargs: Mapping[str, Array],
    shapeless: bool,
) -> bool:
    """Whether a function of these inputs takes a call's."""
    if len(args) + len(kwargs) != len(inputs) or sorted(kwargs) != list(keywords):
        return False
    arrays = [*args, *(kwargs[name] for name in keywords)]
    return all(same_inputs(array, expected, shapeless) for array, expected in zip(arrays, inputs))


def listed(args: Sequence[Any], kwargs: Mapping[str, Any], indent: str) -> str:
    """Return a line for each input, with its shape and dtype."""
    names = [*map(str, range(1, len(args) + 1)), *(f'"{name}"' for name in kwargs)]
    lines = zip(names, (*args, *kwargs.values()))
    return "".join(f"{indent}{name}: {form_text(array)}\n" for name, array in lines)


def form_text(array: Any) -> str:
    """Return an input's shape and dtype, as MLX's messages have them."""
    shape = array.form.shape if isinstance(array, Array) else np.shape(array)
    return f"({','.join(map(str, shape))}) {dtype_of(array.dtype)}"
