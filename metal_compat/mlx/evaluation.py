"""Evaluation: `eval` and `async_eval` of trees of arrays."""

from __future__ import annotations

from typing import Any

from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.array import array, device_array
from hiprt.stream import current_stream

__all__ = ["async_eval", "device_array", "eval"]


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


def async_eval(*args: Any) -> None:
    """Compute all arrays in trees; the call does not wait for the device."""
    lazy.evaluate([each.value for each in arrays_in(args, [])])


def eval(*args: Any) -> None:  # noqa: A001
    """Compute all arrays in trees, and wait until they are there."""
    lazy.evaluate([each.value for each in arrays_in(args, [])])
    current_stream().synchronize()
