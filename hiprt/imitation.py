"""What the CPU device can imitate: the quirks of ROCm's runtime, the profiles that hold them, and what is on."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hiprt.provider import library_of_ours

__all__ = ["imitation"]

# The library reads its flags when it is loaded, and a process that uses another one is not to load it: a child asks.
ASK = """
import ctypes, itertools, json, sys
library = ctypes.CDLL(sys.argv[1])
library.hiprtCpuQuirkName.restype = library.hiprtCpuProfileName.restype = ctypes.c_char_p

def names(function):
    return [name.decode() for name in iter(map(function, itertools.count()).__next__, None)]

quirks, profiles = names(library.hiprtCpuQuirkName), names(library.hiprtCpuProfileName)
print(json.dumps({
    "quirks": quirks,
    "on": [name for name in quirks if library.hiprtCpuQuirk(name.encode()) == 1],
    "profiles": {
        profile: [name for k, name in enumerate(quirks) if library.hiprtCpuProfileHas(i, k)]
        for i, profile in enumerate(profiles)
    },
}))
"""


def imitation() -> dict[str, Any] | None:
    """Ask the CPU device's library what it can imitate.

    Returns
    -------
    dict or None
        ``quirks``, all of their names; ``on``, those that ``HIPRT_CPU_PROFILE`` and ``HIPRT_CPU_QUIRKS`` switch on;
        ``profiles``, each with the names of its quirks. None where the library is not built.
    """
    command = [sys.executable, "-I", "-c", ASK, str(library_of_ours("cpu"))]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if child.returncode else dict(json.loads(child.stdout))
