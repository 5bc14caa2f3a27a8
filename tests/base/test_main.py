"""The command `hiprt`: what it lists and loads, and what it says of errors."""

import re
import subprocess
import sys

import pytest

from hiprt import CompileError, ProviderError, __main__


def run(*arguments, status=0):
    """Run the command."""
    command = [sys.executable, "-m", "hiprt", *arguments]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == status, child.stderr
    return child


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CompileError(6, "NAME", "call", "k.hip", "hiprt: no compiler: get one.\n"), "no compiler: get one."),
        (CompileError(6, "NAME", "call", "k", "note\nk:1: error: bad\n"), "call: NAME (6): k: k:1: error: bad"),
        (ProviderError("none", [("rocm", "too old"), ("cpu", "missing")]), "none: rocm: too old; cpu: missing"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_sentence_for_every_error(error, line):
    """The sentence has the cause, without the rest of a compiler's log."""
    assert __main__.sentence(error) == line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["write"], "invalid choice: 'write' (choose from"), ([], "COMMAND")],
)
def test_what_is_no_command(arguments, words):
    """It is said in a line, without a traceback."""
    child = run(*arguments, status=2)
    assert child.stdout == ""
    assert words in child.stderr
    assert "Traceback" not in child.stderr


def test_help_names_every_command():
    """The help lists every command, though none of their modules is imported."""
    assert re.findall(r"^    ([\w-]+)", run("--help").stdout, re.MULTILINE) == [
        "generate",
        "chat",
        "run",
        "launch",
        "graph",
        "bench",
        "tune",
        "compile",
        "hipcc",
        "rocm-prefix",
        "check",
        "doctor",
    ]


LOADED = """
import contextlib, sys
from hiprt.__main__ import main
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
print("loaded", *(name for name in sys.modules if name.startswith(("hiprt.", "tokenizers", "safetensors", "rich"))))
"""


@pytest.mark.parametrize(
    ("arguments", "loaded", "absent"),
    [
        (["--help"], "hiprt.command", "hiprt.bench hiprt.kernels hiprt.doctor hiprt.metal_compat"),
        (["doctor", "--help"], "hiprt.doctor", "hiprt.bench hiprt.kernels hiprt.metal_compat"),
        (["bench", "--help"], "hiprt.bench", "hiprt.bench.graph hiprt.bench.engine hiprt.kernels hiprt.doctor"),
        (["bench", "graph", "--help"], "hiprt.bench.graph", "hiprt.bench.decode hiprt.bench.engine hiprt.doctor"),
        (["generate", "--help"], "hiprt.bench.engine.generation", "hiprt.bench.graph hiprt.metal_compat hiprt.doctor"),
    ],
)
def test_a_command_is_imported_when_it_is_named(arguments, loaded, absent):
    """The modules of other commands, and the libraries that they need, are not imported."""
    child = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    found = set(child.stdout.rpartition("loaded ")[2].split())
    assert loaded in found
    assert not found & set(absent.split())
    assert "rich" not in found
    if "generate" not in arguments:
        assert not found & {"tokenizers", "safetensors"}


def test_command_says_its_version():
    """`hiprt --version` prints the version."""
    assert re.fullmatch(r"hiprt \d+\.\d+\.\d+\n", run("--version").stdout)
