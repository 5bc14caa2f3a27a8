"""Trees: arguments and results of functions, as lists, tuples and dictionaries with arrays in them.

Functions take the class of what they look for, which is that of arrays unless lazy arrays or sizes are meant.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

from hiprt.array import Array

__all__ = ["arrays_of", "fill", "mapped", "paths", "structure", "swap"]

CONSTANTS = (bool, int, float, str, type(None))


def structure(tree: Any, arrays: list[Any], leaf: type = Array) -> Hashable:
    """Return all of a tree but its arrays, hashable; append these to `arrays` in order.

    Two trees with one structure differ in their arrays only: numbers of different types are different, lists differ
    from tuples, and the order of a dictionary counts.

    Raises
    ------
    ValueError
        There is something else than arrays and constants in it.
    """
    if isinstance(tree, leaf):
        arrays.append(tree)
        return Array
    kind = type(tree)
    if isinstance(tree, (tuple, list)):
        return (kind, *[structure(each, arrays, leaf) for each in tree])
    if isinstance(tree, dict):
        return (kind, *[(name, structure(each, arrays, leaf)) for name, each in tree.items()])
    if not isinstance(tree, CONSTANTS):
        remedy = " hiprt.array() makes an array of it." if isinstance(tree, (np.ndarray, np.generic)) else ""
        raise ValueError(
            "[compile] Function arguments must be trees of arrays or constants (floats, ints, strings, or None), but "
            f"received type {kind.__name__}.{remedy}"
        )
    # 0.0 and -0.0 are equal, and NaN is not equal to itself.
    return (kind, repr(tree)) if isinstance(tree, float) else (kind, tree)


def mapped(tree: Any, replaced: Callable[[Any], Any], leaf: type = Array) -> Any:
    """Return a copy of a tree with each array replaced; what is no list, tuple or dictionary stays as it is."""
    if isinstance(tree, leaf):
        return replaced(tree)
    if isinstance(tree, (tuple, list)):
        items = [mapped(each, replaced, leaf) for each in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {name: mapped(each, replaced, leaf) for name, each in tree.items()}
    return tree


def arrays_of(tree: Any) -> list[Array]:
    """Return the arrays in a tree, in order."""
    found: list[Array] = []

    def note(array: Array) -> Array:
        found.append(array)
        return array

    mapped(tree, note)
    return found


def paths(tree: Any, name: str) -> Iterator[str]:
    """Yield the place of each array in a tree of this name, in order, as Python writes it."""
    if isinstance(tree, Array):
        yield name
    elif isinstance(tree, (tuple, list)):
        for i, each in enumerate(tree):
            yield from paths(each, f"{name}[{i}]")
    elif isinstance(tree, dict):
        for key, each in tree.items():
            yield from paths(each, f"{name}[{key!r}]")


def swap(tree: Any, replaced: Callable[[Any], Any], leaf: type = Array) -> None:
    """Replace each array in a tree: lists and dictionaries have another one then, and other tuples.

    Raises
    ------
    TypeError
        An array is in no list or dictionary, so that it can have no other in its place.
    """
    if swapped(tree, replaced, leaf) is not tree:
        raise TypeError("[compile] Arrays of captured state must be in lists or dictionaries, not in a tuple alone.")


def swapped(tree: Any, replaced: Callable[[Any], Any], leaf: type) -> Any:
    """Return what stands for a part of a tree after `swap`."""
    if isinstance(tree, leaf):
        return replaced(tree)
    if isinstance(tree, tuple):
        return renewed(tree, [swapped(each, replaced, leaf) for each in tree])
    places = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
    for place, each in list(places):
        tree[place] = swapped(each, replaced, leaf)
    return tree


def renewed(before: tuple[Any, ...], items: list[Any]) -> Any:
    """Return a tuple of the same kind with other items; the same one if it has them already."""
    if len(before) == len(items) and all(a is b for a, b in zip(before, items)):
        return before
    return type(before)(*items) if hasattr(before, "_fields") else type(before)(items)


def fill(tree: Any, contents: Any) -> None:
    """Give the lists and dictionaries of a tree the contents of another; those that both have stay the same objects."""
    if isinstance(tree, dict):
        for name in [name for name in tree if name not in contents]:
            del tree[name]
        for name, each in contents.items():
            tree[name] = inside(tree.get(name), each)
    elif isinstance(tree, list):
        old = dict(enumerate(tree))
        tree[:] = [inside(old.get(i), each) for i, each in enumerate(contents)]
    elif isinstance(tree, tuple):
        for mine, its in zip(tree, contents):
            fill(mine, its)


def inside(mine: Any, its: Any) -> Any:
    """Return what belongs in a place: the container there with new contents, or something new."""
    if isinstance(mine, tuple) and type(mine) is type(its) and len(mine) == len(its):
        return renewed(mine, [inside(a, b) for a, b in zip(mine, its)])
    if any(isinstance(mine, kind) and isinstance(its, kind) for kind in (dict, list)):
        fill(mine, its)
        return mine
    return its
