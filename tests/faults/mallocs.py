"""Memory requests of the C core that fail, by a library that is preloaded."""

import ctypes
import subprocess
from pathlib import Path

PYTHON_DOMAINS = (1, 2)  # PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ
SOURCE = Path(__file__).resolve().parent / "mallocs.c"


def make(folder):
    """Build the library; returns its file."""
    out = Path(folder) / "libmallocs.so"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-Wall", "-Werror", SOURCE, "-o", out, "-pthread"], check=True)
    return out


class Mallocs:
    """The requests of the C core, as `faults.shim.Shim` has HIP's calls; the shim counts the device's objects."""

    def __init__(self, shim):
        from hiprt import core

        self.library, self.shim = ctypes.CDLL(None), shim
        for name in ("mallocs_calls", "mallocs_hits", "mallocs_live"):
            getattr(self.library, name).restype = ctypes.c_long
        self.library.mallocs_arm.argtypes = [ctypes.c_long, ctypes.c_long]
        lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
        ranges = [tuple(int(end, 16) for end in line[0].split("-")) for line in lines if line[-1] == core.FILE]
        self.library.mallocs_of(ctypes.c_void_p(min(ranges)[0]), ctypes.c_void_p(max(ranges)[1]))
        for domain in PYTHON_DOMAINS:
            allocator = (ctypes.c_void_p * 5)()  # PyMemAllocatorEx
            ctypes.pythonapi.PyMem_GetAllocator(domain, allocator)
            self.library.mallocs_wrap(allocator)
            ctypes.pythonapi.PyMem_SetAllocator(domain, allocator)

    def arm(self, n, burst, status):
        """Have the n-th request from now on fail, and those behind it: `burst` in all, every one for 0."""
        self.library.mallocs_arm(n, burst)

    def disarm(self):
        """Let every request succeed."""
        self.library.mallocs_disarm()
        return "malloc" if self.library.mallocs_hits() else ""

    def live(self):
        """Return how many objects are alive, and how many pieces of memory the core holds."""
        from hiprt import allocator

        pool = allocator.default_pool.stats()
        memory = {"pieces of the core": self.library.mallocs_live(), "bytes of the pool": pool.reserved}
        return {**self.shim.live(), **memory}

    def watch(self, work):
        """Do some work and return, for each request in order, how it was made, and its place in the core."""
        self.arm(0, 0, 0)
        work()
        names, place = ("malloc", "Python's"), self.library.mallocs_place
        numbers = range(1, self.library.mallocs_calls() + 1)
        return [(names[self.library.mallocs_through_python(n)], (place(n),)) for n in numbers]
