"""Files that others find whole: as they were before, or as they are now."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: Path | str) -> Iterator[Path]:
    """Give a file to write beside another, whose place it takes when the block ends; where the block fails, it goes.

    Parameters
    ----------
    path : Path or str
        The file that is there afterwards, new or in the place of one.

    Raises
    ------
    OSError
        The file cannot take the place; FileExistsError where a folder, a device or a pipe is there, since a device such
        as /dev/null would be replaced.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise FileExistsError(f"{path} is no file: give the name of one")
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        yield fresh
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
