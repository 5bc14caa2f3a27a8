"""The C core: the only module that imports the extension ``hiprt._core``.

`call` raises what the status of a core function stands for. The core's interface is the public part of the headers in
``hiprt/native``, ``allocator/native`` and ``graphs/native``, which ``hiprt/native/build.py`` puts together.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from hiprt.errors import HipError, error_of

try:
    from hiprt import _core
    from hiprt._core import ffi, lib
except ImportError:
    if importlib.util.find_spec("hiprt._core") is not None:
        raise
    # Python runs in a checkout, and finds its folder before the package that is installed.
    raise ImportError(
        f"hiprt was imported from {Path(__file__).parent}, which is a source folder that is not built: "
        "run Python in another folder, or install with pip install -e ."
    ) from None

__all__ = ["FILE", "address", "call", "create", "failure", "ffi", "lib", "owned", "status_name"]

FILE: str = _core.__file__


def failure(status: int, detail: str = "") -> HipError:
    """Return the exception for the thread's last failure of the core; `detail` where the core gives none."""
    function = ffi.string(lib.hiprt_failure_call()).decode()
    detail = ffi.string(lib.hiprt_failure_detail()).decode() or detail
    if status < 0:
        return HipError(status, ffi.string(lib.hiprt_status_name(status)).decode(), function, detail)
    if function.startswith("hiprtc"):
        return HipError(status, status_name("hiprtcResult", status), function, detail)
    return error_of(status, status_name("hipError_t", status), function, detail)


def status_name(kind: str, status: int) -> str:
    """Return the name of a ``hipError_t`` or a ``hiprtcResult``."""
    return str(ffi.typeof(kind).elements.get(status, f"{kind} {status}"))


def call(status: int) -> None:
    """Raise if a core function returned a failure.

    Raises
    ------
    HipError
        ``status`` is not 0.
    """
    if status:
        raise failure(status)


def create(kind: str, release: Any, function: Any, *args: Any) -> Any:
    """Return what a ``*_create`` function of the core makes; `release` gives it up when nobody holds it.

    Raises
    ------
    HipError
        The function failed.
    """
    # The place of the pointer exists before the object does, which a failure to make one would lose.
    out = ffi.new(f"{kind} **")
    call(function(*args, out))
    return owned(out, release)


def owned(out: Any, release: Any) -> Any:
    """Return the object whose pointer a function has written; `release` gives it up when nobody holds it."""
    try:
        return ffi.gc(out[0], release)
    except MemoryError:
        release(out[0])
        raise


def address(pointer: Any) -> int:
    """Return a pointer as a number, as `hiprt.objects` takes it."""
    return int(ffi.cast("uintptr_t", pointer))
