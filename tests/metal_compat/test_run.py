"""``hiprt run``: programs written for MLX get hiprt as mlx.core, and what else they do is as with python itself."""

import os
import signal
import subprocess
import sys

import pytest


def run(folder, *words, command=("-m", "hiprt", "run"), **options):
    """Run a program in a folder, which holds it."""
    return subprocess.run(
        [sys.executable, *command, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def as_with_python(folder, *words):
    """What a program prints, and its status, which are those of python itself."""
    ours, theirs = run(folder, *words), run(folder, *words, command=())
    assert (ours.stdout, ours.returncode) == (theirs.stdout, theirs.returncode)
    assert ours.stderr.splitlines()[-1:] == theirs.stderr.splitlines()[-1:]
    return ours


@pytest.fixture
def program(tmp_path):
    """Write a program, and a package that is one."""

    def write(text):
        package = tmp_path / "tiny_lm"
        package.mkdir(exist_ok=True)
        (package / "__init__.py").touch()
        (package / "beside.py").write_text("number = 7\n")
        (package / "__main__.py").write_text(text)
        (tmp_path / "tiny.py").write_text(text)
        return tmp_path

    return write


@pytest.mark.parametrize("words", [("tiny.py",), ("-m", "tiny_lm"), ("-m", "tiny")])
def test_arguments_names_and_paths_are_those_of_python(program, words):
    folder = program("import sys; print(sys.argv, __name__, __file__, sys.path[0], __spec__ and __spec__.name)")
    done = as_with_python(folder, *words, "generate", "--help", "--json", "-m", "--", "x")
    assert done.returncode == 0
    assert "'--help', '--json', '-m', '--', 'x'" in done.stdout


def test_objects_are_looked_at_a_hundredth_as_often(program):
    """A longer cache is made of many objects, and a look at those of mlx-lm's packages takes as long as many tokens."""
    folder = program("import gc; print(gc.get_threshold()[0])")
    ours, theirs = (int(run(folder, "tiny.py", **how).stdout) for how in ({}, {"command": ()}))
    assert ours == 100 * theirs


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('gone wrong')", 1),
        ("raise ValueError('of the program')", 1),
        ("raise OSError('not a file of ours')", 1),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("import warnings; warnings.warn('of the program')", 0),
        ("import tiny_lm.beside; print(tiny_lm.beside.number)", 0),
    ],
)
def test_it_ends_as_with_python(program, text, status):
    folder = program(text)
    for words in (("tiny.py",), ("-m", "tiny_lm")):
        assert as_with_python(folder, *words).returncode == status


def test_a_traceback_ends_in_the_program(program):
    folder = program("def inner():\n  raise RuntimeError('here')\n\ninner()\n")
    lines = run(folder, "tiny.py").stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "RuntimeError: here"
    assert 'tiny.py", line 2, in inner' in "\n".join(lines)


def test_ctrl_c_is_an_exception_of_the_program(program):
    folder = program(
        "import os, signal, time\n"
        "try:\n  os.kill(os.getpid(), signal.SIGINT); time.sleep(60)\n"
        "except KeyboardInterrupt:\n  print('caught')\n"
    )
    # A shell's background job ignores the signal, and so does what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        done = as_with_python(folder, "tiny.py")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.stdout, done.returncode) == ("caught\n", 0)


@pytest.mark.parametrize(
    ("words", "message", "status"),
    [
        ((), "a module (-m MODULE) or a file is needed", 2),
        (("-m",), "a module (-m MODULE) or a file is needed", 2),
        (("nothing.py",), "No such file", 2),
        (("-m", "no_such_module"), "No module named no_such_module", 1),
    ],
)
def test_mistakes_are_named(tmp_path, words, message, status):
    done = run(tmp_path, *words)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr


def test_help_names_the_example(tmp_path):
    done = run(tmp_path, "--help")
    assert "hiprt run -m mlx_lm generate" in done.stdout
    assert "pip install 'hiprt[mlx]'" in done.stdout


CORE = """
import mlx.core as mx, sys
from mlx.core import random
import mlx.core
from mlx import core
assert core is mx is mlx.core is sys.modules["hiprt.metal_compat.mlx"], mx
assert sys.modules["mlx.core.random"] is random is mx.random
print(mx.add(mx.array([1, 2]), 3).tolist(), mx.__version__)
"""


def test_mlx_core_is_ours(program):
    """Also where no package mlx is installed."""
    folder = program(CORE)
    for options in ({}, {"env": os.environ | {"PYTHONPATH": isolated(folder)}}):
        done = run(folder, "tiny.py", **options)
        assert done.stdout.startswith("[4, 5] "), done.stderr


def test_without_hiprt_run_nothing_is_replaced(program):
    folder = program("import hiprt.metal_compat.mlx, sys; print('mlx.core' in sys.modules)")
    assert run(folder, "tiny.py", command=()).stdout == "False\n"


def isolated(folder):
    """Return a path with what is imported here, in front of which stands a finder that hides the package mlx."""
    hiding = folder / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / "sitecustomize.py").write_text(
        "from importlib.machinery import PathFinder\n"
        "found = PathFinder.find_spec\n"
        "PathFinder.find_spec = lambda name, path=None, target=None: (\n"
        "  None if name.split('.')[0] in ('mlx', 'mlx_lm') else found(name, path, target))\n"
    )
    return os.pathsep.join([str(hiding), os.environ.get("PYTHONPATH", "")])


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("tiny.py",), "import mlx.nn"),
        (("tiny.py",), "import mlx.utils"),
        (("-m", "mlx_lm", "generate"), ""),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_what_brings_it(program, words, text):
    folder = program(text)
    done = run(folder, *words, env=os.environ | {"PYTHONPATH": isolated(folder)})
    assert done.returncode == 1
    assert "pip install 'hiprt[mlx]'" in done.stderr.splitlines()[-1]
