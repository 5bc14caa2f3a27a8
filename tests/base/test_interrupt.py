"""Ctrl-C in the command: one line and status 130 at any moment, also while modules are imported and after the end."""

import os
import signal
import subprocess
import sys

import pytest

SCRIPT = """
import importlib.abc, os, signal, sys

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from hiprt.__main__ import main
sys.exit(main())
"""


def run(folder, script, *arguments):
    """Run a script that is called hiprt, as the command is."""
    file = folder / "hiprt"
    file.write_text(script)
    command = [sys.executable, str(file), *arguments]
    # PYTHONPATH goes on holding the package under test: the script's own folder comes first, and is empty besides.
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    "module",
    [
        "hiprt.array",
        "numpy",
        "hiprt.core",
        "hiprt.stream",
        "argparse",
        "hiprt.command",
        "hiprt.doctor",
        "hiprt.imitation",
    ],
)
def test_an_interrupt_while_modules_are_imported(tmp_path, module):
    """One line, no traceback."""
    done = run(tmp_path, SCRIPT.format(module=module), "doctor")
    assert (done.returncode, done.stderr) == (130, "\nhiprt: interrupted\n")
    assert done.stdout == ""


@pytest.mark.parametrize("module", ["hiprt.array", "hiprt.doctor"])
def test_a_rank_leaves_the_line_to_what_started_it(tmp_path, monkeypatch, module):
    """It ends by the same status, at once or by an exception."""
    monkeypatch.setenv("RANK", "1")
    done = run(tmp_path, SCRIPT.format(module=module), "doctor")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("where", "code"),
    [
        ("in the subcommand", "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"),
        ("where Python ignores exceptions", "Dies(); [None for _ in range(100)]; time.sleep(60)"),
        ("in a child", "subprocess.run([sys.executable, '-c', CHILD]); time.sleep(60)"),
        ("at the end", "atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60)))"),
    ],
)
def test_an_interrupt_while_the_command_runs(tmp_path, where, code):
    """One line, wherever it comes."""
    script = f"""
import atexit, os, signal, subprocess, sys, time
import hiprt.__main__, hiprt.doctor
CHILD = "import os, signal, time; os.kill(os.getppid(), signal.SIGINT); time.sleep(1)"

class Dies:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            pass

def run(options):
    {code}
    return 0

hiprt.doctor.run = run
hiprt.doctor.add_arguments.__globals__["run"] = run
sys.exit(hiprt.__main__.main(["doctor"]))
"""
    done = run(tmp_path, script)
    assert (done.returncode, done.stderr) == (130, "\nhiprt: interrupted\n"), where


def test_programs_keep_their_own_handling():
    """Importing the library changes nothing for a program that is not the command."""
    code = (
        "import signal, sys\nbefore = signal.getsignal(signal.SIGINT), sys.unraisablehook\nimport hiprt.__main__\n"
        "try: hiprt.__main__.main(['--version'])\nexcept SystemExit: pass\n"
        "print(before == (signal.getsignal(signal.SIGINT), sys.unraisablehook))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.splitlines()[-1] == "True"
    # A shell lets programs that it starts behind others ignore the signal.
    assert signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)
