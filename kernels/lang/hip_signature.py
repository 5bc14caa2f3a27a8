"""What the text of a HIP kernel says about its parameters, as far as it can be read without a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["parameters_of", "points_to_const"]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
OPENING, CLOSING = "(<[{", ")>]}"


def parameters_of(source: str, name: str) -> list[str] | None:
    """Return the parameters of a kernel, each as it is written.

    Parameters
    ----------
    source : str
        HIP C++.
    name : str
        The kernel, which may be qualified.

    Returns
    -------
    list of str or None
        None where the source does not define one kernel of that name in plain sight, but by a macro or several times.
    """
    text = COMMENT.sub(" ", source)
    word = re.escape(name.rpartition("::")[2])
    kernel = re.compile(rf"__global__[^;{{}}()]*(?:\([^()]*\)[^;{{}}()]*)?\b{word}\s*\(")
    starts = [match.end() for match in kernel.finditer(text)]
    found = {tuple(split(text, start)) for start in starts}
    return list(found.pop()) if len(found) == 1 else None


def split(text: str, start: int) -> Iterator[str]:
    """Yield what stands between commas, from behind an opening bracket to the one that closes it."""
    depth, begin = 0, start
    for at in range(start, len(text)):
        if text[at] in OPENING:
            depth += 1
        elif text[at] in CLOSING and depth:
            depth -= 1
        elif text[at] == ")" or (text[at] == "," and not depth):
            yield " ".join(text[begin:at].split())
            begin = at + 1
            if text[at] == ")":
                return


def points_to_const(parameter: str) -> bool | None:
    """Whether a parameter is a pointer to what the kernel cannot write; None where it is not seen to be a pointer."""
    kind, star, _ = parameter.rpartition("*")
    if not star:
        kind, star, _ = parameter.partition("[")
    return bool(re.search(r"\bconst\b", kind)) if star else None
