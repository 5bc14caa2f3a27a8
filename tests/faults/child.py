"""Runs a function of a test file in a process whose HIP calls may fail: `python -m faults.child REQUEST`."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from faults import shim

TESTS = Path(__file__).resolve().parent.parent
TIMEOUT = 240


def run(function, folder, *args, **environment):
    """Return what a module-level function returned in a child whose HIP calls may fail.

    Parameters
    ----------
    function : callable
        Called with a `faults.shim.Shim` and `args`; arguments and result are JSON.
    folder : Path
        Where the shim is built.
    """
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    request = json.dumps([function.__code__.co_filename, function.__name__, str(folder), args])
    environment = {**os.environ, "PYTHONPATH": path, "HIPRT_PROVIDER": "cpu", **environment}
    command = [sys.executable, "-m", "faults.child", request]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


def main(file, name, folder, args):
    """Put a shim before the CPU device, call the function, and print what it returns as JSON."""
    from hiprt.provider import PACKAGE

    real = PACKAGE / "cpu" / "libhiprt_cpu.so"
    made = shim.make(folder, real)
    shim.stand_before(made)
    spec = importlib.util.spec_from_file_location("child_of_test", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, name)(shim.Shim(made, real), *args)))


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
