"""The README is true: its Python runs and prints what it says, its commands exist."""

import re
import subprocess
import sys

import pytest


def blocks(root, language):
    """Code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)


def test_python_blocks_run_and_print_what_the_text_says(root):
    """Each block in a process of its own; the sentence behind it quotes the output."""
    text = (root / "README.md").read_text()
    for block in blocks(root, "python"):
        child = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stderr
        behind = text[text.index(block) + len(block) :]
        promised = re.match(r"```\n\nprints `(.*?)`", behind)
        assert promised, "a block's output must be quoted behind it"
        assert child.stdout.strip() == promised[1]


def test_set_up_is_two_commands(root):
    """One installs and runs, one installs and tests; extras named there exist."""
    commands = blocks(root, "bash")
    assert commands == ['pip install ".[cpu]" && hiprt generate\n', 'pip install -e ".[test]" && pytest\n']
    project = (root / "pyproject.toml").read_text()
    for extra in ("cpu", "test"):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


def test_generate_prints_the_table_that_is_shown(root):
    """The rows of the README's example are the rows of the command, and the text begins alike."""
    (shown,) = blocks(root, "console")
    command = [sys.executable, "-m", "hiprt", "generate", "--tokens", "20"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^(\w[\w/ ]*?)  +", shown.split("[…]")[1], re.MULTILINE)
    assert rows == re.findall(r"^(\w[\w/ ]*?)  +", printed, re.MULTILINE)
    assert re.search(r"nodes per token .*", shown)[0] == re.search(r"nodes per token .*", printed)[0]
    assert "launches per token   1" in printed
    assert printed.startswith("Once upon a time there was a clever fox named Mia.")


@pytest.mark.parametrize("folder", ["hiprt", "allocator", "kernels", "graphs", "metal_compat", "bench", "tests"])
def test_layout_names_every_folder(root, folder):
    """The source layout is complete."""
    assert f"\n{folder}/" in (root / "README.md").read_text()
    assert (root / folder).is_dir()


def test_commands_in_the_text_exist(root):
    """Every `hiprt …` that the text names is a command, and has the options that are written behind it."""
    text = re.sub(r"```.*?```", "", (root / "README.md").read_text(), flags=re.DOTALL)
    named = {}
    for words in re.findall(r"`hiprt\s+(\w[^`]*)`", text):
        command, *rest = words.split()
        named.setdefault(command, set()).update(re.match(r"--[\w-]+", word)[0] for word in rest if word[:2] == "--")
    assert {"generate", "doctor", "compile"} <= set(named)
    for command, options in named.items():
        child = [sys.executable, "-m", "hiprt", command, "--help"]
        known = subprocess.run(child, capture_output=True, text=True, check=True).stdout
        assert not [option for option in options if not re.search(rf"{option}\b", known)]
