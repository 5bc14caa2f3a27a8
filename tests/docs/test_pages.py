"""README and the pages of docs/ are true: their programs run and print what they say, and what they name exists.

A Python block runs in a process of its own; where the text goes on with "prints", the output must be exactly that. A
block with a title is also a file of that name for the page's console blocks, whose commands run one behind the other.
Of their output numbers and spaces may differ, and ``[…]`` stands for anything.
"""

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress

import pytest

from hiprt.__main__ import main

BLOCK = re.compile(
    r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n(?:\nprints(?: `(.*?)`|\n\n```text\n(.*?)^```))?", re.M | re.S
)
SEVERAL = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,16}\b|\d+(?:[.,]\d+)*")


def pages(root):
    """README and the pages, by name."""
    return {file.name: file.read_text() for file in (root / "README.md", *sorted((root / "docs").glob("*.md")))}


def run(command, folder):
    """Run a program on the CPU device; its output and what it says on stderr, which come to one place."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("HIPRT_")}
    kept = {name: os.environ[name] for name in ("HIPRT_CACHE_DIR",) if name in os.environ}
    environment = {**given, **kept, "HIPRT_PROVIDER": "cpu", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    return done.returncode, done.stdout


def in_shell(line, folder):
    """Run a line of a console block, in which `python` and `hiprt` are the ones under test."""
    python = shlex.quote(sys.executable)
    functions = f'python() {{ {python} "$@"; }}; hiprt() {{ {python} -m hiprt "$@"; }}'
    return run(["bash", "-c", f"{functions}\n{line}"], folder)[1]


def masked(text):
    """Text without its numbers, and with single spaces."""
    return " ".join(SEVERAL.sub("#", text).split())


def is_like(shown, printed):
    """Whether output is what a page shows: the parts between […] in order, from its beginning to its end."""
    first, *parts = [masked(part) for part in shown.split("[…]")]
    text = masked(printed)
    if not text.startswith(first):
        return False
    at = len(first)
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return at == len(text) or (bool(parts) and text.endswith(parts[-1]))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "index.md", "text.md", "launch.md", "kernels.md", "embedding.md", "cpu.md", "memory.md"),
        *("check.md", "reuse.md", "compile.md", "export.md", "show.md", "offline.md", "mlx.md", "distributed.md"),
        "tune.md",
    ],
)
def test_programs_run_and_print_what_the_page_says(root, tmp_path, name):
    """All blocks of a page, from top to bottom."""
    blocks = BLOCK.findall(pages(root)[name])
    # The README's own is in tests/base/test_readme.py: its text is of another machine.
    consoles = [block for language, _, block, *_ in blocks if language == "console" and name != "README.md"]
    commands = "".join(consoles)
    for language, title, block, short, long in blocks:
        promised = (short or long).strip()
        if title:
            (tmp_path / title).write_text(block)
        if language == "python" and (promised or not title or title not in commands):
            status, printed = run([sys.executable, "-c", block], tmp_path)
            assert status == 0, printed
            assert not promised or printed.strip() == promised
        for command in re.split(r"^\$ ", block, flags=re.M)[1:] if block in consoles else ():
            line, _, shown = command.partition("\n")
            printed = in_shell(line, tmp_path)
            assert is_like(shown, printed), printed


def test_commands_in_the_text_exist(root, capsys):
    """Every `hiprt …` that the pages name is a command, and has the options that are written behind it."""
    named = {}
    for text in pages(root).values():
        for words in re.findall(r"^\$ (hiprt .*)|`(hiprt\s+\w[^`]*)`", text, re.M):
            command, *rest = re.split(r"  +|\||&&", "".join(words))[0].split()[1:]
            command = f"{command} {rest[0]}" if command in ("bench", "graph") and rest else command
            options = (re.match(r"--[\w-]+", word) for word in rest if word[:2] == "--")
            named.setdefault(command, set()).update(option[0] for option in options)
    assert {"generate", "doctor", "compile", "bench", "bench decode"} <= set(named)
    for command, options in named.items():
        with suppress(SystemExit):
            main([*command.split(), "--help"])
        known = capsys.readouterr().out
        assert not [option for option in options if not re.search(rf"{option}\b", known)]


def test_reasons_that_are_explained_are_those_of_the_code(root):
    """The table of reasons quotes messages; their words stand in the source."""
    source = "".join(file.read_text() for end in ("py", "c") for file in (root / "graphs").rglob(f"*.{end}"))
    (table,) = re.findall(r"^\| reason .*?(?=^$)", pages(root)["reuse.md"], re.M | re.S)
    reasons = re.findall(r"^\| `([^`]+)` \|", table, re.M)
    assert len(reasons) > 10
    missing = [part for reason in reasons for part in reason.split("…") if part.strip() not in source]
    assert not missing


def test_every_page_with_a_program_is_tried(root):
    """No page is left out above."""
    programs = {name for name, text in pages(root).items() if re.search(r"^```(python|console)", text, re.M)}
    marks = test_programs_run_and_print_what_the_page_says.pytestmark
    (tried,) = [mark for mark in marks if mark.name == "parametrize"]
    assert programs == set(tried.args[1])
