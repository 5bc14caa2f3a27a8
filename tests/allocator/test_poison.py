"""HIPRT_ALLOC_POISON: fresh and freed memory have patterns, and writes outside a buffer are found at its free."""

import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.gate import Gate

import hiprt
from hiprt.allocator import Pool
from hiprt.allocator.poison import FREED, FRESH, ZONE, RedZoneError, pages, release as let_go
from hiprt.buffer import hip_malloc


@pytest.fixture
def poison():
    """A guarded pool of its own."""
    return Pool(hip_malloc, is_guarded=True)


def read(stream, address, nbytes):
    """Read device memory, whoever owns it; freed memory must be opened for that."""
    pages().open(address, address + nbytes)
    out = np.empty(nbytes, np.uint8)
    stream.copy(int(out.ctypes.data), address, nbytes, 2)
    stream.synchronize()
    return out


def release(buffer):
    """Free now, so that an error is raised and no warning."""
    free, buffer.free = buffer.free, None
    free()


def test_fresh_memory_is_not_a_number(poison, stream):
    """Whoever reads before writing gets NaN."""
    buffer = poison.allocate(1000, stream)
    words = read(stream, buffer.address, 1000).view(np.uint32)
    assert (words == FRESH).all()
    assert np.isnan(words.view(np.float32)).all()


@pytest.mark.parametrize("nbytes", [0, 1, 5, 512, 1000])
def test_freed_memory_is_filled(poison, stream, nbytes):
    """Whoever reads after the free gets the pattern, to the last byte."""
    buffer = poison.allocate(nbytes, stream)
    address = buffer.address
    release(buffer)
    assert (read(stream, address, nbytes) == FREED).all()
    poison.trim()
    assert poison.stats().allocated == 0


def test_fill_is_in_stream_order(poison, stream):
    """The pattern of a reused block comes behind the work that used it before."""
    gate = Gate(stream)
    first = poison.allocate(512, stream)
    address = first.address
    release(first)
    let_go()
    gate.shut()
    second = poison.allocate(512, stream)
    assert second.address == address
    stream.fill(address, 7, 1, 512)
    gate.open()
    assert (read(stream, address, 512) == 7).all()
    release(second)
    gate.close()


@pytest.mark.parametrize(
    ("offset", "words"),
    [(-1, "1 before its start"), (-ZONE, "256 before"), (1000, "is 1 behind its end"), (1255, "is 256 behind")],
)
def test_write_outside_is_named_with_both_stacks(poison, stream, offset, words):
    """One byte is enough, on either side."""

    def allocate_here():
        return poison.allocate(1000, stream)

    def free_here(buffer):
        release(buffer)

    buffer = allocate_here()
    stream.fill(buffer.address + offset, 1, 1, 1)
    with pytest.raises(RedZoneError, match=words) as caught:
        free_here(buffer)
    error = caught.value
    assert (error.address, error.nbytes, error.offset) == (buffer.address, 1000, offset)
    assert "allocate_here" in error.allocated_at
    assert "free_here" not in error.allocated_at
    assert "free_here" in error.freed_at
    poison.trim()
    assert poison.stats().allocated == 0, "the memory came back all the same"


def test_stream_that_is_closed_or_records(poison, stream):
    """Freeing still checks: behind the device's work, and past the recorder."""
    other = hiprt.Stream()
    buffer = poison.allocate(64, other)
    other.fill(buffer.address + 64, 1, 1, 1)
    other.close()
    with pytest.raises(RedZoneError):
        release(buffer)
    from hiprt.graphs.record.recording import Recording

    buffer, recording = poison.allocate(64, stream), Recording()
    with recording.record(stream):
        release(buffer)
    assert len(recording) == 0
    poison.trim()
    assert poison.stats().allocated == 0


PROGRAM = """
import warnings, hiprt
from hiprt import core, graphs, kernels
stream = hiprt.current_stream()
x = hiprt.empty(64)
assert x.numpy().view("uint32")[0] == 0xFFC0DEAD
x.set(range(64))
step = graphs.Step(lambda: kernels.add(x, x))
for _ in range(3):
    y = step()
assert y.numpy()[5] == 10
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    stream.fill(x.address, 0, 1, 257)
    del x, y, step
print(*[w.message for w in seen])
"""


def test_the_flag_guards_arrays():
    """A write past an array is reported when it goes; steps run as before."""
    environment = {**os.environ, "HIPRT_ALLOC_POISON": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "is 1 behind its end" in done.stdout
    assert "allocated at" in done.stdout
