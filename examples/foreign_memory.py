"""Memory that somebody else owns: pointers, and arrays shared with numpy by DLPack, without a copy.

You learn how an engine with memory of its own hands a pointer to hiprt, how arrays are shared in both directions, and
how long what is shared stays alive.

Run it, with no GPU needed: ``python examples/foreign_memory.py``
"""

import gc
import os
import weakref

# Numpy's memory is the CPU device's memory. On a GPU the same calls share memory with torch or CuPy.
os.environ["HIPRT_PROVIDER"] = "cpu"

import numpy as np

import hiprt
from hiprt import graphs, kernels
from hiprt.allocator import external


class Slab:
    """An engine's own memory, of which it hands out pointers."""

    def __init__(self, nbytes):
        self.bytes = np.zeros(nbytes, np.uint8)
        self.address = self.bytes.ctypes.data


def step_on(x, y):
    """A step that adds the squares of `x` to `y`."""
    return graphs.Step(lambda: kernels.add(y, kernels.square(x), out=y))


def pointers():
    """Two arrays inside one slab; a step writes one of them, and keeps the slab alive as long as it may be launched."""
    slab = Slab(4096)
    gone = weakref.ref(slab)
    floats = slab.bytes.view(np.float32)
    floats[:8] = np.arange(8)

    # The owner is held until the arrays, their views and the steps that recorded them are gone and their work is done.
    x = hiprt.wrap(slab.address, (2, 4), np.float32, owner=slab)
    y = hiprt.wrap(slab.address + 1024, (2, 4), np.float32, owner=slab)
    step = step_on(x, y)
    for _ in range(3):
        step()
    hiprt.current_stream().synchronize()
    print("pointers ", floats[256:264], step.rungs)
    np.testing.assert_array_equal(floats[256:264], 3 * np.arange(8.0) ** 2)

    del slab, floats, x, y
    gc.collect()
    assert gone() is not None  # the step still writes there
    step()
    del step
    gc.collect()
    hiprt.current_stream().synchronize()
    # Owners go when their work is done, which is looked at whenever other foreign memory is dropped, or here.
    external.trim()
    assert gone() is None
    print("          the slab was kept until the step was gone")


def numpy_in():
    """An array of numpy's, as an argument of kernels."""
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    shared = hiprt.from_dlpack(host)
    kernels.multiply(shared, 10.0, out=shared)
    hiprt.current_stream().synchronize()  # numpy reads without asking the stream
    print("numpy in ", host.tolist())
    np.testing.assert_array_equal(host, np.arange(6).reshape(2, 3) * 10.0)


def numpy_out():
    """An array of ours, as numpy sees it: DLPack makes it wait for the stream."""
    x = kernels.add(hiprt.array(np.arange(4, dtype=np.float32)), 1.0)
    host = np.from_dlpack(x)
    del x  # the memory stays as long as numpy has it
    gc.collect()
    print("numpy out", host.tolist())
    np.testing.assert_array_equal(host, [1, 2, 3, 4])


if __name__ == "__main__":
    pointers()
    numpy_in()
    numpy_out()
