"""The shim: a HIP library between hiprt and the device that fails single calls. It is built from hiprt's own list."""

import ctypes
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from hiprt.native import build

KINDS = ("memory", "host memory", "stream", "event", "graph", "exec", "module", "pool", "program")
MAKES = {
    "hipMalloc": "memory",
    "hipMallocAsync": "memory",
    "hipMallocFromPoolAsync": "memory",
    "hipHostMalloc": "host memory",
    "hipStreamCreateWithFlags": "stream",
    "hipEventCreateWithFlags": "event",
    "hipGraphCreate": "graph",
    "hipStreamEndCapture": "graph",
    "hipGraphInstantiate": "exec",
    "hipModuleLoadData": "module",
    "hipMemPoolCreate": "pool",
    "hiprtcCreateProgram": "program",
}
# These do their work and then report the failure: to call them again would destroy something twice.
DESTROYS = {
    "hipFree": "memory",
    "hipFreeAsync": "memory",
    "hipHostFree": "host memory",
    "hipStreamDestroy": "stream",
    "hipEventDestroy": "event",
    "hipGraphDestroy": "graph",
    "hipGraphExecDestroy": "exec",
    "hipModuleUnload": "module",
    "hiprtcDestroyProgram": "program",
}
# These wait all the same where the status is that of work that failed.
WAITS = ("hipStreamSynchronize", "hipEventSynchronize", "hipDeviceSynchronize")
LAUNCH_FAILURE = 719
HERE = Path(__file__).resolve().parent


def functions(real):
    """Return the names and parameter types of the functions that hiprt calls and a library has."""
    library = ctypes.CDLL(str(real))
    entries = [
        entry
        for kind in ("HIPRT_HIP_FUNCTIONS", "HIPRT_HIP_OPTIONAL", "HIPRT_HIPRTC_FUNCTIONS")
        for entry in build.hip_list(kind)
    ]
    named = (entry.removesuffix(")").split(", (") for entry in entries)
    return {name: types for name, types in named if hasattr(library, name)}


def text(real):
    """Return the shim's C text."""
    parts = [f'#define REAL "{real}"\n', (HERE / "shim.c").read_text()]
    for i, (name, types) in enumerate(functions(real).items()):
        kinds = [] if types == "void" else types.split(", ")
        listed = ", ".join(f"{kind} a{k}" for k, kind in enumerate(kinds)) or "void"
        passed = ", ".join(f"a{k}" for k in range(len(kinds)))
        result = "hiprtcResult" if name.startswith("hiprtc") else "hipError_t"
        # hiprtc has statuses of its own: 1 is out of memory, 11 an internal error.
        failure = "(fails == 2 ? 1 : 11)" if name.startswith("hiprtc") else "fails"
        early = "0" if name in DESTROYS else f"fails != {LAUNCH_FAILURE}" if name in WAITS else "1"
        counted = ""
        if name in MAKES:
            counted = f"  if (!status) count({KINDS.index(MAKES[name])}, 1);\n"
        if name in DESTROYS:
            counted = f"  if (!status) count({KINDS.index(DESTROYS[name])}, -1);\n"
        parts.append(
            f"EXPORT {result} {name}({listed}) {{\n"
            f"  static {result} (*next)({types});\n"
            f'  if (!next) *(void **)&next = real("{name}");\n'
            f"  const int fails = decide({i});\n"
            f"  if (fails && {early}) return ({result}){failure};\n"
            f"  const {result} status = next({passed});\n{counted}"
            f"  return fails ? ({result}){failure} : status;\n}}\n"
        )
    return "".join(parts)


def make(folder, real):
    """Build the shim before a library; returns its file."""
    source, out = Path(folder) / "shim.c", Path(folder) / "libamdhip64.so"
    source.write_text(text(real))
    options = ["-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-w", f"-I{build.INCLUDE}"]
    subprocess.run(["gcc", *options, source, "-o", out, "-ldl", "-pthread"], check=True)
    return out


class Shim:
    """A shim in this process: which calls fail, and what is alive."""

    def __init__(self, file, real):
        self.library = ctypes.CDLL(str(file))
        self.names = list(functions(real))
        for name in ("shim_calls", "shim_hits"):
            getattr(self.library, name).restype = ctypes.c_long
        self.library.shim_arm.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_int, ctypes.c_int]

    def arm(self, n, burst, status, name=None):
        """Have the n-th call from now on fail, and those behind it: `burst` in all, every one for 0.

        With a name, the n-th call of that function.
        """
        self.library.shim_arm(n, burst, status, -1 if name is None else self.names.index(name))

    def disarm(self):
        """Let every call succeed. Returns the name of the first that failed; empty if none did."""
        self.library.shim_disarm()
        index = self.library.shim_failed()
        return "" if index < 0 else self.names[index]

    @contextmanager
    def fail(self, n, burst, status):
        """Let calls within the block fail: `burst` of them from the n-th on, every one for 0."""
        self.arm(n, burst, status)
        try:
            yield
        finally:
            self.disarm()

    def failed(self):
        """Return how many calls have failed since the last `arm`."""
        return self.library.shim_hits()

    def count(self, work):
        """Return how many calls some work makes."""
        self.arm(0, 0, 0)
        work()
        return self.library.shim_calls()

    def live(self):
        """Return how many objects of each kind are alive."""
        return {kind: self.library.shim_live(i) for i, kind in enumerate(KINDS)}

    def watch(self, work):
        """Do some work and return, for each call in order, its name and where Python stood."""
        seen = []

        def observe(index):
            frame, stack = sys._getframe(1), []
            while frame is not None and len(stack) < 8:
                stack.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}")
                frame = frame.f_back
            seen.append((self.names[index], tuple(stack)))

        kind = ctypes.CFUNCTYPE(None, ctypes.c_int)
        callback = kind(observe)
        self.arm(0, 0, 0)
        self.library.shim_observe(callback)
        try:
            work()
        finally:
            self.library.shim_observe(kind(0))
        return seen


def stand_before(file):
    """Make hiprt use a shim instead of the CPU device itself; no library may be open yet."""
    from hiprt import provider

    find = provider.CPU.find

    def found(refused):
        for _ in find(refused):
            yield provider.Files(file, file, file)

    object.__setattr__(provider.CPU, "find", found)
