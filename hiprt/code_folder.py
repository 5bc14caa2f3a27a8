"""Folders of code objects that were compiled ahead, for a process that has no compiler or no time for it.

``hiprt compile program.hiprt --out folder`` fills a folder; ``HIPRT_CODE_DIR``, or `use`, names those in which a
process looks before it compiles. Code is found by the architecture and by all that the program is made of, whichever
compiler made it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hiprt.cache_key import key_of
from hiprt.code_cache import CodeCache
from hiprt.flags import flags

__all__ = ["Source", "find", "keep", "kept_in", "store", "use"]

used: list[Path] = []
kept: list[Path] = []


class Source(NamedTuple):
    """A program that is to be compiled.

    Attributes
    ----------
    text, name : str
        HIP C++, and the file name in messages.
    options, expressions : tuple of str
        hiprtc's options without the target, and the kernels to instantiate.
    """

    text: str
    name: str
    options: tuple[str, ...]
    expressions: tuple[str, ...]

    @property
    def key(self) -> str:
        """What names the program's code in a folder."""
        return key_of(["ahead"], self.name, self.text, self.options, self.expressions)


def use(folder: str | os.PathLike[str]) -> None:
    """Look in a folder for code before anything is compiled.

    Raises
    ------
    FileNotFoundError
        There is no such folder.
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is no folder of code objects; hiprt compile makes one: --out {path}")
    if path not in used:
        used.append(path)


def find(arch: str, source: Source) -> tuple[bytes, dict[str, str]] | None:
    """Return the code of a program and the names of its kernels, from the first folder that has them."""
    folders = [*used, *([Path(flags.code_dir)] if flags.code_dir else [])]
    if not folders:
        return None
    key = source.key
    found = (CodeCache(folder).load(kind_of(arch), key) for folder in folders)
    return next((each for each in found if each is not None), None)


def store(folder: Path, arch: str, source: Source, code: bytes, names: dict[str, str]) -> None:
    """Put the code of a program into a folder."""
    CodeCache(folder).store(kind_of(arch), source.key, code, names)


def keep(arch: str, source: Source, code: bytes, names: dict[str, str]) -> None:
    """Put what was compiled into the folders of `kept_in`."""
    for folder in kept:
        store(folder, arch, source, code, names)


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Put all that is compiled within the block into a folder as well."""
    kept.append(folder)
    try:
        yield
    finally:
        kept.remove(folder)


def kind_of(arch: str) -> str:
    """Return the part of a folder for an architecture, without its features: ``gfx942`` of ``gfx942:xnack-``."""
    return arch.partition(":")[0]
