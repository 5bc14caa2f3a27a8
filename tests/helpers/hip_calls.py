"""HIP through hip-python: unwrapping results, graphs of integer arrays, and the calls hip-python cannot express."""

import ctypes
from functools import cache
from typing import ClassVar

import numpy as np
from rocm.bindings import hip, hiprtc
from rocm.bindings.util import paths

E = hip.hipError_t
KIND = hip.hipMemcpyKind
UPDATE = hip.hipGraphExecUpdateResult
MODE = hip.hipStreamCaptureMode
STATUS = hip.hipStreamCaptureStatus

SOURCE = b"""
extern "C" __global__ void scale_add(int* y, const int* x, int a, int b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + b;
}
extern "C" __global__ void mix(int* y, const int* x, const int* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] - 3 * z[n - 1 - i];
}
extern "C" __global__ void count_if_different(int* count, const int* x, const int* z) {
  if (*x != *z) *count += 1;
}
extern "C" __global__ void __launch_bounds__(64) small_block(int* y) { y[threadIdx.x] = 1; }
"""


class HipFailed(Exception):
    """A call that should have succeeded did not."""


def ok(result):
    """Return the results of a call that must succeed: nothing, the only one, or a tuple."""
    status, *values = result
    if status not in (E.hipSuccess, hiprtc.hiprtcResult.HIPRTC_SUCCESS):
        raise HipFailed(status)
    return (values[0] if len(values) == 1 else tuple(values)) if values else None


def error(result):
    """Return the status of a call."""
    return result[0]


@cache
def library():
    """Return the library itself, for calls that hip-python cannot express (arrays of handles as output)."""
    return ctypes.CDLL(paths.get_library_path("amdhip64").decode())


def raw(name, *args):
    """Call a function by name; integers and hip-python objects become pointers."""
    convert = lambda a: ctypes.c_void_p(int(a)) if hasattr(a, "__int__") else a  # noqa: E731
    return E(getattr(library(), name)(*map(convert, args)))


def listed(name, handle, arrays=1):
    """Return the handles that a call lists; with two arrays, pairs of them."""
    count = ctypes.c_size_t()
    assert raw(name, handle, *[None] * arrays, ctypes.byref(count)) == E.hipSuccess
    outs = [(ctypes.c_void_p * max(1, count.value))() for _ in range(arrays)]
    assert raw(name, handle, *outs, ctypes.byref(count)) == E.hipSuccess
    columns = [[out[i] for i in range(count.value)] for out in outs]
    return columns[0] if arrays == 1 else list(zip(*columns, strict=True))


def nodes(graph):
    """Return all nodes of a graph, as integers."""
    return listed("hipGraphGetNodes", graph)


def edges(graph):
    """Return all edges of a graph, as pairs of integers."""
    return set(listed("hipGraphGetEdges", graph, 2))


def handles(items):
    """Return an array of handles and its length, as the calls that take dependencies want them."""
    values = [int(item) for item in items]
    return (np.array(values, np.uint64), len(values)) if values else (None, 0)


class Ints:
    """Device memory of n 32-bit integers."""

    def __init__(self, n, value=0):
        self.n = n
        self.memory = ok(hip.hipMalloc(4 * n))
        self.write(np.full(n, value))

    def __int__(self):
        return int(self.memory)

    def read(self):
        """Return the values, once the device is idle."""
        ok(hip.hipDeviceSynchronize())
        return self.read_now()

    def read_now(self):
        """Return the values, while other streams may be held back."""
        out = np.zeros(self.n, np.int32)
        ok(hip.hipMemcpy(out, self.memory, 4 * self.n, KIND.hipMemcpyDeviceToHost))
        return out

    def write(self, values):
        """Set the values from an array."""
        data = np.ascontiguousarray(values, np.int32)
        ok(hip.hipMemcpy(self.memory, data, 4 * self.n, KIND.hipMemcpyHostToDevice))


def fill_params(target, value, n=None, height=1, pitch=0, element=4):
    """Return the parameters of a memset node."""
    params = hip.hipMemsetParams()
    params.dst = int(target)
    params.elementSize = element
    params.width = n if n is not None else target.n
    params.height = height
    params.pitch = pitch
    params.value = value
    return params


def generic(kind, params, offset=0):
    """hipGraphNodeParams, whose union hip-python does not show: params lies offset bytes into it."""
    block = (ctypes.c_byte * 256)()
    ctypes.c_int.from_buffer(block).value = kind
    ctypes.memmove(ctypes.addressof(block) + 16 + offset, int(params), params.c_sizeof())
    return block


def add_fill(graph, deps, target, value, **shape):
    """Add a memset node."""
    return ok(hip.hipGraphAddMemsetNode(graph, *handles(deps), fill_params(target, value, **shape)))


def add_copy(graph, deps, target, source, n=None):
    """Add a device-to-device copy node."""
    size = 4 * (n if n is not None else target.n)
    kind = KIND.hipMemcpyDeviceToDevice
    return ok(hip.hipGraphAddMemcpyNode1D(graph, *handles(deps), int(target), int(source), size, kind))


@cache
def functions():
    """Compile the kernels of this module and return them by name."""
    program = ok(hiprtc.hiprtcCreateProgram(SOURCE, b"hip_calls.hip", 0, None, None))
    ok(hiprtc.hiprtcCompileProgram(program, 0, None))
    code = bytearray(ok(hiprtc.hiprtcGetCodeSize(program)))
    ok(hiprtc.hiprtcGetCode(program, code))
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
    module = ok(hip.hipModuleLoadData(code))
    names = ("scale_add", "mix", "count_if_different", "small_block")
    return {name: ok(hip.hipModuleGetFunction(module, name.encode())) for name in names}


def set_dim(dim, x):
    """Give a dim3 that hip-python shows in place one dimension."""
    dim.x, dim.y, dim.z = x, 1, 1


class KernelCall:
    """The parameters of a kernel node; arguments that are `Ints` are passed as pointers."""

    def __init__(self, name, *args, grid=None, block=64):
        self.cells = [np.array([int(a)], np.uint64) if isinstance(a, Ints) else np.array([a], np.int32) for a in args]
        self.pointers = np.array([cell.ctypes.data for cell in self.cells], np.uint64)
        n = next((a.n for a in args if isinstance(a, Ints)), 1)
        self.params = hip.hipKernelNodeParams()
        self.params.func = functions()[name]
        set_dim(self.params.gridDim, -(-n // block) if grid is None else grid)
        set_dim(self.params.blockDim, block)
        self.params.kernelParams = self.pointers

    def add(self, graph, deps=()):
        """Add a kernel node; the arguments are not kept, as HIP promises to copy them."""
        node = ok(hip.hipGraphAddKernelNode(graph, *handles(deps), self.params))
        self.forget()
        return node

    def set(self, executable, node):
        """Give a node of an executable graph these parameters."""
        ok(hip.hipGraphExecKernelNodeSetParams(executable, node, self.params))
        self.forget()

    def forget(self):
        """Overwrite the caller's copies of the arguments."""
        for cell in self.cells:
            cell.fill(0)
        self.pointers.fill(0)


def new_graph():
    """Return an empty graph."""
    return ok(hip.hipGraphCreate(0))


def instantiate(graph, flags=0):
    """Return an executable graph."""
    return ok(hip.hipGraphInstantiateWithFlags(graph, flags))


def run(executable, stream=None):
    """Launch an executable graph and wait for it."""
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))


def update(executable, graph):
    """hipGraphExecUpdate: status, result, error node as an integer."""
    node = ctypes.c_void_p()
    result = ctypes.c_int(-1)
    status = raw("hipGraphExecUpdate", executable, graph, ctypes.byref(node), ctypes.byref(result))
    return status, UPDATE(result.value), node.value


class Gate:
    """A gate that holds streams back until it is opened."""

    made: ClassVar[list["Gate"]] = []

    def __init__(self):
        self.value = Ints(1)
        self.key = ok(hip.hipStreamCreateWithFlags(1))
        Gate.made.append(self)

    def hold(self, stream):
        """Make the stream's later work wait for `open`."""
        self.value.write([0])
        ok(hip.hipStreamWaitValue32(stream, int(self.value), 1, 1, 0xFFFFFFFF))

    def open(self):
        """Let the streams go on."""
        ok(hip.hipStreamWriteValue32(self.key, int(self.value), 1, 0))

    @classmethod
    def open_all(cls):
        """Open the gate where a failed test left it shut."""
        while cls.made:
            cls.made.pop().open()


def settle():
    """Give the device rounds in which it may run any of the work that is ready, ours or the rest, in random order."""
    stream, target = ok(hip.hipStreamCreateWithFlags(1)), Ints(1)
    for _ in range(40):
        ok(hip.hipMemsetD32Async(target.memory, 1, 1, stream))
        ok(hip.hipStreamSynchronize(stream))
