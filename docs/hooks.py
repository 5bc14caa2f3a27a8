"""What mkdocs puts into the pages when the site is built: tables of the flags, the quirks and the profiles.

A page says ``<!-- table of flags -->`` where the table goes. The tables are made from what the code itself reads: the
flags from `hiprt.flags`, the quirks from the CPU device's header, their meaning from the first lines of the test that
each has, and the profiles from the library, which is asked.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from hiprt.flags import table as table_of_flags

ROOT = Path(__file__).resolve().parent.parent
MARKER = re.compile(r"<!-- table of (\w+) -->")
DEVICE = ROOT / "hiprt" / "cpu"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables into a page; mkdocs calls it."""
    return MARKER.sub(lambda match: TABLES[match[1]](), markdown)


def quirk_names() -> list[str]:
    """The names of all quirks, in the order of the header."""
    header = DEVICE / "quirks" / "quirks.h"
    return re.findall(r"^ +X\(\w+, (\w+)", header.read_text(), re.MULTILINE)


def profile_names() -> list[str]:
    """The names of all profiles, in the order of the source."""
    source = DEVICE / "quirks" / "profiles.cpp"
    return re.findall(r'^ *\{"([\w.-]+)", \{', source.read_text(), re.MULTILINE)


def quirks_of(profile: str) -> set[str]:
    """The quirks that the library switches on for a profile."""
    code = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "print(*[name for name in sys.argv[2:] if library.hiprtCpuQuirk(name.encode()) == 1])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HIPRT_CPU_")}
    environment["HIPRT_CPU_PROFILE"] = profile
    command = [sys.executable, "-c", code, str(DEVICE / "libamdhip64.so"), *quirk_names()]
    return set(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split())


def meaning_of(quirk: str) -> tuple[str, str]:
    """What a quirk does, and what hiprt does about it, as the first lines of its test say."""
    text = ast.get_docstring(ast.parse((ROOT / "tests" / "quirks" / f"test_{quirk}.py").read_text())) or ""
    does, *ours = re.split(r"\bOurs: ", " ".join(text.split()), maxsplit=1)
    does = does.removeprefix(f"{quirk}: ").strip()
    return does, ours[0] if ours else ""


def table_of_quirks() -> str:
    """Every quirk, what it does, and what hiprt does about it."""
    rows = [f"| `{name}` | {does} | {ours} |" for name in quirk_names() for does, ours in [meaning_of(name)]]
    return "\n".join(["| quirk | the defect | what hiprt does |", "| --- | --- | --- |", *rows])


def table_of_profiles() -> str:
    """Which quirks each profile switches on."""
    on = {profile: quirks_of(profile) for profile in profile_names()}
    head = "| quirk | " + " | ".join(f"`{profile}`" for profile in on) + " |"
    rows = ["| `" + name + "` | " + " | ".join("x" if name in quirks else "" for quirks in on.values()) + " |"
            for name in quirk_names()]  # fmt: skip
    return "\n".join([head, "| --- |" + " :---: |" * len(on), *rows])


TABLES = {"flags": table_of_flags, "quirks": table_of_quirks, "profiles": table_of_profiles}
