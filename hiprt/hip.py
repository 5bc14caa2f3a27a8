"""HIP's functions by their own names, called through the C core's table of the library in use.

``call(lib.hipSetDevice(0))`` raises if HIP reports a failure, and `result` returns what a function writes through its
first parameter. Handles and addresses are numbers. A function is added in ``hiprt/native/hip_functions.h``. The library
must be open (`hiprt.library.current`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hiprt.core import call, failure, ffi, lib

__all__ = ["call", "handle", "lib", "result"]


def result(kind: str, function: Callable[..., int], *args: Any, detail: str = "") -> Any:
    """Call a HIP function whose first parameter receives a value, and return the value.

    Parameters
    ----------
    kind : str
        The value's C type, for example ``int``.
    function : callable
        One of `lib`.
    *args
        The other arguments.
    detail : str
        What the error says besides the function's name.

    Raises
    ------
    HipError
        The call failed.
    """
    out = ffi.new(f"{kind} *")
    status = function(out, *args)
    if status:
        raise failure(status, detail)
    return out[0]


def handle(function: Callable[..., int], *args: Any, detail: str = "") -> int:
    """Call a HIP function whose first parameter receives a handle or an address, and return that as a number."""
    return int(result("uint64_t", function, *args, detail=detail))
