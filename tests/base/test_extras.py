"""What ``pip install hiprt`` alone can do, and what is said where an extra is needed."""

import re
import subprocess
import sys

import pytest

from hiprt.extras import EXTRAS

PACKAGES = {"elftools": "pyelftools"}  # where the name to install is another one
MODULES = sorted({module for modules in EXTRAS.values() for module in modules})
BLOCK = f"import sys\nfor name in {MODULES}: sys.modules[name] = None\n"
BASE = """
import numpy as np
import hiprt, hiprt.allocator, hiprt.kernels, hiprt.metal_compat, hiprt.metal_compat.mlx, hiprt.doctor
from hiprt import graphs, kernels
x = hiprt.array(np.arange(4, dtype=np.float32))
step = graphs.Step(lambda x: kernels.add(x, x))
for _ in range(3):
    result = step(x)
print(result.numpy().tolist(), step.rungs["replay"])
"""


def run(code, *arguments):
    """What a program says, without the packages of any extra."""
    command = [sys.executable, "-c", BLOCK + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)


def extras(root):
    """The extras of pyproject.toml: name to the packages, without their versions."""
    text = (root / "pyproject.toml").read_text()
    found = re.findall(r"^(\w+) = \[(.*?)\]$", text.partition("[project.optional-dependencies]")[2], re.M | re.S)
    return {name: re.findall(r'"([\w-]+)', each) for name, each in found}


def test_the_list_is_that_of_the_package(root):
    """Module by module, as pyproject.toml has them."""
    listed = extras(root)
    for name, modules in EXTRAS.items():
        assert sorted(PACKAGES.get(each, each) for each in modules) == sorted(listed[name])


def test_steps_need_no_extra():
    """Every package of ours can be imported, and steps run."""
    child = run(BASE)
    assert child.stdout == "[0.0, 2.0, 4.0, 6.0] 2\n", child.stderr


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        (["generate"], "tokenizers", "engine"),
        (["chat"], "tokenizers", "engine"),
        (["bench", "decode"], "tokenizers", "engine"),
        (["compile", "--help"], "msgpack", "offline"),
    ],
)
def test_commands_name_the_extra(command, module, extra):
    """In one line, without a traceback."""
    child = run("from hiprt.__main__ import main\nsys.exit(main(sys.argv[1:]))", *command)
    assert (child.returncode, child.stdout) == (1, "")
    assert child.stderr == f'hiprt: {module} is not installed: pip install "hiprt[{extra}]"\n'


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("import hiprt.bench.engine.models", "engine"),
        ("import hiprt.bench.isa.emulator", "offline"),
        ("from hiprt.kernels.offline.code_object import CodeObject", "offline"),
        ("import hiprt; hiprt.export_function('f.hiprt', lambda x: x, hiprt.zeros(4))", "export"),
    ],
)
def test_modules_name_the_extra(statement, extra, tmp_path):
    """The error is an ImportError."""
    child = run(
        f"import os; os.chdir({str(tmp_path)!r})\ntry:\n    {statement}\nexcept ImportError as error:\n    print(error)"
    )
    assert child.stdout.endswith(f'is not installed: pip install "hiprt[{extra}]"\n'), child.stderr
    assert not list(tmp_path.iterdir())
