"""Types: what a checker knows of a step is what it knows of its function."""

import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np

from hiprt import Array, kernels
from hiprt.graphs import Step


def decode(x: Array, scale: float = 1.0, *, weights: dict[str, list[Array]], shape: list[int]) -> tuple[Array, int]:
    return kernels.multiply(x, scale), shape[0]


step = Step(decode, overwrite=True)
reveal_type(step)


def good(x: Array) -> Array:
    y, count = step(x, scale=2.0, weights={"a": [x]}, shape=[1, 2])
    reveal_type(count)
    return step.call(y, 3.0, weights={}, shape=[], key="decode")[0]


def bad(x: Array) -> None:
    step(x, "2.0", weights={}, shape=[])
    step(x, weights={})
    step(x, weights={}, shape=[], other=1)
    text: str = step(x, weights={}, shape=[])


class Engine:
    step: Step[[Array], Array]

    def __init__(self) -> None:
        self.step = Step(self.forward, varying={"x": np.float32})

    def forward(self, x: Array) -> Array:
        return kernels.exp(x)
"""


@pytest.mark.wide(turn=3)
def test_a_step_has_the_types_of_its_function(root, tmp_path):
    """mypy --strict accepts right calls, and names each wrong one."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    child = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--hide-error-context", str(program)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split("program.py:")[1] for line in child.stdout.splitlines() if "program.py:" in line]
    said = {}
    for line in lines:
        number, kind, text = line.split(":", 2)
        said.setdefault(PROGRAM.splitlines()[int(number) - 1].strip(), []).append((kind.strip(), text.strip()))
    signature = "[x: Array, scale: float =, *, weights: dict[str, list[Array]], shape: list[int]], tuple[Array, int]]"
    assert (
        said.pop("reveal_type(step)")[0][1]
        .replace("builtins.", "")
        .replace("hiprt.array.", "")
        .replace("hiprt.graphs.step.", "")
        == f'Revealed type is "Step[{signature}"'
    )
    assert said.pop("reveal_type(count)")[0][1].replace("builtins.", "") == 'Revealed type is "int"'
    assert [line for line, found in said.items() if found[0][0] == "error"] == [
        'step(x, "2.0", weights={}, shape=[])',
        "step(x, weights={})",
        "step(x, weights={}, shape=[], other=1)",
        "text: str = step(x, weights={}, shape=[])",
    ], child.stdout
