"""Probes: tiny graphs that show what this library, version and device does right.

They run at the first graph of a process. Their results are kept on disk for this library and device, decide what the
device is trusted with (`hiprt.graphs.launch.trust`), and are shown by `hiprt doctor`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from hiprt import core, device_results, fork
from hiprt.allocator import Pool
from hiprt.allocator.driver import taken
from hiprt.array import Array
from hiprt.buffer import Buffer, hip_malloc
from hiprt.device import Device
from hiprt.errors import HipError
from hiprt.graphs.launch.exec import Exec
from hiprt.graphs.record.recording import Recording
from hiprt.loaded_modules import modules
from hiprt.module import READ, SCALAR, WRITE, Argument, Function
from hiprt.stream import Stream

__all__ = ["OK", "PROBES", "probes", "results", "unanswered"]

OK = "ok"
RAISED = "raised "  # stands before an error's text in a result
DELAY = 1_000_000  # rounds of dependent instructions, which take milliseconds
SOURCE = """
struct Values { int a; double b; int c[3]; };
extern "C" __global__ void store(int* out, int value) { *out = value; }
extern "C" __global__ void add(const int* in, int* out, int value) { *out = *in + value; }
extern "C" __global__ void follow(const int* in, int* out, int value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
#endif
  *out = *in + value;
}
extern "C" __global__ void spread(int* out, Values v, int tail) {
  out[0] = v.a; out[1] = (int)v.b; out[2] = v.c[0]; out[3] = v.c[2]; out[4] = tail;
}
extern "C" __global__ void late(int* out, int value, int rounds) {
  unsigned v = 1;
  for (int i = 0; i < rounds; i++) { v ^= v << 13; v ^= v >> 17; v ^= v << 5; }
  out[0] = value + (v == 0);
}
"""
ARGUMENTS = {
    "late": [Argument("out", WRITE), Argument("value", SCALAR, "int32"), Argument("rounds", SCALAR, "int32")],
    "store": [Argument("out", WRITE), Argument("value", SCALAR, "int32")],
    "add": [Argument("in", READ), Argument("out", WRITE), Argument("value", SCALAR, "int32")],
    "follow": [Argument("in", READ), Argument("out", WRITE), Argument("value", SCALAR, "int32")],
    "spread": [
        Argument("out", WRITE),
        Argument("values", SCALAR, "bytes", size=32, alignment=8),
        Argument("tail", SCALAR, "int32"),
    ],
}
STRUCT = np.dtype({"names": ["a", "b", "c"], "formats": ["i4", "f8", "3i4"], "offsets": [0, 8, 16], "itemsize": 32})
ONE = (1, 1, 1)
lock = fork.lock()
results: dict[Device, dict[str, str]] = {}
asked: Counter[Device] = Counter()  # how often while answers were missing

# What a program shows of its memory does not depend on who has run the probes. Without a pool, the end of a probe would
# wait for all of the device's work, which may wait for this thread.
memory = Pool(hip_malloc, "probes", is_guarded=False)


class Bench:
    """The stream, the memory and the kernels that probes use."""

    def __init__(self, device: Device) -> None:
        module = modules.load(SOURCE, "hiprt_probe.hip", device=device)
        self.functions = {
            name: Function(module, name, arguments, ahead=() if name == "follow" else None)
            for name, arguments in ARGUMENTS.items()
        }
        self.stream = Stream(device)
        buffer = memory.allocate(24 * 4, self.stream)
        self.out = Array(buffer, (24,), np.dtype(np.int32), buffer.address)
        self.out.fill_bytes(0, self.stream)

    def record(self, name: str, *values: object) -> Recording:
        """Record one launch of a kernel of one thread."""
        recording = Recording(edges="data")
        with recording.record(self.stream):
            self.functions[name](self.stream, ONE, ONE, *values)
        return recording

    def launch(self, exec_: Exec) -> list[int]:
        """Launch an exec and return what the memory holds then."""
        exec_.launch(self.stream)
        return [int(v) for v in self.out.numpy(self.stream)]

    def make(self, recording: Recording) -> Exec:
        """Make an exec."""
        return Exec(recording, self.stream.device.index)


def expect(got: object, wanted: object) -> str:
    """Return `OK` if a probe got what it wanted, else both in words."""
    return OK if got == wanted else f"{got} instead of {wanted}"


def kernel_nodes(bench: Bench) -> str:
    """A hipFunction_t is accepted in a kernel node (HIP before 5.5 wanted a host symbol)."""
    return expect(bench.launch(bench.make(bench.record("store", bench.out, 11)))[0], 11)


def arguments_copied(bench: Bench) -> str:
    """Argument values are copied when a node is added (HIP before mid-2022 kept the caller's pointer)."""
    return takes_effect(bench, core.lib.HIPRT_INSTANTIATE)


def patch_takes_effect(bench: Bench) -> str:
    """The setter of a kernel node, hipGraphExecKernelNodeSetParams, changes what the next launch does."""
    return takes_effect(bench, core.lib.HIPRT_PATCH)


def structures_by_value(bench: Bench) -> str:
    """A structure argument and what follows it survive a patch."""
    value = np.zeros((), STRUCT)
    value["a"], value["b"], value["c"] = 1, 2.0, (3, 4, 5)
    exec_ = bench.make(bench.record("spread", bench.out, value.tobytes(), 6))
    if bench.launch(exec_)[:5] != [1, 2, 3, 5, 6]:
        return "wrong before the patch"
    value["b"], value["c"] = 7.0, (8, 9, 10)
    exec_.patch(bench.record("spread", bench.out, value.tobytes(), 11))
    return expect(bench.launch(exec_)[:5], [1, 7, 8, 10, 11])


def update_takes_effect(bench: Bench) -> str:
    """An update of all nodes, hipGraphExecUpdate, changes what the next launch does."""
    return takes_effect(bench, core.lib.HIPRT_UPDATE)


def takes_effect(bench: Bench, rung: int) -> str:
    """Change an exec again and again by a rung; every launch must see the newest value: libhiprt's own probe."""
    wanted, seen = core.ffi.new("uint32_t *"), core.ffi.new("uint32_t *")
    store = bench.functions["store"].core
    core.call(core.lib.hiprt_probe_rung(bench.stream.core, store, bench.out.address, rung, wanted, seen))
    return expect(seen[0], wanted[0])


def wiring_compared(bench: Bench) -> str:
    """An update refuses a graph with other edges. CLR compares only their number; the keys protect steps (G3)."""
    refused = core.ffi.new("int *")
    core.call(core.lib.hiprt_probe_wiring(bench.stream.device.index, refused))
    return OK if refused[0] else "other edges were accepted"


def roots_ordered(bench: Bench) -> str:
    """A graph with several roots starts after earlier work of its stream. CLR before 2026 does not wait."""
    # Several launches come first, because one alone may be over before the graph is queued.
    first, *between, source = (bench.out[i : i + 1] for i in range(8))
    recording = Recording(edges="data")
    with recording.record(bench.stream):
        for i in range(8, 16):
            bench.out[i : i + 1].copy_from(source, bench.stream)
    exec_ = Exec(recording, bench.stream.device.index, fanout=0)
    for value in range(51, 61):
        bench.functions["late"](bench.stream, ONE, ONE, first, value, DELAY)
        for earlier, later in pairwise([first, *between, source]):
            bench.functions["add"](bench.stream, ONE, ONE, earlier, later, 0)
        seen = bench.launch(exec_)[8:16]
        if seen != [value] * 8:
            return expect(seen, [value] * 8)
    return OK


def fan_out_kept(bench: Bench) -> str:
    """Every node that depends on another waits for it, however many there are. CLR has lost such edges."""
    source, late, add = bench.out[4:5], bench.functions["late"], bench.functions["add"]
    for value in range(71, 81):
        recording = Recording(edges="data")
        with recording.record(bench.stream):
            late(bench.stream, ONE, ONE, source, value, DELAY)
            for i in range(8, 24):
                add(bench.stream, ONE, ONE, source, bench.out[i : i + 1], 0)
        seen = bench.launch(Exec(recording, bench.stream.device.index, fanout=0))[8:24]
        if seen != [value] * 16:
            return expect(seen, [value] * 16)
    return OK


def overlaps_ordered(bench: Bench) -> str:
    """A kernel that waits by itself sees what the kernels before it wrote."""
    recording, cells = Recording(edges="data"), [bench.out[i : i + 1] for i in range(8)]
    with recording.record(bench.stream):
        bench.functions["late"](bench.stream, ONE, ONE, cells[0], 80, DELAY)
        for earlier, later in pairwise(cells):
            bench.functions["follow"](bench.stream, ONE, ONE, earlier, later, 1)
    exec_ = Exec(recording, bench.stream.device.index, overlap=True)
    for _ in range(3):
        bench.out.fill_bytes(0, bench.stream)
        seen = bench.launch(exec_)[:8]
        if seen != list(range(80, 88)):
            return expect(seen, list(range(80, 88)))
    return OK


def pool_ordered(bench: Bench) -> str:
    """Memory freed with hipFreeAsync on one stream is not given to another before the work that used it has run."""
    store, seen = bench.functions["store"], []
    with Stream(bench.stream.device) as other:
        for value in range(61, 64):
            with taken(4096, bench.stream) as first:
                bench.functions["late"](bench.stream, ONE, ONE, integer_at(first), 0, DELAY)
            with taken(4096, other) as second:
                store(other, ONE, ONE, integer_at(second), value)
                bench.stream.synchronize()
                seen += integer_at(second).numpy(other).tolist()
    return expect(seen, [61, 62, 63])


def integer_at(address: int) -> Array:
    """Return one integer in memory that somebody else owns."""
    return Array(Buffer(address, 4, 0), (1,), np.dtype(np.int32), address)


PROBES: dict[str, Callable[[Bench], str]] = {
    "kernel nodes": kernel_nodes,
    "arguments copied": arguments_copied,
    "patch takes effect": patch_takes_effect,
    "structures by value": structures_by_value,
    "update takes effect": update_takes_effect,
    "wiring compared": wiring_compared,
    "roots ordered": roots_ordered,
    "fan-out kept": fan_out_kept,
    "overlaps ordered": overlaps_ordered,
    "pool ordered": pool_ordered,
}


def run(device: Device, names: Iterable[str] = PROBES) -> dict[str, str]:
    """Run the named probes, or all."""
    try:
        bench = Bench(device)
    except HipError as error:
        return dict.fromkeys(names, f"{RAISED}{error}")
    seen = {}
    for name in names:
        try:
            seen[name] = PROBES[name](bench)
        except HipError as error:
            seen[name] = f"{RAISED}{error}"
    return seen


def probes(device: Device) -> dict[str, str]:
    """Return what the probes found on a device: name to ``ok`` or what was seen instead.

    Answers are remembered. A probe whose calls failed gave none, perhaps because memory was short: it runs again at the
    second, fourth, eighth call of this function and so on, so that one that fails every time costs little.

    Parameters
    ----------
    device : Device
    """
    with lock:
        known = results.setdefault(device, {})
        if not known:
            known.update(load(device) or {})
        missing = unanswered(device)
        if missing:
            asked[device] += 1
            if asked[device] & (asked[device] - 1) == 0:
                known.update(run(device, missing))
                if not unanswered(device):
                    store(device, known)
        return known


def unanswered(device: Device) -> list[str]:
    """Return the probes that have given no answer on a device yet."""
    known = results.get(device, {})
    return [name for name in PROBES if known.get(name, RAISED).startswith(RAISED)]


def load(device: Device) -> dict[str, str] | None:
    """Return the results that are kept on disk; None where there are none of these probes."""
    kept = device_results.load(cache_file(device))
    is_whole = isinstance(kept, dict) and list(kept) == list(PROBES)
    return kept if is_whole and all(isinstance(result, str) for result in kept.values()) else None


def store(device: Device, known: Mapping[str, str]) -> None:
    """Keep results on disk; a folder that cannot be written only costs time."""
    device_results.store(cache_file(device), known)


def cache_file(device: Device) -> Path:
    """Return where a device's results are kept."""
    return device_results.file_of("probes", device, SOURCE)
