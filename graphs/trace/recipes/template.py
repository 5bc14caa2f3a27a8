"""Templates: what makes the arguments of a recipe's calls, its result, and the objects that it leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hiprt.array import Array
from hiprt.graphs.trace.recipes.pattern import PLAIN

__all__ = [
    "A_DICT",
    "A_LIST",
    "A_TUPLE",
    "CONSTANT",
    "FOUND",
    "GIVEN",
    "NEW",
    "SUM",
    "VALUE",
    "argument",
    "moved",
]

# Kinds of templates, as `core.Recipe` takes them.
CONSTANT, VALUE, A_LIST, A_TUPLE, A_DICT, NEW, GIVEN, FOUND, SUM = range(9)


def argument(part: Any, places: Iterator[int]) -> tuple[Any, ...]:
    """Return the template of an argument of an op; `places` gives those of the arrays in it, in order."""
    kind = type(part)
    if kind in PLAIN:
        return (CONSTANT, part)
    if isinstance(part, Array):
        return (VALUE, next(places))
    if not isinstance(part, (list, tuple, dict)):
        return (CONSTANT, part)
    items = tuple([argument(each, places) for each in (part.values() if isinstance(part, dict) else part)])
    if all(each[0] == CONSTANT for each in items):
        return (CONSTANT, part)
    if isinstance(part, dict):
        return (A_DICT, tuple(part), items)
    return (A_LIST if isinstance(part, list) else A_TUPLE, items)


def moved(template: tuple[Any, ...], by: int) -> tuple[Any, ...]:
    """Return a template whose sums stand behind so many tests."""
    kind = template[0]
    if kind == SUM:
        return (SUM, template[1] + by)
    if kind in (A_LIST, A_TUPLE):
        return (kind, tuple([moved(each, by) for each in template[1]]))
    return (kind, template[1], tuple([moved(each, by) for each in template[2]])) if kind == A_DICT else template
