"""Compiled code on disk, shared by all processes of a user: entries by key, how much there is, and how it becomes less.

Files may go at any time: what is loaded is in memory, and what is missing is compiled again. The CPU device keeps its
entries in the same folder, in the folder ``cpu`` of it (`hiprt/cpu/compile/cache.cpp`), and bounds it by the same
rules.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import platformdirs

from hiprt.errors import HipWarning
from hiprt.flags import flags

__all__ = ["CodeCache", "key_of"]

MAGIC = b"hiprt-code-1\n"
HASH = 64  # hexadecimal digits
ABANDONED = 3600.0  # seconds after which the file of a writer that died may go
serials = itertools.count()


def key_of(parts: Iterable[str]) -> str:
    """Return the hash of texts; each ends where it ends, so that no two sequences are alike."""
    sum_ = hashlib.sha256()
    for part in parts:
        text = part.encode()
        sum_.update(len(text).to_bytes(8, "little") + text)
    return sum_.hexdigest()


class CodeCache:
    """The files of a cache folder.

    Parameters
    ----------
    folder : Path, optional
        Default: ``HIPRT_CACHE_DIR``, else the platform's cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(flags.cache_dir or platformdirs.user_cache_dir("hiprt"))

    def path(self, kind: str, key: str) -> Path:
        """Return where an entry lies."""
        return self.folder / kind / key[:2] / key[2:]

    def load(self, kind: str, key: str) -> tuple[bytes, dict[str, str]] | None:
        """Return code and names of an entry, which is now the one used last; None if it is not there or not whole.

        Parameters
        ----------
        kind : str
            Of entries: the provider.
        key : str
            What `key_of` returned for everything the code depends on.
        """
        try:
            with opened(self.path(kind, key)) as file:
                whole = file.read()
                os.utime(file.fileno())
        except OSError:
            return None
        start = len(MAGIC) + HASH
        if whole[:start] != MAGIC + hashlib.sha256(whole[start:]).hexdigest().encode():
            return None
        names, _, code = whole[start:].partition(b"\n")
        return code, json.loads(names)

    def store(self, kind: str, key: str, code: bytes, names: dict[str, str]) -> None:
        """Keep code; readers see all of it or nothing. A folder that cannot be written is a warning.

        What is too much afterwards is removed (``HIPRT_CACHE_MAX_MB``).
        """
        path = self.path(kind, key)
        body = json.dumps(names).encode() + b"\n" + code
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{next(serials)}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                fresh.write_bytes(MAGIC + hashlib.sha256(body).hexdigest().encode() + body)
                fresh.replace(path)
            finally:
                fresh.unlink(missing_ok=True)
            if flags.cache_max_mb:
                self.trim(flags.cache_max_mb << 20)
        except OSError as error:
            text = f"{self.folder} cannot be written, and every process compiles its kernels again ({error.strerror})"
            warnings.warn(text, HipWarning, stacklevel=2)

    def files(self) -> list[tuple[float, int, Path]]:
        """Return time of last use (as far as the file system keeps it), bytes and path; the longest unused first."""
        found = []
        for path in self.folder.rglob("*"):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another process removed it
            if path.is_file():
                found.append((max(status.st_atime, status.st_mtime), status.st_size, path))
        return sorted(found)

    def trim(self, nbytes: int) -> tuple[int, int]:
        """Remove the longest unused files until at most `nbytes` are left; 0 empties the cache.

        Files that a process has open, or is writing, stay.

        Returns
        -------
        files, bytes : int
            What was removed.
        """
        files = self.files()
        excess = sum(size for _, size, _ in files) - nbytes
        removed = freed = 0
        for used, size, path in files:
            if freed >= excess:
                break
            if is_written(path, used) or not remove(path):
                continue
            removed, freed = removed + 1, freed + size
        return removed, freed


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open an entry for reading, and say so to who trims."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield file


def is_written(path: Path, used: float) -> bool:
    """Whether a process may be writing a file: it has not got its entry's name yet."""
    return "." in path.name and time.time() - used < ABANDONED


def remove(path: Path) -> bool:
    """Remove a file unless a process has it open."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
