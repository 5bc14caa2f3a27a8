"""The folder of compiled kernels: how much lies there, and how to make it less.

The CPU device fills it, keyed by source, options, compiler and processor. Files may go at any time: what is loaded is
in memory, and what is missing is compiled again.
"""

from __future__ import annotations

from pathlib import Path

import platformdirs

from hiprt.flags import flags

__all__ = ["DiskCache"]


class DiskCache:
    """The files of a cache folder.

    Parameters
    ----------
    folder : Path, optional
        Default: ``HIPRT_CACHE_DIR``, else the platform's cache folder.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(flags.cache_dir or platformdirs.user_cache_dir("hiprt"))

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

        Returns
        -------
        files, bytes : int
            What was removed.
        """
        files = self.files()
        excess = sum(size for _, size, _ in files) - nbytes
        removed = freed = 0
        for _, size, path in files:
            if freed >= excess:
                break
            path.unlink(missing_ok=True)
            removed, freed = removed + 1, freed + size
        return removed, freed
