"""The HIP library of this process: which one it is, and why the others were refused.

rocm, nvidia and cpu are tried in this order; ``HIPRT_PROVIDER`` picks one. Nothing is opened before `current` is first
called, and the choice is final for the process: the C core and hip-python use the same library.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hiprt import fork
from hiprt.errors import HipError, ProviderError
from hiprt.flags import flags
from hiprt.hip import call, lib, result
from hiprt.provider import Files, Provider, Refused, wanted

__all__ = ["Library", "current", "hip", "is_open"]


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


lock = fork.rlock()
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
    """Make a library the one of the C core and of hip-python; None if it cannot be used."""
    try:
        call(lib.hiprt_library_open(os.fsencode(files.hip)))
    except HipError as error:
        refused.append((f"{provider} {files.hip}", str(error)))
        return None
    bind_hip_python(files)
    return Library(provider, *files, int(result("int", lib.hipRuntimeGetVersion)), refused)


def hip() -> Any:
    """Return hip-python's ``rocm.bindings.hip``, which calls the library in use.

    hiprt itself does not need it: it is for programs that hold hip-python's handles.

    Raises
    ------
    ImportError
        hip-python is not installed.
    """
    current()
    from rocm.bindings import hip as module

    return module


def bind_hip_python(files: Files) -> None:
    """Make hip-python, where it is installed, load the same files; it asks for a path at the first call of each."""
    try:
        from rocm.bindings.util import paths
    except ImportError:
        return
    libraries = {"amdhip64": files.hip, "hiprtc": files.hiprtc}
    search = paths.get_library_path

    def get_library_path(shortname: str, bundled_location: Path | None = None) -> bytes:
        path = libraries.get(shortname)
        return os.fsencode(path) if path else search(shortname, bundled_location)

    paths.get_library_path = get_library_path
