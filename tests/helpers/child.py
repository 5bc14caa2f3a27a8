"""Run functions of a test file in a process of their own on the CPU device, which reads its quirks once.

The processes are forked from one that has imported what is not ours (numpy, hip-python), which takes half of a start.
"""

import atexit
import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
UNSET = ("HIPRT_CPU_QUIRKS", "HIPRT_CPU_PROFILE")
TIMEOUT = 240


@dataclass(frozen=True)
class Done:
    """What a child printed, and how it ended: `returncode` is its exit status, or minus the signal that ended it."""

    returncode: int
    stdout: str
    stderr: str


@cache
def parent():
    """Start the process that forks the children; it ends with this one."""
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "helpers.child"]
    environment = {**os.environ, "PYTHONPATH": path}
    made = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(made.communicate)
    return made


def run(function, args, quirks, profile, environment):
    """Run a function of a test file in a child, and return how it ended."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    chosen = {"HIPRT_CPU_QUIRKS": quirks, "HIPRT_CPU_PROFILE": profile, "HIPRT_PROVIDER": "cpu"}
    environment = {**kept, **{name: value for name, value in chosen.items() if value}, **environment}
    with tempfile.TemporaryDirectory() as folder:
        request = [function.__code__.co_filename, function.__name__, args, environment, folder]
        forker = parent()
        forker.stdin.write(json.dumps(request) + "\n")
        forker.stdin.flush()
        status = int(forker.stdout.readline())
        out, err = (Path(folder, name).read_text() for name in ("stdout", "stderr"))
    return Done(status, out, err)


def child(function, *args, quirks="", profile="", **environment):
    """Return what a module-level function returned in a child process; arguments and result are JSON.

    Parameters
    ----------
    function : callable
        Found again by its file and name.
    quirks, profile : str
        HIPRT_CPU_QUIRKS and HIPRT_CPU_PROFILE; the parent's own are not handed on.
    **environment
        Other variables.
    """
    done = run(function, args, quirks, profile, environment)
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


def crash(function, *args, quirks="", profile="", **environment):
    """Return what a child wrote to stderr before the device aborted it."""
    done = run(function, args, quirks, profile, environment)
    assert done.returncode == -signal.SIGABRT, (done.returncode, done.stdout, done.stderr[-6000:])
    return done.stderr


def fork_for_each_request():
    """Fork a child for each line of stdin, write its exit status to stdout when it ends, and yield in the child.

    Yields
    ------
    file, name, args : str, str, list
        A function and its arguments, in a child whose environment and output are those of the request.
    """
    for line in sys.stdin:
        file, name, args, environment, folder = json.loads(line)
        pid = os.fork()
        if pid == 0:
            signal.alarm(TIMEOUT)
            os.environ.clear()
            os.environ.update(environment)
            for stream, number in (("stdout", 1), ("stderr", 2)):
                os.dup2(os.open(Path(folder, stream), os.O_WRONLY | os.O_CREAT), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            yield file, name, args
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def call(file, name, args):
    """Bind hip-python to the library that hiprt chooses, call the function, and print what it returns as JSON."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from hiprt import library

    library.current()
    spec = importlib.util.spec_from_file_location("child_of_test", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, name)(*args)))


if __name__ == "__main__":
    import ml_dtypes  # noqa: F401
    import numpy as np  # noqa: F401
    import pytest  # noqa: F401
    from rocm.bindings import hip, hiprtc  # noqa: F401

    for work in fork_for_each_request():
        call(*work)
