"""A small call of an op with its exact result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hiprt
from hiprt.array import Array

__all__ = ["Case", "Host", "int32", "normal"]

Host = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """One call of an op.

    Attributes
    ----------
    name : str
        What is special about this call.
    op : callable
        The op; it launches one kernel and returns the array that it wrote.
    given : tuple
        The arguments; host arrays are copied to the device.
    exact : ndarray
        What the array must hold.
    options : dict
        The keyword arguments.
    skipped : int
        How many elements at the front of each array the op does not get, so that addresses are not aligned.
    slack : float
        The error that rounding of intermediates may make, in roundings of the largest exact value.
    magnitude : float
        What roundings of float32 are relative to, where terms cancel; the largest exact value where it is more.
    """

    name: str
    op: Callable[..., Array]
    given: tuple[Any, ...]
    exact: Host
    options: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0
    slack: float = 0.0
    magnitude: float = 0.0

    def call(self) -> Array:
        """Call the op on the device; return the array that it wrote."""
        arrays = [hiprt.array(value) if isinstance(value, np.ndarray) else value for value in self.given]
        return self.op(*(value[self.skipped :] if self.skipped else value for value in arrays), **self.options)


def normal(dtype: np.dtype[Any], *shape: int, seed: int = 0) -> Host:
    """Return normal numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def int32(*values: int) -> Host:
    """Return int32 numbers."""
    return np.array(values, np.int32)
