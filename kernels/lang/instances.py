"""Instances: the template values that a kernel is compiled with offline, where no call gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np

from hiprt.array import bfloat16

__all__ = ["FLOATS", "each", "runs"]

FLOATS = (np.dtype(np.float16), bfloat16, np.dtype(np.float32))
VECTOR_BYTES = 16  # bytes of the widest load

Choice = Iterable[Any] | Callable[[np.dtype[Any], bool], Iterable[Any]]


def each(dtypes: Iterable[str] = ("T",), **choices: Choice) -> Callable[[bool], list[dict[str, Any]]]:
    """Return a function that lists a kernel's instances: every combination of choices, for each floating dtype.

    Parameters
    ----------
    dtypes : iterable of str
        The template parameters that are the dtype; they are the same in each instance.
    **choices
        The values of each other parameter, or a function that returns them for a dtype and `takes_loops`.

    Returns
    -------
    callable
        A function that returns the templates, by name, for `takes_loops`, as `Kernel` takes it.
    """

    def instances(takes_loops: bool) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for dtype in FLOATS if dtypes else FLOATS[-1:]:
            values = [choice(dtype, takes_loops) if callable(choice) else choice for choice in choices.values()]
            head = dict.fromkeys(dtypes, dtype)
            found += [{**head, **dict(zip(choices, chosen))} for chosen in product(*values)]
        return found

    return instances


def runs(dtype: np.dtype[Any], takes_loops: bool) -> tuple[int, ...]:
    """Return the numbers of neighbouring elements that a thread may take: one, and on GPUs as many as a load reads."""
    return (1,) if takes_loops else (1, VECTOR_BYTES // dtype.itemsize)
