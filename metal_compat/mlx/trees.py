"""Trees of arrays: what functions of MLX take in the place of an array."""

from __future__ import annotations

from typing import Any

from hiprt.metal_compat.mlx.array import array

__all__ = ["arrays_in"]


def arrays_in(tree: Any, found: list[array]) -> list[array]:
    """Return the arrays in lists, tuples, dictionaries, and modules, which are dictionaries."""
    if isinstance(tree, array):
        found.append(tree)
    elif isinstance(tree, dict):
        for each in tree.values():
            arrays_in(each, found)
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            arrays_in(each, found)
    return found
