"""A safetensors file whose tensors are views of the mapped file."""

from __future__ import annotations

import json
import math
import mmap
import os
import weakref
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from hiprt.bench.engine.errors import CONVERT, DOWNLOAD, CheckpointError, summary
from hiprt.bench.engine.files import require_file
from hiprt.bench.engine.settings import short
from hiprt.dtype import SAFETENSORS

__all__ = ["Entry", "SafetensorsFile", "address_of"]


@dataclass(frozen=True)
class Entry:
    """One tensor of a safetensors file: its dtype, its shape, and the byte of the file at which it starts."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


class SafetensorsFile:
    """A mapped safetensors file.

    The safetensors library reads and checks the header. Its own tensors are copies, so the views are made here.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    entries : dict of str to Entry
        The tensors by name.
    metadata : dict of str to str
        What the header says beside them.
    bytes : ndarray of uint8
        The mapped file.

    Raises
    ------
    CheckpointError
        The file is missing, truncated or not in the format, or it holds a dtype that numpy has no equal of.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        require_file(path)
        try:
            with path.open("rb") as file:
                header_end = 8 + int.from_bytes(file.read(8), "little")
            nbytes = path.stat().st_size
            if nbytes < header_end:
                raise CheckpointError(f"{path} is truncated or no safetensors file: it ends in its header", DOWNLOAD)
            with safe_open(path, "numpy") as opened:
                slices = {name: opened.get_slice(name) for name in opened.offset_keys()}
                self.metadata: dict[str, str] = opened.metadata() or {}
            with path.open("rb") as file:
                # The library keeps the last of several tensors of one name.
                json.loads(file.read(header_end)[8:], object_pairs_hook=partial(require_unique, path))
        except OSError as error:
            raise CheckpointError(f"{path} cannot be read ({error.strerror or summary(error)})", DOWNLOAD) from None
        except SafetensorError as error:
            if "not fully covered" in str(error):
                cause = f"{path} is truncated or corrupt: its header does not describe the {nbytes} bytes that it has"
            else:
                cause = f"the header of {path} is corrupt ({summary(error)})"
            raise CheckpointError(cause, DOWNLOAD) from None
        self.entries: dict[str, Entry] = {}
        # The library has checked that the tensors lie one behind the other, from the header to the end of the file.
        start = header_end
        for name, part in slices.items():
            dtype = SAFETENSORS.get(part.get_dtype())
            if dtype is None or dtype.kind == "c":
                raise CheckpointError(f"{path}: {name} has dtype {part.get_dtype()}, which is not supported", CONVERT)
            entry = self.entries[name] = Entry(dtype, tuple(part.get_shape()), start)
            start += math.prod(entry.shape) * entry.dtype.itemsize
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self.descriptor)
        self.map = mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.map, np.uint8)
        self.address = address_of(self.bytes)

    def release(self) -> None:
        """Give the memory of pages that were read back to the system; they are read from the file again when needed."""
        self.map.madvise(mmap.MADV_DONTNEED)

    def offset_of(self, view: NDArray[Any]) -> int | None:
        """Return where in the file an array without gaps begins; None if it is no view of the file."""
        offset = address_of(view) - self.address
        return offset if 0 <= offset < self.bytes.size else None

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a read-only view of a tensor."""
        entry = self.entries[name]
        return np.ndarray(entry.shape, entry.dtype, self.bytes.data, entry.start)


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's first element."""
    return int(array.__array_interface__["data"][0])


def require_unique(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a header; raise CheckpointError where it has a name twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise CheckpointError(f"the header of {path} names {short(name)} twice", DOWNLOAD)
        found[name] = value
    return found
