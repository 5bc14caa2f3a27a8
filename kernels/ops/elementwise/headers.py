"""Headers: what the text of an elementwise kernel includes."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["headers_of"]


def headers_of(words: Iterable[str]) -> tuple[str, ...]:
    """Return the headers of a kernel whose values have these types."""
    return ("elementwise/expression.h", *(("elementwise/complex.h",) if "complex64_t" in words else ()))
