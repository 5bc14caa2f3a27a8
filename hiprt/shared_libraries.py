"""Files of shared libraries: the versions in a folder, those in the linker's cache, and what lies beside a library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

__all__ = ["beside", "in_linker_cache", "own_version", "versions_in"]

CACHE_ENTRY = re.compile(r"^\s*(\S+) \(.*\) => (/.+)$", re.MULTILINE)  # `ldconfig -p`: NAME (KIND) => PATH
SECONDS = 10.0


def versions_in(folder: Path, name: str) -> list[Path]:
    """Return a library's files in a folder, each file once: the link without a version first, then the newest.

    Parameters
    ----------
    folder : Path
    name : str
        The library's name up to its version, for example ``libamdhip64.so``.
    """
    return in_order(path for path in folder.glob(f"{name}*") if path.name == name or path.name.startswith(f"{name}."))


def in_linker_cache(name: str) -> list[Path]:
    """Return a library's files that the dynamic linker finds without a path, the newest first.

    The linker's cache has them where a distribution installs them, and what ``/etc/ld.so.conf`` adds. It is empty where
    the system has no ``ldconfig``.
    """
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/sbin", "/usr/sbin"])
    ldconfig = shutil.which("ldconfig", path=path)
    if ldconfig is None:
        return []
    try:
        listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, timeout=SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = (Path(at) for entry, at in CACHE_ENTRY.findall(listed) if entry == name or entry.startswith(f"{name}."))
    return in_order(path for path in found if path.exists())


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return the files once each; names without a version come first, then the newest versions."""
    ordered = sorted(sorted(paths), key=version_in_name, reverse=True)
    ordered.sort(key=lambda path: not path.name.endswith(".so"))
    first_names: dict[Path, Path] = {}
    for path in ordered:
        first_names.setdefault(path.resolve(), path)
    return list(first_names.values())


def version_in_name(path: Path) -> tuple[int, ...]:
    """Return the version that ends a file's name: (7, 2) for ``libamdhip64.so.7.2``, and () without one."""
    found = re.search(r"\.so((?:\.\d+)+)$", path.name)
    return tuple(map(int, found[1].split(".")[1:])) if found else ()


def own_version(path: Path) -> tuple[int, ...]:
    """Return the version of a library by the name of the file that its links lead to."""
    return version_in_name(path.resolve()) or version_in_name(path)


def beside(library: Path, name: str) -> Path | None:
    """Return the file of another library of the same version in the folder of a library, or None.

    Parameters
    ----------
    library : Path
        A library's file, or a link to it. The folder of the link comes before that of the file.
    name : str
        The other's name up to its version, for example ``libhiprtc.so``. The same full version is preferred. A file
        of another major version is none of its companions; a file that names no version is one.
    """
    version = own_version(library)
    for folder in dict.fromkeys((library.parent, library.resolve().parent)):
        files = versions_in(folder, name)
        exact = [path for path in files if own_version(path) == version]
        alike = [path for path in files if not version or own_version(path)[:1] in ((), version[:1])]
        if exact or alike:
            return (exact or alike)[0]
    return None
