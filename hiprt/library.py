"""The HIP library of this process: which one it is, and why the others were refused.

rocm, nvidia and cpu are tried in this order; ``HIPRT_PROVIDER`` picks one. Nothing is opened before `current` is first
called, and the choice is final for the process: the C core and hip-python use the same library.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiprt import core
from hiprt.errors import HipError, ProviderError, check
from hiprt.flags import flags
from hiprt.provider import Files, Provider, Refused, wanted

__all__ = ["Library", "current", "error_name", "hip", "hiprtc", "is_open"]


@dataclass(frozen=True)
class Library:
    """The HIP library in use.

    Attributes
    ----------
    provider : Provider
    hip, hiprtc : Path
        The files with the runtime and the compiler's functions.
    compiler : Path
        The file of the compiler itself.
    version : int
        What hipRuntimeGetVersion says: major * 10,000,000 + minor * 100,000 + patch.
    tried : list of (str, str)
        What was considered before it, and why it was refused.
    """

    provider: Provider
    hip: Path
    hiprtc: Path
    compiler: Path
    version: int
    tried: Refused = field(default_factory=list)


lock = threading.RLock()
chosen: Library | None = None


def is_open() -> bool:
    """Whether a library has been chosen and opened."""
    return chosen is not None


def current() -> Library:
    """Return the library of this process; choose and open it on the first call.

    Raises
    ------
    ProviderError
        None can be used; ``tried`` says why for each.
    """
    global chosen
    if chosen is None:
        with lock:
            if chosen is None:
                chosen = choose()
    return chosen


def hip() -> Any:
    """Return ``rocm.bindings.hip`` bound to the chosen library."""
    current()
    from rocm.bindings import hip as module

    return module


def hiprtc() -> Any:
    """Return ``rocm.bindings.hiprtc`` bound to the chosen library."""
    current()
    from rocm.bindings import hiprtc as module

    return module


def error_name(status: int) -> str:
    """Return the name of a ``hipError_t`` value."""
    if chosen is None:
        return f"hipError_t {status}"
    module = hip()
    try:
        return str(module.hipError_t(status).name)
    except ValueError:
        return f"hipError_t {status}"


def choose() -> Library:
    """Try the providers in order and open the first library that works."""
    flags.check()
    refused: Refused = []
    for provider in wanted(flags.provider):
        for files in provider.find(refused):
            found = open_library(provider, files, refused)
            if found is not None:
                return found
    raise ProviderError(f"no HIP library can be used (HIPRT_PROVIDER={flags.provider})", refused)


def open_library(provider: Provider, files: Files, refused: Refused) -> Library | None:
    """Bind the C core and hip-python to a library."""
    if importlib.util.find_spec("rocm") is None or importlib.util.find_spec("rocm.bindings") is None:
        refused.append((provider.name, "hip-python is not installed: pip install hip-python"))
        return None
    try:
        core.call(core.lib.hiprt_library_open(os.fsencode(files.hip)))
    except HipError as error:
        refused.append((f"{provider} {files.hip}", str(error)))
        return None
    bind_hip_python({"amdhip64": files.hip, "hiprtc": files.hiprtc})
    import rocm.bindings.hip

    module: Any = rocm.bindings.hip
    version = int(check(module.hipRuntimeGetVersion(), "hipRuntimeGetVersion"))
    return Library(provider, *files, version, refused)


def bind_hip_python(libraries: dict[str, Path]) -> None:
    """Make hip-python load these files; it asks for a path at the first call of each library."""
    from rocm.bindings.util import paths

    search = paths.get_library_path

    def get_library_path(shortname: str, bundled_location: Path | None = None) -> bytes:
        path = libraries.get(shortname)
        return os.fsencode(path) if path else search(shortname, bundled_location)

    paths.get_library_path = get_library_path
