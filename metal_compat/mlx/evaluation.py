"""Evaluation: `eval` and `async_eval` of trees of arrays."""

from __future__ import annotations

from typing import Any

from hiprt.graphs.trace import lazy
from hiprt.metal_compat.mlx.array import device_array
from hiprt.metal_compat.mlx.memory import keep_to_limit
from hiprt.metal_compat.mlx.trees import arrays_in

__all__ = ["async_eval", "device_array", "eval"]


def async_eval(*args: Any) -> None:
    """Compute all arrays in trees; the call does not wait for the device."""
    lazy.evaluate([each.value for each in arrays_in(args, [])])


def eval(*args: Any) -> None:  # noqa: A001
    """Compute all arrays in trees, and wait until they are there."""
    values = [each.value for each in arrays_in(args, [])]
    lazy.evaluate(values)
    lazy.wait(values)
    keep_to_limit()
