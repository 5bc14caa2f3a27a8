"""Functions of a test file run in a process of its own on the CPU device, with quirks: the device reads them once."""

import importlib.util
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
UNSET = ("HIPRT_CPU_QUIRKS", "HIPRT_CPU_PROFILE")
TIMEOUT = 240


def run(function, args, quirks, profile, environment):
    """Run a function of a test file in a child; the finished process."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    chosen = {"HIPRT_CPU_QUIRKS": quirks, "HIPRT_CPU_PROFILE": profile, "HIPRT_PROVIDER": "cpu", "PYTHONPATH": path}
    file, name = function.__code__.co_filename, function.__name__
    command = [sys.executable, "-m", "helpers.child", file, name, json.dumps(args)]
    environment = {**kept, **{name: value for name, value in chosen.items() if value}, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)


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
    """Return what a child that the device had to abort wrote to stderr."""
    done = run(function, args, quirks, profile, environment)
    assert done.returncode == -signal.SIGABRT, (done.returncode, done.stdout, done.stderr[-6000:])
    return done.stderr


def main():
    """Be the child: bind hip-python to the library that hiprt chooses, and call the function."""
    file, name, args = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from hiprt import library

    library.current()
    spec = importlib.util.spec_from_file_location("child_of_test", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, name)(*json.loads(args))))


if __name__ == "__main__":
    main()
