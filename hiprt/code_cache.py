"""The cache of compiled code on disk, shared by all processes of a user.

``hiprt/native/cache/code_cache.c`` keeps it: where it lies, what a key and an entry are, and which files go when there
are too many. The CPU device uses the same functions, so that both bound one folder by one rule. Files may go at any
time: what is loaded is in memory, and what is missing is compiled again.
"""

from __future__ import annotations

import json
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any

from hiprt.core import ffi, lib
from hiprt.errors import HipWarning
from hiprt.flags import flags

__all__ = ["CodeCache", "folder"]


def folder() -> Path:
    """Return the cache's folder: ``HIPRT_CACHE_DIR``, else the platform's cache folder.

    A user without a home has a folder for this process only.
    """
    if flags.cache_dir:
        return Path(flags.cache_dir)
    found = taken(lib.hiprt_cache_default_folder())
    return temporary_folder() if found is None else Path(os.fsdecode(ffi.string(found)))


@cache
def temporary_folder() -> Path:
    """Return a folder that is removed when the process ends."""
    import atexit
    import shutil
    import tempfile

    made, owner = tempfile.mkdtemp(prefix="hiprt-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # and not a child that was forked from it
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return Path(made)


def taken(memory: Any) -> Any:
    """Return memory that C gave away, freed when the last reference to it goes; None where it gave none."""
    return ffi.gc(memory, lib.hiprt_cache_free) if memory else None


class CodeCache:
    """The files of a cache folder.

    Parameters
    ----------
    place : Path, optional
        The folder; `folder()` by default.
    """

    def __init__(self, place: Path | None = None) -> None:
        self.folder = place or folder()
        self.place = os.fsencode(self.folder)

    def load(self, provider: str, key: str) -> tuple[bytes, dict[str, str]] | None:
        """Return code and names of an entry, which now counts as just used.

        Parameters
        ----------
        provider : str
            The name of the provider that the code is for.
        key : str
            What `hiprt.cache_key.key_of` returned for everything that the code depends on.

        Returns
        -------
        (bytes, dict) or None
            None if the entry is not there or not whole.
        """
        size = ffi.new("uint64_t *")
        content = taken(lib.hiprt_cache_load(self.place, provider.encode(), key.encode(), size))
        if content is None:
            return None
        text, _, code = bytes(ffi.buffer(content, size[0])).partition(b"\n")
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            return None
        is_table = isinstance(names, dict) and all(isinstance(name, str) for name in names.values())
        return (code, names) if is_table else None

    def store(self, provider: str, key: str, code: bytes, names: dict[str, str]) -> None:
        """Keep code, and remove what is then too much (``HIPRT_CACHE_MAX_MB``).

        Readers see all of the entry or nothing. A folder that cannot be written is a warning.
        """
        content = json.dumps(names).encode() + b"\n" + code
        limit = flags.cache_max_mb << 20
        status = lib.hiprt_cache_store(self.place, provider.encode(), key.encode(), content, len(content), limit)
        if status:
            reason = os.strerror(status)
            text = f"{self.folder} cannot be written, and every process compiles its kernels again ({reason})"
            warnings.warn(text, HipWarning, stacklevel=2)

    def size(self) -> tuple[int, int]:
        """Return how many files there are, and their bytes."""
        counts = ffi.new("uint64_t[2]")
        lib.hiprt_cache_measure(self.place, counts, counts + 1)
        return counts[0], counts[1]

    def trim(self, nbytes: int) -> tuple[int, int]:
        """Remove the files that were not used for the longest time until at most `nbytes` are left.

        Files that a process has open, or is writing, stay. 0 empties the cache.

        Returns
        -------
        files, bytes : int
            What was removed.
        """
        counts = ffi.new("uint64_t[2]")
        lib.hiprt_cache_trim(self.place, nbytes, counts, counts + 1)
        return counts[0], counts[1]
