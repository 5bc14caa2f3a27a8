"""Signatures: what two calls of a step must share for one recording to serve both."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from hiprt.array import Array

__all__ = ["form", "identity", "signature_of"]


def signature_of(args: tuple[Any, ...], *, moves: bool) -> tuple[Hashable, ...]:
    """Return the signature of a call.

    Parameters
    ----------
    args : tuple
        Arrays and hashable values.
    moves : bool
        Whether arrays at other addresses may have the same signature.

    Raises
    ------
    TypeError
        An argument is neither an array nor hashable.
    """
    if moves:
        return tuple([arg.form if isinstance(arg, Array) else form(arg) for arg in args])
    return tuple([identity(arg) for arg in args])


def form(value: Any) -> Hashable:
    """Return what makes two arguments alike, whatever the address of an array."""
    if isinstance(value, Array):
        alike: Hashable = value.form
        return alike
    hash(value)
    # 1, 1.0 and True are equal, 0.0 and -0.0 too, also inside tuples; they are not the same argument of a kernel.
    return (type(value), value, repr(value) if isinstance(value, (float, complex, tuple, frozenset)) else "")


def identity(value: Any) -> Hashable:
    """Return what makes two arguments the same, the address of an array included."""
    if isinstance(value, Array):
        return (value.address, value.shape, value.strides, value.dtype)
    return form(value)
