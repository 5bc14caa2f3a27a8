"""The CPU device's checks know the bounds and the life of each buffer of a pool."""

import sys

import pytest
from helpers.child import child

import hiprt
from hiprt.allocator import Pool
from hiprt.allocator.driver import device_memory
from hiprt.buffer import Buffer
from hiprt.check import check
from hiprt.errors import OutOfMemoryError

HEAD = """
import numpy as np
import hiprt
from hiprt import graphs, kernels
from hiprt.kernels import hip_kernel

SOURCE = '''
extern "C" __global__ void put(float *x, int at) { x[at + threadIdx.x] = 1; }
extern "C" __global__ void get(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }
'''
put = hip_kernel(SOURCE, "put", {"x": "update float32", "at": "int32"})
get = hip_kernel(SOURCE, "get", {"x": "read float32", "y": "write float32"})
"""
BEYOND = """
arrays = [hiprt.zeros(256) for _ in range(4)]
put(arrays[1], 255, grid=1, block=2)
"""
FREED = """
def release():
    x = hiprt.zeros(100)
    view = hiprt.wrap(x.address, 100)
    del x
    return view
put(release(), 0, grid=1, block=1)
"""
NEVER_WRITTEN = """
x = hiprt.full(64, 2.0)
del x
get(hiprt.empty(64), hiprt.empty(64), grid=1, block=1)
"""
CORRECT = """
def work(stream):
    with hiprt.use_stream(stream):
        for i in range(40):
            x = hiprt.zeros(100 + 100 * (i % 5))
            put(x, 50, grid=1, block=50)
            kept[:] = [*kept[-3:], x]
            y = hiprt.empty(50)
            get(kept[0], y, grid=1, block=50)

kept = [hiprt.zeros(100)]
streams = [hiprt.Stream() for _ in range(2)]
for _ in range(5):
    for stream in streams:
        work(stream)
step = graphs.Step(lambda x: kernels.exp(kernels.add(x, 1.0)))
for i in range(5):
    step(hiprt.full(300, float(i)))
for stream in streams:
    stream.synchronize()
"""


def findings(tmp_path, code):
    """Run a program under the checks; return what they found."""
    program = tmp_path / "program.py"
    program.write_text(HEAD + code + "\nhiprt.current_stream().synchronize()\n")
    status, found = check([sys.executable, str(program)])
    assert status == 0
    return found


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
@pytest.mark.parametrize(
    ("code", "kind", "buffer", "lines"),
    [
        (BEYOND, "memory", "byte 1024 of a buffer of 1024 bytes", [14]),
        (FREED, "memory", "byte 0 of a buffer of 400 bytes", [15, 17]),
        (NEVER_WRITTEN, "init", "byte 0 of a buffer of 256 bytes", [16]),
    ],
    ids=["beyond", "freed", "never written"],
)
def test_defects_at_the_bounds_of_an_array(tmp_path, code, kind, buffer, lines):
    (finding,) = findings(tmp_path, code)
    assert finding["kind"] == kind
    assert buffer in finding["buffer"]
    assert [int(stack.split(":")[1].split()[0]) for stack in finding["stacks"]] == lines


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_arrays_that_come_and_go_are_left_alone(tmp_path):
    assert findings(tmp_path, CORRECT) == []


def sizes_of_pools():
    """Allocate from device memory and from elsewhere; ask for what no device has."""
    stream, starts = hiprt.Stream(), iter(range(1 << 20, 1 << 24, 1 << 12))
    made = []
    for source in (device_memory, lambda nbytes, stream: Buffer(next(starts), nbytes, 0)):
        pool = Pool(source)
        kept = pool.allocate(2048, stream)
        made.append([pool.stats().allocated, pool.stats().reserved])
        for nbytes in ((1 << 60) + 1, (1 << 64) - 1):
            with pytest.raises(OutOfMemoryError):
                pool.allocate(nbytes, stream)
        del kept
        made[-1].append(pool.stats().allocated)
    return made


@pytest.mark.only("cpu", reason="the checks are the CPU device's")
def test_sizes_of_checked_pools():
    """A gap counts as its buffer's; there is none in memory that is not the device's own."""
    assert child(sizes_of_pools, HIPRT_CPU_CHECK="memory") == [[2560, 2560, 0], [2048, 2048, 0]]
    assert child(sizes_of_pools, HIPRT_CPU_CHECK="") == [[2048, 2048, 0]] * 2
