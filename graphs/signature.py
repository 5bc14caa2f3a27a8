"""Signatures: what two calls of a step must share for one recording to serve both."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from hiprt.array import Array

__all__ = ["MOST_BYTES", "arrays_of", "form_of", "is_frozen", "signature_of", "value_of"]

MOST_BYTES = 65536  # of a numpy array that is compared by content at each call
KEYWORDS = "keywords"  # stands before them: they are no dictionary among the other arguments
EXACT = frozenset((int, str, bytes, bool, type(None)))  # equal values of these types are the same value


def signature_of(args: tuple[Any, ...], keywords: dict[str, Any] | None = None, *, moves: bool) -> tuple[Hashable, ...]:
    """Return the signature of a call.

    Parameters
    ----------
    args : tuple
        Arrays, values, and lists, tuples and dictionaries of them. A value is hashable, or a small numpy array.
    keywords : dict, optional
        The same, by name.
    moves : bool
        Whether arrays at other addresses may have the same signature.

    Raises
    ------
    TypeError
        An argument is nothing of this.
    """
    if moves:
        array = form_of_array
        parts = [arg.form if isinstance(arg, Array) else described(arg, array, value_of) for arg in args]
    else:
        array = identity_of_array
        parts = [array(arg) if isinstance(arg, Array) else described(arg, array, value_of) for arg in args]
    return (*parts, KEYWORDS, described(keywords, array, value_of)) if keywords else tuple(parts)


def form_of(args: tuple[Any, ...], keywords: dict[str, Any] | None = None) -> tuple[Hashable, ...]:
    """Return what remains of a signature without plain values and addresses: structure, types and forms."""
    parts = [described(arg, form_of_array, kind_of) for arg in args]
    return (*parts, KEYWORDS, described(keywords, form_of_array, kind_of)) if keywords else tuple(parts)


def described(value: Any, array: Callable[[Array], Hashable], plain: Callable[[Any], Hashable]) -> Hashable:
    """Describe an argument by what is said of each array and each plain value in it."""
    if isinstance(value, Array):
        return array(value)
    if isinstance(value, (tuple, list)):
        return (type(value), *[described(item, array, plain) for item in value])
    if isinstance(value, dict):
        return (type(value), *[(value_of(key), described(item, array, plain)) for key, item in value.items()])
    return plain(value)


def form_of_array(value: Array) -> Hashable:
    """Describe an array, whatever its address."""
    alike: Hashable = value.form
    return alike


def identity_of_array(value: Array) -> Hashable:
    """Describe an array and its address."""
    return (value.address, value.shape, value.strides, value.dtype)


def kind_of(value: Any) -> Hashable:
    """Describe a plain value, whatever it is."""
    return (type(value), value.dtype, value.shape) if isinstance(value, np.ndarray) else (type(value),)


def value_of(value: Any) -> Hashable:
    """Describe a plain value.

    1, 1.0 and True are equal, 0.0 and -0.0 too, but they are not the same argument of a kernel.
    """
    kind = type(value)
    if kind in EXACT:
        return (kind, value)
    if isinstance(value, (np.ndarray, np.generic)):
        return (kind, value.dtype, value.shape, content_of(value))
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"unhashable argument of type {kind.__name__}: a step takes arrays, hashable values, numpy values, and "
            "lists, tuples and dictionaries of them"
        ) from None
    return (kind, value, repr(value) if isinstance(value, (float, complex, frozenset)) else "")


def content_of(value: np.ndarray[Any, Any] | np.generic) -> bytes:
    """Return the bytes of a numpy value."""
    if value.dtype.hasobject:
        raise TypeError(f"a numpy array of {value.dtype} is no argument of a step: its objects cannot be compared")
    if value.nbytes > MOST_BYTES:
        raise TypeError(
            f"a numpy array of {value.nbytes:,} bytes is no argument of a step, which compares values by content at "
            f"each call (up to {MOST_BYTES:,} bytes): pass hiprt.array(…), and write into that with set()"
        )
    return value.tobytes()


def arrays_of(*values: Any) -> list[Array]:
    """Return the arrays in arguments, and in lists, tuples and dictionaries of them."""
    found = [value for value in values if isinstance(value, Array)]
    if len(found) == len(values):
        return found
    found = []
    for value in values:
        if isinstance(value, Array):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            found += arrays_of(*value)
        elif isinstance(value, dict):
            found += arrays_of(*value.values())
    return found


def is_frozen(args: tuple[Any, ...]) -> bool:
    """Whether the same objects are the same arguments at any time: no list, dictionary or numpy array is inside."""
    return not any(
        isinstance(arg, (list, dict, np.ndarray)) or (isinstance(arg, tuple) and not is_frozen(arg)) for arg in args
    )
