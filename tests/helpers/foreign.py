"""Other code: a library that launches on a stream behind hiprt's back, as hipBLAS does, through HIP itself."""

import ctypes
from functools import cache

import numpy as np

from helpers.hip_calls import raw
from hiprt import core
from hiprt.compiler import compile_source
from hiprt.hip import call, handle, lib
from hiprt.module import Module

SOURCE = """
struct Pair { int m; int c; };
extern "C" __global__ void affine(const unsigned* x, unsigned* y, int m, int c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * m + c;
}
extern "C" __global__ void pair(unsigned* y, Pair p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = y[i] * p.m + p.c;
}
"""
POINTER, SIZE, END = 1, 2, 3  # HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END


@cache
def functions():
    """The library's kernels by name."""
    module = Module(*compile_source(SOURCE, "other_code.hip"))
    return {name: module.function(name) for name in ("affine", "pair")}


def submit(name, stream, n, cells):
    """Launch a kernel of 64 threads a block with arguments given as arrays of one element."""
    pointers = np.array([cell.ctypes.data for cell in cells], np.uint64)
    params = core.ffi.cast("void *", pointers.ctypes.data)
    call(lib.hipModuleLaunchKernel(functions()[name], -(-n // 64), 1, 1, 64, 1, 1, 0, stream, params, core.ffi.NULL))
    # HIP has copied the arguments.
    for cell in cells:
        cell.fill(0)


def affine(stream, y, x, m=3, c=1, n=None):
    """y = x * m + c, for arrays of uint32 or addresses."""
    n = x.size if n is None else n
    cells = [np.array([getattr(a, "address", a)], np.uint64) for a in (x, y)]
    submit("affine", stream, n, [*cells, *(np.array([v], np.int32) for v in (m, c, n))])


def affine_packed(stream, y, x, m=3, c=1):
    """Do the same with the arguments in one block, as rocBLAS's kernels are launched."""
    block = np.zeros(1, np.dtype([("x", "u8"), ("y", "u8"), ("m", "i4"), ("c", "i4"), ("n", "i4")]))
    block[0] = x.address, y.address, m, c, x.size
    size = np.array([block.nbytes], np.uint64)
    extra = np.array([POINTER, block.ctypes.data, SIZE, size.ctypes.data, END], np.uint64)
    params = core.ffi.cast("void *", extra.ctypes.data)
    grid = -(-x.size // 64)
    call(lib.hipModuleLaunchKernel(functions()["affine"], grid, 1, 1, 64, 1, 1, 0, stream, core.ffi.NULL, params))
    block.fill(0)


def pair(stream, y, m=3, c=1):
    """y = y * m + c, with both numbers in a structure."""
    numbers = np.zeros(1, np.dtype([("m", "i4"), ("c", "i4")]))
    numbers[0] = m, c
    submit("pair", stream, y.size, [np.array([y.address], np.uint64), numbers, np.array([y.size], np.int32)])


def pointer(array):
    """An array's address, where HIP takes a pointer to constants."""
    return core.ffi.cast("void *", array.address)


def copy(stream, y, x):
    """Copy an array on the device."""
    call(lib.hipMemcpyAsync(y.address, pointer(x), x.nbytes, lib.hipMemcpyDeviceToDevice, stream))


def allocate(stream):
    """Allocate and free in stream order."""
    address = handle(lib.hipMallocAsync, 256, stream)
    call(lib.hipFreeAsync(address, stream))


def fill(stream, y, value):
    """Set all elements of an array of uint32."""
    call(lib.hipMemsetD32Async(y.address, value, y.size, stream))


class Event:
    """An event of the library's own."""

    handle = None  # of one that could not be made

    def __init__(self):
        self.handle = handle(lib.hipEventCreateWithFlags, lib.hipEventDisableTiming)

    def __del__(self):
        if self.handle is not None:
            lib.hipEventDestroy(self.handle)

    def between(self, first, second):
        """Make a stream wait for what another one has by now."""
        call(lib.hipEventRecord(self.handle, first))
        call(lib.hipStreamWaitEvent(second, self.handle, 0))


class Side:
    """A second stream that the library owns, on which it works beside the stream that it was given."""

    handle = None  # of one that could not be made

    def __init__(self):
        self.handle = handle(lib.hipStreamCreateWithFlags, lib.hipStreamNonBlocking)
        self.fork, self.join = Event(), Event()

    def __del__(self):
        if self.handle is not None:
            lib.hipStreamDestroy(self.handle)


CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
nothing = CALLBACK(lambda data: None)


def host_function(stream):
    """Queue a function of the host."""
    return raw("hipLaunchHostFunc", stream, nothing, None)


def tells_arguments():
    """Whether HIP tells where the arguments of a kernel lie."""
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    return not raw("hipKernelGetParamInfo", functions()["affine"], 0, ctypes.byref(offset), ctypes.byref(size)).value


def is_captured(stream):
    """Whether a stream is being captured."""
    status = core.ffi.new("int *")
    call(lib.hipStreamIsCapturing(stream, status))
    return bool(status[0])
