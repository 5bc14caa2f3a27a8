"""How arrays are written as text, in MLX's form: ``array([1, 2.5], dtype=float32)``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["printoptions", "set_printoptions", "text_of"]

MOST = 6  # elements of an axis that are all written
EDGE = 3  # elements at each end of a longer one


class Options:
    """The number of decimals that floats are written with; -1 stands for six significant digits."""

    precision = -1


options = Options()


def set_printoptions(precision: int = -1) -> None:
    """Set the number of decimals that floats are written with; -1 stands for six significant digits."""
    options.precision = int(precision)


@contextmanager
def printoptions(precision: int = -1) -> Iterator[None]:
    """Set the number of decimals for a block of statements."""
    before, options.precision = options.precision, int(precision)
    try:
        yield
    finally:
        options.precision = before


def text_of(host: np.ndarray[Any, Any], name: str) -> str:
    """Return the text of an array on the host whose dtype has a name."""
    shown = nested(host, len("array(") + 1) if host.ndim else number(host.item())
    return f"array({shown}, dtype={name})"


def nested(host: np.ndarray[Any, Any], indent: int) -> str:
    """Return the text of an array with at least one axis, whose further lines are indented."""
    n = host.shape[0]
    places = range(n) if n <= MOST else [*range(EDGE), None, *range(n - EDGE, n)]
    if host.ndim == 1:
        return f"[{', '.join('...' if i is None else number(host[i].item()) for i in places)}]"
    parts = ("..." if i is None else nested(host[i], indent + 1) for i in places)
    return f"[{(',' + chr(10) + ' ' * indent).join(parts)}]"


def number(value: Any) -> str:
    """Return the text of a number."""
    if isinstance(value, complex):
        sign = "+" if not value.imag < 0 else ""
        return f"{real(value.real)}{sign}{real(value.imag)}j"
    return real(value) if isinstance(value, float) else str(value)


def real(value: float) -> str:
    """Return the text of a float."""
    return f"{value:g}" if options.precision < 0 else f"{value:.{options.precision}f}"
