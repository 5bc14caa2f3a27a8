"""What mkdocs puts into the pages when the site is built: the flags, the quirks, the profiles, the ops.

A page says ``<!-- made: flags -->`` where they go. They are made from what the code itself reads: the flags from
`hiprt.flags`, the quirks and profiles from the CPU device, which is asked, the meaning of quirks from the first lines
of the test that each has, and the ops from the families of `hiprt.kernels`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from hiprt.flags import table as flags
from hiprt.imitation import imitation
from hiprt.kernels import ops as families

ROOT = Path(__file__).resolve().parent.parent
MARKER = re.compile(r"<!-- made: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put what is made into a page; mkdocs calls it."""
    return MARKER.sub(lambda match: MADE[match[1]](), markdown)


def imitated() -> dict[str, Any]:
    """The quirks and profiles of the CPU device."""
    found = imitation()
    if found is None:
        raise RuntimeError("the CPU device is not built: pip install -e .")
    return found


def meaning_of(quirk: str) -> tuple[str, str]:
    """What a quirk does, and what hiprt does about it, as the first lines of its test say."""
    text = ast.get_docstring(ast.parse((ROOT / "tests" / "quirks" / f"test_{quirk}.py").read_text())) or ""
    does, *ours = re.split(r"\bOurs: ", " ".join(text.split()), maxsplit=1)
    return sentence(does.removeprefix(f"{quirk}: ").strip()), sentence("".join(ours))


def sentence(text: str) -> str:
    """A text that begins with a capital, unless with the name of a function."""
    return text if text.startswith("hip") else text[:1].upper() + text[1:]


def escaped(text: str) -> str:
    """A text for a cell of a table, whose stars and bars mean themselves."""
    return re.sub(r"[*|]", r"\\\g<0>", text)


def quirks() -> str:
    """Every quirk, what it does, and what hiprt does about it."""
    rows = [f"| `{name}` | {does} | {ours} |" for name in imitated()["quirks"] for does, ours in [meaning_of(name)]]
    return "\n".join(["| quirk | the defect | what hiprt does |", "| --- | --- | --- |", *rows])


def profiles() -> str:
    """Which quirks each profile switches on."""
    switched, names = imitated()["profiles"], imitated()["quirks"]
    rows = [[f"`{name}`", *("x" if name in on else "" for on in switched.values())] for name in names]
    head = ["quirk", *(f"`{profile}`" for profile in switched)]
    lines = [head, ["---", *[":---:"] * len(switched)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def ops() -> str:
    """Every op, by family: a table of those that are entries of a table themselves, then the functions."""
    names = sorted(module.name for module in pkgutil.iter_modules(families.__path__) if module.ispkg)
    return "\n\n".join(family(importlib.import_module(f"{families.__name__}.{name}")) for name in names)


def family(module: ModuleType) -> str:
    """The ops of one family."""
    members = {name: getattr(module, name) for name in module.__all__}
    functions = [value for value in members.values() if inspect.isfunction(inspect.unwrap(value))]
    entries = [name for name in members if members[name] not in functions]
    title = module.__name__.rpartition(".")[2]
    meanings = {name: " ".join((members[name].__doc__ or "").split()) for name in entries}
    rows = [f"| `{name}` | {escaped(text)} |" for name, text in meanings.items()]
    table = ["| op | what it returns |", "| --- | --- |", *rows] if rows else []
    references = [f"::: {value.__module__}.{value.__name__}\n" for value in functions]
    return "\n".join([f"## {title}", "", module.__doc__ or "", "", *table, "", *references])


MADE = {"flags": flags, "quirks": quirks, "profiles": profiles, "ops": ops}
