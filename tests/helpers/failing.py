"""A HIP library before the CPU device whose calls fail when a test says so, and children that use it.

The library defines only the functions that may fail. All others are found in the CPU device, which it is linked with.
"""

import ctypes
import importlib.util
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
# The calls of a launch, of what is asked about one, of changes of an exec, and of copies.
NAMES = [
    "hipEventCreateWithFlags",
    "hipEventElapsedTime",
    "hipEventQuery",
    "hipEventRecord",
    "hipEventSynchronize",
    "hipGraphExecKernelNodeSetParams",
    "hipGraphExecUpdate",
    "hipGraphInstantiate",
    "hipGraphLaunch",
    "hipMallocFromPoolAsync",
    "hipMemcpyAsync",
    "hipSetDevice",
    "hipStreamSynchronize",
]
SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
static void *device;
static const char *names[] = {NAMES};
static void *real[sizeof names / sizeof *names];
static long count, first, burst, hits; /* `hits` outlives the block */
static int status;

/* Fail the calls number first to first + burst - 1 from now on, or all from `first` on if burst is 0. */
void fail(long new_first, long new_burst, int new_status) {
  if (new_first) hits = 0;
  count = 0, first = new_first, burst = new_burst, status = new_status;
}
long failed(void) { return hits; }
long counted(void) { return count; }

static int fails(void) {
  long call = ++count;
  if (!first || call < first || (burst && call >= first + burst)) return 0;
  return hits++, 1;
}

static int forward(int index, long a, long b, long c, long d, long e) {
  if (fails()) return status;
  if (!device) device = dlopen(DEVICE, RTLD_NOW | RTLD_LOCAL);
  if (!real[index]) real[index] = dlsym(device, names[index]);
  return ((int (*)(long, long, long, long, long))real[index])(a, b, c, d, e);
}

/* The one with more arguments than registers take. */
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
  static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                       void **);
  if (fails()) return status;
  if (!device) device = dlopen(DEVICE, RTLD_NOW | RTLD_LOCAL);
  if (!launch) *(void **)&launch = dlsym(device, "hipModuleLaunchKernel");
  return launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}
"""
FORWARD = "int {name}(long a, long b, long c, long d, long e) {{ return forward({index}, a, b, c, d, e); }}\n"


def build(folder, device):
    """Build the library before the one at `device`, and return its path."""
    source, library = folder / "failing.c", folder / "libamdhip64.so"
    names = ", ".join(f'"{name}"' for name in NAMES)
    text = SOURCE.replace("{NAMES}", f"{{{names}}}").replace("DEVICE", f'"{device}"')
    source.write_text(text + "".join(FORWARD.format(name=name, index=i) for i, name in enumerate(NAMES)))
    compiler = os.environ.get("CC", "cc").split()
    command = [*compiler, "-shared", "-fPIC", "-o", library, source, "-Wl,--no-as-needed", device]
    subprocess.run([*command, f"-Wl,-rpath,{device.parent}", "-ldl"], check=True)
    return library


def run(function, folder, *args, **environment):
    """Return what a module-level function returned in a child whose HIP calls may fail.

    Parameters
    ----------
    function : callable
        Called with a `Calls` and `args`; arguments and result are JSON.
    folder : Path
        Where the library is built.
    """
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    request = json.dumps([function.__code__.co_filename, function.__name__, str(folder), args])
    environment = {**os.environ, "PYTHONPATH": path, "HIPRT_PROVIDER": "cpu", **environment}
    done = subprocess.run(
        [sys.executable, "-m", "helpers.failing", request], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return json.loads(done.stdout.splitlines()[-1])


class Calls:
    """The failing library's switch."""

    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.library.fail.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_int)

    @contextmanager
    def fail(self, first, burst, status):
        """Let calls within the block fail: `burst` of them, from number `first`, from 1."""
        self.library.fail(first, burst, status)
        try:
            yield self
        finally:
            self.library.fail(0, 0, 0)

    @property
    def failed(self):
        """How many calls have failed in the last block."""
        return self.library.failed()

    def count(self, work):
        """Return how many calls the work makes that may fail."""
        with self.fail(sys.maxsize, 1, 0):
            work()
            return self.library.counted()


def main(file, name, folder, args):
    """Put the library before the CPU device, call the function, and print what it returns as JSON."""
    from hiprt import library, provider

    (files,) = provider.CPU.find([])
    failing = build(Path(folder), files.hip)
    before = replace(provider.CPU, find=lambda refused: iter([files._replace(hip=failing)]))
    library.wanted = lambda name: [before]
    spec = importlib.util.spec_from_file_location("child_of_test", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(json.dumps(getattr(module, name)(Calls(failing), *args)))


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
