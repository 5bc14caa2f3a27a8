"""Rules of kernel signatures and attributes in Metal text. They are checked on the text: clang does not know them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hiprt.kernels.lang.attributes import ATTRIBUTES

__all__ = ["SLOTS", "check_signatures", "hide_attributes", "without_comments"]

SLOTS = 31  # buffers that a Metal kernel can have
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
KERNEL = re.compile(r"(?:\[\[[^\]]*\bkernel\b[^\]]*\]\]|\bkernel)\s+void\s+(\w+)\s*\(")
BUFFER = re.compile(r"buffer\((\d+)\)")
# Attributes of functions and statements, which parameters do not have.
OTHERS = re.compile(
    r"kernel|host_name\(.*\)|max_total_threads_per_threadgroup\(\w+\)|unroll|likely|unlikely|maybe_unused"
)
TYPES = {
    "uint3": {"uint3", "uint2", "uint", "ushort3", "ushort2", "ushort"},
    "uint": {"uint", "ushort"},
}


def without_comments(text: str) -> str:
    """Return text with its comments removed, on the same lines."""
    return COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)


def hide_attributes(text: str) -> str:
    """Return text without attributes and the word kernel, on the same lines."""
    plain = ATTRIBUTE.sub(lambda match: "\n" * match[0].count("\n"), text)
    return re.sub(r"\bkernel(?=\s+void\b)", "", plain)


def parameters(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the place and the text of each parameter of the list that begins at `start`."""
    depth, begin = 0, start
    for at in range(start, len(text)):
        letter = text[at]
        if letter in "([<":
            depth += 1
        elif letter in ")]>" and depth:
            depth -= 1
        elif letter in ",)" and not depth:
            if text[begin:at].strip():
                yield begin, text[begin:at]
            begin = at + 1
            if letter == ")":
                return


def check_signatures(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the reason for every attribute that is wrong.

    Parameters
    ----------
    text : str
        Metal text without comments.
    """
    signatures = list(KERNEL.finditer(text))
    for signature in signatures:
        used: set[int] = set()
        for place, parameter in parameters(text, signature.end()):
            line = text.count("\n", 0, place + len(parameter) - len(parameter.lstrip())) + 1
            for reason in parameter_errors(parameter, used):
                yield line, reason
    known = {*ATTRIBUTES}
    for match in ATTRIBUTE.finditer(text):
        for attribute in re.split(r",(?![^(]*\))", match[1]):
            name = attribute.strip()
            if name not in known and not BUFFER.fullmatch(name) and not OTHERS.fullmatch(name):
                yield text.count("\n", 0, match.start()) + 1, f"unknown attribute '{name}'"


def parameter_errors(parameter: str, used: set[int]) -> Iterator[str]:
    """Yield what is wrong with one parameter of a kernel; `used` holds the buffer slots before it."""
    names = [name.strip() for match in ATTRIBUTE.finditer(parameter) for name in match[1].split(",")]
    declaration = " ".join(ATTRIBUTE.sub("", parameter).split())
    if not names:
        yield f"parameter '{declaration}' has no attribute"
    for name in names:
        buffer = BUFFER.fullmatch(name)
        if buffer:
            slot = int(buffer[1])
            if slot in used:
                yield f"buffer index {slot} is used twice"
            if slot >= SLOTS:
                yield f"buffer index {slot} is beyond the last one, {SLOTS - 1}"
            used.add(slot)
        elif name in ATTRIBUTES:
            word = " ".join(w for w in declaration.split()[:-1] if w != "const")
            if word not in TYPES[ATTRIBUTES[name].word]:
                yield f"attribute '{name}' cannot have type '{word}'"
