"""Results of a step's function: the arrays in them, and copies that the next launch does not overwrite."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hiprt import objects
from hiprt.array import Array
from hiprt.errors import HipError, UndefinedOutputsError
from hiprt.stream import Stream

__all__ = ["arrays_in", "copied"]

core = objects.load("hiprt.graphs.native.results")


def arrays_in(result: Any) -> list[Array] | None:
    """Return the arrays in a structure of tuples, lists and dictionaries; None if there may be others inside."""
    if isinstance(result, Array):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if not isinstance(result, (tuple, list)):
        return [] if result is None or isinstance(result, (bool, int, float, complex, str, bytes)) else None
    found: list[Array] = []
    for item in result:
        inside = arrays_in(item)
        if inside is None:
            return None
        found += inside
    return found


def copied(result: Any, own: Collection[int], stream: Stream) -> Any:
    """Return a structure like `result` whose arrays in some buffers show copies, made in stream order.

    Parameters
    ----------
    result : object
        Its tuples, lists and dictionaries are made anew; arrays that share a buffer share its copy.
    own : collection of int
        The ids of the buffers that are copied. Arrays in other buffers are returned as they are.
    stream : Stream

    Raises
    ------
    UndefinedOutputsError
        There is no memory for the copies, or making them failed. The step has run.
    """
    try:
        return core.copied(result, own, stream)
    except (HipError, MemoryError) as error:
        raise UndefinedOutputsError.of(error, "the step has run, and its results could not be copied") from error
