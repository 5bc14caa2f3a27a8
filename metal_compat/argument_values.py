"""Values of a call's arguments: the shapes, dtypes and arrays that they stand for, by MLX's rules."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hiprt.array import Array
from hiprt.kernels.lang.metal_body import WORDS

__all__ = ["call_error", "dtype_of", "input_value", "is_list", "shape_of", "template_value", "three_sizes"]

NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}


def call_error(reason: str) -> TypeError:
    """Return the error for an argument of a wrong type."""
    return TypeError(f"__call__(): incompatible function arguments. {reason}")


def integer(value: Any) -> int | None:
    """Return an int of 32 bits, from Python's or numpy's integers; None for anything else."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return number if -(2**31) <= number < 2**31 else None


def three_sizes(name: str, value: Any) -> tuple[int, int, int]:
    """Return a grid or threadgroup.

    Raises
    ------
    TypeError
        The value is not three integers.
    """
    sizes = [integer(size) for size in value] if isinstance(value, Iterable) and not isinstance(value, str) else []
    if len(sizes) != 3 or None in sizes:
        raise call_error(f"`{name}` must be three integers of 32 bits, not {value!r}.")
    return (sizes[0] or 0, sizes[1] or 0, sizes[2] or 0)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return one output's shape.

    Raises
    ------
    TypeError
        The value is not a sequence of integers.
    """
    sizes = [integer(size) for size in value] if isinstance(value, Iterable) and not isinstance(value, str) else [None]
    if None in sizes:
        raise call_error(f"`output_shapes` must hold sequences of integers, not {value!r}.")
    return tuple(size or 0 for size in sizes)


def as_dtype(value: Any) -> np.dtype[Any] | None:
    """Return the dtype of a dtype object or of one of numpy's scalar types; None for anything else, names included."""
    if isinstance(value, np.dtype):
        return value if value in WORDS else None
    if isinstance(value, type) and issubclass(value, np.generic):
        made = np.dtype(value)
        return made if made in WORDS else None
    return None


def dtype_of(value: Any) -> np.dtype[Any]:
    """Return one output's dtype.

    Raises
    ------
    TypeError
        The value is not a dtype that Metal has.
    """
    dtype = as_dtype(value)
    if dtype is None:
        raise call_error(f"`output_dtypes` must hold dtypes, not {value!r}.")
    return dtype


def template_value(value: Any) -> Any:
    """Return one value of a template: a dtype, an int or a bool.

    Raises
    ------
    ValueError
        The value is none of these.
    """
    if isinstance(value, bool) or (type(value) is int and integer(value) is not None):
        return value
    dtype = as_dtype(value)
    if dtype is None:
        raise ValueError("[metal_kernel] Invalid template argument. Must be `mlx.core.Dtype`, `int` or `bool`.")
    return dtype


def input_value(value: Any) -> Array | np.ndarray[Any, Any]:
    """Return an input as an array; it is a numpy array unless it was an `Array`.

    Parameters
    ----------
    value : Array, numpy array or number
        float64 and complex128 of the host become float32 and complex64. A Python int becomes int32 where it fits.

    Raises
    ------
    ValueError
        The value is a sequence, or an int of more than 64 bits.
    """
    if isinstance(value, Array):
        return value
    if type(value) is int:
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"{value} does not fit an integer of 64 bits.")
        return np.asarray(value, np.int32 if -(2**31) <= value < 2**31 else np.int64)
    if isinstance(value, (bool, float, complex, np.ndarray, np.generic)):
        host = np.asarray(value)
        dtype = NARROWER.get(host.dtype, host.dtype)
        if dtype in WORDS:
            return host.astype(dtype, copy=False)
    raise ValueError(f"Invalid type {type(value).__name__} received in array initialization.")


def is_list(value: Any) -> bool:
    """Whether a value serves as a list of arguments."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))
