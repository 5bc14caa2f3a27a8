"""A strict check of Metal text on any machine: address spaces, kernel attributes, the language's rules.

The compiler is the clang of the PyPI package ziglang in its OpenCL C++ mode, where the four address spaces are real.
`signature_rules` checks kernel attributes on the text, and `syntax_rules` finds what only Metal forbids on clang's
syntax tree. Only Apple's compiler knows register limits, the exact overloads of its library, and precision.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from hiprt.kernels.lang.dialect import CHECK, prelude
from hiprt.kernels.lang.metal_to_hip import swizzles
from hiprt.metal_compat.signature_rules import check_signatures, hide_attributes, without_comments
from hiprt.metal_compat.syntax_rules import forbidden

__all__ = ["Problem", "check_metal"]

FLAGS = """clang -x cl -cl-std=CLC++ --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -nogpulib -cl-no-stdinc -Xclang
-fnative-half-type -cl-single-precision-constant -ferror-limit=0 -fno-color-diagnostics
-fno-caret-diagnostics -w""".split()
NAMESPACE = "hiprt_user"
TREE = ["-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", f"-ast-dump-filter={NAMESPACE}"]
ERROR = re.compile(r"^(.*?):(\d+):\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(?:metal_\w+|simd/\w+\.h)>", re.MULTILINE)
MISSING = "double goto virtual dynamic_cast typeid thread_local asm new delete"
WORDS = re.compile(rf"\b({'|'.join(MISSING.split())})\b")
POISONED = "attempt to use a poisoned identifier"
SHARED = re.compile(r"\bthreadgroup\s+(?:([^;(){}*&=\[]+?[\w>])\s*;|([^;(){}*&=\[]*\[[^;={}]*);)")
DECLARATOR = re.compile(r"(.*?)(\w+)\s*((?:\[.*)?)$", re.DOTALL)

# The words of the compiler's messages, and Metal's words for the same things.
NAMES = {
    f"{NAMESPACE}::": "",
    "hiprt_": "",
    "*__private": "*",
    "__private ": "thread ",
    "__global ": "device ",
    "__constant ": "constant ",
    "__local ": "threadgroup ",
    "__generic ": "",
    POISONED: "Metal does not have this word",
}


@dataclass(frozen=True, order=True)
class Problem:
    """A problem at a line of the checked text."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


def check_metal(text: str, name: str = "kernel.metal") -> list[Problem]:
    """Check a Metal program.

    Parameters
    ----------
    text : str
        The whole program, which may use MLX's names.
    name : str
        The program's name, used in messages.

    Returns
    -------
    list of Problem
        The problems in the order of files and lines; none if the text is right.

    Raises
    ------
    RuntimeError
        There is no compiler: ``pip install "hiprt[cpu]"``.
    """
    plain = without_comments(text)
    problems = {Problem(name, line, what) for line, what in check_signatures(plain)}
    done = run(swizzles(plain) + prelude(CHECK), translated(plain, name))
    found = ERROR.findall(done.stderr)
    for file, line, what in found:
        # The compiler says where a poisoned word is, but not which word it is.
        words = WORDS.findall(plain.split("\n")[int(line) - 1]) if what == POISONED and file == name else []
        told = [f"Metal does not have {word!r}" for word in words] or [in_metal(what)]
        problems.update(Problem(file, int(line), each) for each in told)
    if not found:
        problems.update(Problem(file or name, line, what) for file, line, what in forbidden(done.stdout))
    return sorted(problems)


def in_metal(message: str) -> str:
    """Return a message of the compiler with Metal's words instead of OpenCL's."""
    for word, name in NAMES.items():
        message = message.replace(word, name)
    return message


def translated(plain: str, name: str) -> str:
    """Return the program for the compiler, without the prelude; each line stays on its line."""
    body = INCLUDE.sub("", hide_attributes(SHARED.sub(shared_variables, plain)))
    return "\n".join(
        [
            # The tree names a line only where it differs from the one before: the frame has numbers of its own.
            "#line 1000000",
            # A program may open the namespace metal to add names to it.
            f"namespace {NAMESPACE} {{ namespace metal {{ using namespace ::metal; }} using namespace metal;",
            f"#pragma GCC poison {MISSING}",
            f'#line 1 "{name}"\n{body}\n}}\n',
        ]
    )


def shared_variables(match: re.Match[str]) -> str:
    """Write a function's threadgroup variables as references, since the compiler has such variables in kernels only."""
    pieces = re.split(r",(?![^<\[]*[>\]])", match[1] or match[2])
    first = DECLARATOR.match(pieces[0].strip())
    if first is None:
        return match[0]
    word, lines = first[1].strip(), []
    for piece in [first[2] + first[3], *pieces[1:]]:
        part = DECLARATOR.match(piece.strip())
        if part is not None:
            kind = f"hiprt_type_of_{part[2]}"
            lines.append(f"typedef {word} {kind}{part[3]}; threadgroup {kind}& {part[2]} = *(threadgroup {kind}*)0;")
    return " ".join(lines) + "\n" * match[0].count("\n")


@cache
def compiler() -> str:
    """Return the path of zig."""
    found = importlib.util.find_spec("ziglang")
    if found is None or found.origin is None:
        raise RuntimeError('checking Metal text needs the package ziglang: pip install "hiprt[cpu]"')
    return str(Path(found.origin).parent / "zig")


@lru_cache(maxsize=16)
def precompiled(head: str) -> bytes:
    """Return the beginning of a program as a precompiled header: most of a check's time would go to reading it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "head.pch")
        command = [compiler(), *FLAGS, "-S", "-Xclang", "-emit-pch", "-o", str(file), "-"]
        subprocess.run(command, input=head, capture_output=True, text=True, check=True)
        return file.read_bytes()


def run(head: str, program: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler on a program behind its head; it writes errors to stderr and the syntax tree to stdout."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "head.pch")
        file.write_bytes(precompiled(head))
        command = [compiler(), *FLAGS, *TREE, "-include-pch", str(file), "-"]
        return subprocess.run(command, input=program, capture_output=True, text=True, check=False)
