"""The examples run on the CPU device, and print what their first lines promise."""

import importlib.util
import os
import subprocess
import sys

import pytest

# What a run prints, as far as it is the same everywhere.
PRINTED = {
    "own_engine.py": [
        "rungs   {'replay': 19, 'patch': 0, 'update': 0, 'instantiate': 1, 'eager': 0}",
        "numpy   chose the same tokens; its logits differ by less than 1e-4: True",
    ],
    "custom_kernels.py": [
        "graph    2 nodes, 1 edge; {'replay': 9, 'patch': 0, 'update': 0, 'instantiate': 1, 'eager': 0}",
        "numpy    has the same shares and the same running mean",
        "refused  x of average<float> is declared as a buffer of float32 that is written (but it is const)",
    ],
    "threads.py": [
        "one step       [101, 100, 100, 100] by one graph, recorded once",
        "own steps      [0.0, 499500.0, 999000.0, 1498500.0]",
        "handed over    the sum of the squares is numpy's",
    ],
    "foreign_memory.py": [
        "          the slab was kept until the step was gone",
        "numpy in  [[0.0, 10.0, 20.0], [30.0, 40.0, 50.0]]",
        "numpy out [1.0, 2.0, 3.0, 4.0]",
    ],
    "torch_program.py": (
        ["results  are torch's, also after a change of the weights"]
        if importlib.util.find_spec("torch")
        else ["skipped: torch is not installed"]
    ),
}


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_shows_what_it_says(root, name):
    """In a process of its own, with nothing but the device set."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HIPRT_CPU_")}
    environment |= {"HIPRT_PROVIDER": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(root / "examples" / name)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    missing = [line for line in PRINTED[name] if line not in done.stdout.splitlines()]
    assert not missing, done.stdout
    assert not done.stderr


def test_every_example_is_run_and_says_how_to_run_it(root):
    """No file of the folder is left out here."""
    files = sorted((root / "examples").glob("*.py"))
    assert sorted(PRINTED) == [file.name for file in files]
    for file in files:
        head = file.read_text().split('"""')[1]
        assert "You learn" in head
        assert f"``python examples/{file.name}``" in head
