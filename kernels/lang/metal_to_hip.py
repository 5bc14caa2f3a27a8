"""Translation of Metal's words to HIP: address spaces, literals, includes, and the swizzles of a program."""

from __future__ import annotations

import re

__all__ = ["declare_shared", "swizzles", "translate_body", "translate_header"]

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:metal_\w+|simd/\w+\.h)>", re.MULTILINE)
# HIP keeps the word `threadgroup` where it declares a variable; in a pointer's type it is an address space, which HIP
# drops.
SHARED = re.compile(r"\bthreadgroup(?=\s[^;(){}*&=]*[;\[])")
# Outside functions the word `constant` declares a variable, too.
BEFORE = r"((?:\b(?:static|const|constexpr|inline)\s+)*)"
CONSTANT = re.compile(BEFORE + r"\bconstant\b(?=\s[^;(){}*&=\[]*[\[=])(\s+(?:const|constexpr)\b)?")
# Metal has no double, so a number without a suffix is a float; half and bfloat have suffixes of their own.
LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(h|H|bf|BF)?(?![\w.])")
LOGGER = re.compile(r"\bconstant\b(?=\s+(?:mlx::)?os_log\b)")
SUFFIXES = {"h": "half", "bf": "bfloat"}
SWIZZLE = re.compile(r"\.\s*([xyzw]{2,4}|[rgba]{2,4})\b")
PLACES = dict(zip("xyzwrgba", (0, 1, 2, 3) * 2))


def literal(match: re.Match[str]) -> str:
    """Return one floating-point literal in HIP's form."""
    name = SUFFIXES.get((match[2] or "").lower())
    return f"{name}({match[1]}f)" if name else f"{match[1]}f"


def declare_shared(text: str) -> str:
    """Return a body that declares variables of a threadgroup in HIP's way."""
    return SHARED.sub("HIPRT_SHARED", text)


def declare_constants(text: str) -> str:
    """Return a header that declares constant variables in HIP's way."""

    def declaration(match: re.Match[str]) -> str:
        words = (match[1] + (match[2] or "")).split()
        return "static constexpr" if "constexpr" in words else "static const"

    return CONSTANT.sub(declaration, LOGGER.sub("static constexpr", text))


def translate_body(text: str) -> str:
    """Return a user's body for HIP, line by line."""
    return declare_shared(LITERAL.sub(literal, text))


def translate_header(text: str) -> str:
    """Return a user's header for HIP, line by line, without Metal's own includes."""
    return declare_constants(LITERAL.sub(literal, INCLUDE.sub("", text)))


def swizzles(text: str) -> str:
    """Return the definitions that give the prelude's vectors the swizzles that a text uses."""
    names = sorted(set(SWIZZLE.findall(text)))
    lines = []
    for width in (2, 3, 4):
        places = {name: [PLACES[letter] for letter in name] for name in names}
        fitting = (f"X({name}, {', '.join(map(str, at))})" for name, at in places.items() if max(at) < width)
        lines.append(f"#define HIPRT_SWIZZLES_{width}(X) {' '.join(fitting)}\n")
    return "".join(lines)
