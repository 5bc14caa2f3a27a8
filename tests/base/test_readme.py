"""The README is true; its programs and commands are tried with those of the pages, in tests/docs."""

import re
import subprocess
import sys

import pytest


def blocks(root, language):
    """Code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)


def test_set_up_is_two_commands(root):
    """One installs and runs, one installs and tests; extras named there exist."""
    commands = blocks(root, "bash")
    assert commands == ['pip install ".[cpu,engine]" && hiprt generate\n', 'pip install -e ".[test]" && pytest\n']
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


@pytest.mark.parametrize(
    "folder", ["hiprt", "allocator", "kernels", "graphs", "metal_compat", "bench", "tests", "examples", "docs"]
)
def test_layout_names_every_folder(root, folder):
    """The source layout is complete."""
    assert f"\n{folder}/" in (root / "README.md").read_text()
    assert (root / folder).is_dir()
