"""Device results: what was found out about a device by trying, kept on disk for this library and this device."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hiprt import code_cache, library
from hiprt.device import Device
from hiprt.flags import flags
from hiprt.whole_file import whole_file

__all__ = ["file_of", "load", "store"]


def file_of(kind: str, device: Device, *parts: object) -> Path:
    """Return where results are kept: another library, version, device or quirk has another file.

    Parameters
    ----------
    kind : str
        The folder of such results in the cache.
    device : Device
    *parts
        What else the results depend on.
    """
    chosen = library.current()
    stat = chosen.hip.stat() if chosen.hip.exists() else None
    identity = (
        chosen.provider.name, str(chosen.hip), chosen.version, stat and (stat.st_size, stat.st_mtime_ns),
        device.name, device.arch, flags.cpu_profile, flags.cpu_quirks, *parts,
    )  # fmt: skip
    return code_cache.folder() / kind / f"{hashlib.sha256(repr(identity).encode()).hexdigest()[:32]}.json"


def load(file: Path) -> Any:
    """Return what a file keeps; None where it cannot be read."""
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return None


def store(file: Path, results: Any) -> None:
    """Keep results on disk; a folder that cannot be written only costs time."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(file) as fresh:
            fresh.write_text(json.dumps(results, indent=1))
