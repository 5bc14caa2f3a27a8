"""Launchers that the page of several devices names: its lines run, by stand-ins of those that are not installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hiprt.distributed.launcher import free_port

pytestmark = pytest.mark.only("cpu", reason="a GPU has one process at a time in these tests")
STAND_IN = Path(__file__).parent / "programs" / "stand_in.py"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def command(file, *words):
    """Write a program for the shell that begins a command with some words."""
    file.write_text(f'#!/bin/sh\nexec {" ".join(map(str, words))} "$@"\n')
    file.chmod(0o755)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_a_line_of_the_page(launcher, root, tmp_path):
    page = (root / "docs" / "distributed.md").read_text()
    (tmp_path / "sums.py").write_text(re.search(r'^```python title="sums.py"\n(.*?)^```', page, re.M | re.S)[1])
    (line,) = re.findall(rf"^(?:\w+=\S+ )*{launcher} .*$", page, re.M)
    (folder := tmp_path / "bin").mkdir()
    command(folder / "python", sys.executable)
    # Slurm's is of no use without a cluster.
    if launcher == "srun" or not shutil.which(launcher):
        command(folder / launcher, sys.executable, STAND_IN, launcher)
    environment = os.environ | AS_ROOT | {"PATH": f"{folder}:{os.environ['PATH']}"}
    ended = subprocess.run(
        line.replace("29500", str(free_port())), shell=True, cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=200,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "2 ranks: [3. 3. 3. 3.]\n"
