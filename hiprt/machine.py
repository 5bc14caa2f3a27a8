"""The machine: what a measurement was made with and on."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

from hiprt import __version__, library
from hiprt.device import current_device

__all__ = ["commit", "hip_version", "machine"]


def commit() -> str | None:
    """Return the commit of the checkout that the library is imported from, with ``+`` where files differ from it.

    Returns
    -------
    str or None
        None where the library is installed without a checkout, or git is not.
    """

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)

    try:
        # A copy of the package may lie in a checkout of something else, which does not know this file.
        if git("ls-files", "--error-unmatch", __file__).returncode:
            return None
        return git("rev-parse", "--short", "HEAD").stdout.strip() + "+" * bool(
            git("diff", "--quiet", "HEAD").returncode
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def hip_version(version: int) -> str:
    """Return the number by which HIP gives its version as text, for example ``7.2.26015``."""
    return f"{version // 10**7}.{version // 10**5 % 100}.{version % 10**5}"


def host() -> str:
    """Return the operating system, the processor, and how many cores this process may use."""
    processor = platform.processor() or platform.machine()
    table = Path("/proc/cpuinfo")
    if table.exists():
        models = [
            line.split(":", 1)[1].strip() for line in table.read_text().splitlines() if line.startswith("model name")
        ]
        processor = models[0] if models else processor
    return f"{platform.system()} {platform.machine()}, {processor}, {len(os.sched_getaffinity(0))} cores"


def machine() -> dict[str, Any]:
    """Return what results carry so that they can be compared with others.

    Returns
    -------
    dict
        ``date``, ``hiprt`` (the version), ``commit``, ``python``, ``host`` (operating system, processor and number of
        cores), ``provider``, ``library`` (HIP's version there), ``device`` and ``arch``.
    """
    current, device = library.current(), current_device()
    return {
        "date": date.today().isoformat(),
        "hiprt": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "host": host(),
        "provider": current.provider.name,
        "library": hip_version(current.version),
        "device": device.name,
        "arch": device.arch,
    }
