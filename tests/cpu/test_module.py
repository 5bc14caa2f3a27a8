"""Modules and launches: loading, arguments in both forms, limits, globals, occupancy, lifetime."""

import ctypes
import struct

import numpy as np
import pytest
from helpers import rtc
from helpers.hip_calls import KIND, E, Gate, Ints, error, ok, raw
from rocm.bindings import hip, hiprtc

SOURCE = b"""
__device__ int counters[4];
extern "C" __device__ int table[8] = {1, 2, 3};
extern "C" __global__ void saxpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void mixed(int* out, signed char a, double b, short c, long long d) {
  out[0] = a; out[1] = (int)b; out[2] = c; out[3] = (int)(d >> 32);
}
extern "C" __global__ void places(int* out) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}
extern "C" __global__ void reversed_by_shared(int* out) {
  extern __shared__ int room[];
  room[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) narrow(int* out) {
  __shared__ int kept[100];
  kept[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = kept[63 - threadIdx.x];
}
extern "C" __global__ void add_table(int* out) { out[threadIdx.x] = table[threadIdx.x]; }
extern "C" __global__ void nothing() {}
"""


@pytest.fixture(scope="module")
def code():
    """The code object of the kernels above."""
    program = ok(hiprtc.hiprtcCreateProgram(SOURCE, b"test_module.hip", 0, None, None))
    ok(hiprtc.hiprtcCompileProgram(program, 0, None))
    image = bytearray(ok(hiprtc.hiprtcGetCodeSize(program)))
    ok(hiprtc.hiprtcGetCode(program, image))
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return bytes(image)


@pytest.fixture
def module(code):
    """The kernels above, loaded."""
    made = ok(hip.hipModuleLoadData(code))
    yield made
    hip.hipModuleUnload(made)


@pytest.fixture
def kernel(module):
    """A function that returns a kernel by name."""
    return lambda name: ok(hip.hipModuleGetFunction(module, name.encode()))


def launch(function, grid, block, *args, shared=0, stream=None):
    """Launch with kernelParams. An argument is a ctypes value, or an Ints for its address."""
    cells = [ctypes.c_void_p(int(a)) if isinstance(a, Ints) else a for a in args]
    pointers = (ctypes.c_void_p * max(1, len(cells)))(*[ctypes.addressof(cell) for cell in cells])
    return hip.hipModuleLaunchKernel(function, *grid, *block, shared, stream, pointers, None)


def floats(values):
    """Return device memory with float32 values."""
    memory = Ints(len(values))
    memory.write(np.asarray(values, np.float32).view(np.int32))
    return memory


def test_launch_with_pointers_to_arguments(kernel):
    x, y = floats(range(100)), floats([1] * 100)
    ok(launch(kernel("saxpy"), (4, 1, 1), (32, 1, 1), y, x, ctypes.c_float(2), ctypes.c_int(90)))
    expected = np.ones(100, np.float32)
    expected[:90] += 2 * np.arange(90)
    assert (y.read().view(np.float32) == expected).all()


def test_launch_with_a_buffer_of_arguments(kernel):
    x, y = floats(range(64)), floats([0] * 64)
    buffer = struct.pack("QQfi", int(y), int(x), 3.0, 64)
    size = ctypes.c_size_t(len(buffer))
    content = ctypes.create_string_buffer(buffer, len(buffer))
    # The pairs may come in either order.
    extra = (ctypes.c_void_p * 5)(2, ctypes.addressof(size), 1, ctypes.addressof(content), 3)
    function = kernel("saxpy")
    ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, extra))
    assert (y.read().view(np.float32) == 3 * np.arange(64)).all()
    size.value = len(buffer) - 4
    short = hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, extra)
    assert error(short) == E.hipErrorInvalidValue
    extra[0] = 9
    unknown = hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, extra)
    assert error(unknown) == E.hipErrorInvalidValue


def test_arguments_are_taken_when_the_launch_is_queued(kernel):
    gate, stream = Gate(), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    x, y, scale = floats([1] * 32), floats([0] * 32), ctypes.c_float(4)
    gate.hold(stream)
    ok(launch(kernel("saxpy"), (1, 1, 1), (32, 1, 1), y, x, scale, ctypes.c_int(32), stream=stream))
    scale.value = 9
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert set(y.read().view(np.float32)) == {4}


def test_arguments_of_all_sizes(kernel):
    out = Ints(4)
    args = ctypes.c_byte(-3), ctypes.c_double(7.9), ctypes.c_short(-300), ctypes.c_longlong(5 << 32)
    ok(launch(kernel("mixed"), (1, 1, 1), (1, 1, 1), out, *args))
    assert out.read().tolist() == [-3, 7, -300, 5]


@pytest.mark.parametrize(("grid", "block"), [((2, 3, 4), (4, 2, 3)), ((1, 1, 1), (1, 1, 1)), ((5, 1, 2), (3, 5, 7))])
def test_every_thread_of_a_grid_runs_once(kernel, grid, block):
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    out = Ints(blocks * threads, -1)
    ok(launch(kernel("places"), grid, block, out))
    assert (out.read().reshape(blocks, threads) == np.arange(blocks)[:, None] * 1000 + np.arange(threads)).all()


def test_dynamic_shared_memory(kernel):
    out = Ints(128)
    out.write(range(128))
    ok(launch(kernel("reversed_by_shared"), (1, 1, 1), (128, 1, 1), out, shared=512))
    assert out.read().tolist() == list(range(127, -1, -1))


@pytest.mark.parametrize(
    ("grid", "block", "shared", "status"),
    [
        ((0, 1, 1), (1, 1, 1), 0, E.hipErrorInvalidValue),
        ((1, 1, 1), (1, 0, 1), 0, E.hipErrorInvalidConfiguration),
        ((1, 1, 1), (1025, 1, 1), 0, E.hipErrorInvalidConfiguration),
        ((1, 1, 1), (32, 32, 2), 0, E.hipErrorInvalidConfiguration),
        ((1, 1, 1), (65536, 65536, 1), 0, E.hipErrorInvalidConfiguration),
        ((1, 70000, 1), (1, 1, 1), 0, E.hipErrorInvalidConfiguration),
        ((1 << 30, 1, 1), (4, 1, 1), 0, E.hipErrorInvalidConfiguration),
        ((1, 1, 1), (1, 1, 1), 65537, E.hipErrorInvalidValue),
        ((1, 1, 1), (65, 1, 1), 0, E.hipErrorLaunchFailure),
    ],
)
def test_limits_of_a_launch(kernel, grid, block, shared, status):
    out = Ints(2048)
    assert error(launch(kernel("narrow"), grid, block, out, shared=shared)) == status
    # A refused launch does no harm.
    ok(launch(kernel("narrow"), (1, 1, 1), (64, 1, 1), out))
    assert out.read()[:64].tolist() == [1] * 64


def test_bad_launches(kernel):
    cells = (ctypes.c_void_p * 1)()
    both = hip.hipModuleLaunchKernel(kernel("narrow"), 1, 1, 1, 1, 1, 1, 0, None, cells, cells)
    neither = hip.hipModuleLaunchKernel(kernel("narrow"), 1, 1, 1, 1, 1, 1, 0, None, None, None)
    assert error(both) == error(neither) == E.hipErrorInvalidValue
    ok(hip.hipModuleLaunchKernel(kernel("nothing"), 1, 1, 1, 1, 1, 1, 0, None, None, None))
    nobody = hip.hipModuleLaunchKernel(0x123450, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    assert error(nobody) == E.hipErrorInvalidHandle
    elsewhere = hip.hipModuleLaunchKernel(kernel("nothing"), 1, 1, 1, 1, 1, 1, 0, 0x123450, None, None)
    assert error(elsewhere) == E.hipErrorInvalidHandle


def test_other_forms_of_a_launch(kernel):
    out, function = Ints(64), kernel("narrow")
    cell = ctypes.c_void_p(int(out))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(cell))
    start, stop = ok(hip.hipEventCreate()), ok(hip.hipEventCreate())
    shared = ctypes.c_size_t(0)
    extended = lambda threads: raw(  # noqa: E731
        "hipExtModuleLaunchKernel", function, threads, 1, 1, 64, 1, 1, shared, None, pointers, None, start, stop, 0
    )
    assert extended(64) == E.hipSuccess
    assert out.read().tolist() == [1] * 64
    assert ok(hip.hipEventElapsedTime(start, stop)) >= 0
    out.write([0] * 64)
    assert extended(32) == E.hipSuccess, "a block is no larger than the grid"
    assert out.read().tolist()[32:] == [0] * 32
    assert extended(65) == extended(0) == E.hipErrorInvalidValue
    large = raw("hipExtModuleLaunchKernel", function, 1, 1, 1, 16, 16, 16, shared, None, pointers, None, start, stop, 0)
    assert large == E.hipErrorInvalidValue, "nor more than there may be, though the grid leaves less of it"
    shared.value = 1 << 20
    assert extended(64) == E.hipErrorInvalidValue
    out.write([0] * 64)
    config = hip.HIP_LAUNCH_CONFIG()
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1
    config.blockDimX = 64
    ok(hip.hipDrvLaunchKernelEx(config, function, pointers, None))
    assert out.read().tolist() == [1] * 64


def test_cooperative_launches_have_to_fit(kernel):
    out = Ints(64)
    cell = ctypes.c_void_p(int(out))
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(cell))
    properties = ok(hip.hipGetDeviceProperties(0))
    assert properties.cooperativeLaunch == 1
    cores = properties.multiProcessorCount
    each = ok(hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(kernel("narrow"), 64, 0))
    cooperative = lambda blocks: error(  # noqa: E731
        hip.hipModuleLaunchCooperativeKernel(kernel("narrow"), blocks, 1, 1, 64, 1, 1, 0, None, pointers)
    )
    assert cooperative(cores * each) == E.hipSuccess
    assert cooperative(cores * each + 1) == E.hipErrorCooperativeLaunchTooLarge
    ok(hip.hipDeviceSynchronize())


def test_globals(module, kernel):
    address, size = ok(hip.hipModuleGetGlobal(module, b"table"))
    assert size == 32
    assert ok(hip.hipMemPtrGetInfo(int(address))) == 32
    out = Ints(8)
    ok(launch(kernel("add_table"), (1, 1, 1), (8, 1, 1), out))
    assert out.read().tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
    ok(hip.hipMemcpy(int(address), np.arange(8, dtype=np.int32), 32, KIND.hipMemcpyHostToDevice))
    ok(launch(kernel("add_table"), (1, 1, 1), (8, 1, 1), out))
    assert out.read().tolist() == list(range(8))
    assert error(hip.hipModuleGetGlobal(module, b"absent")) == E.hipErrorNotFound
    past = hip.hipMemcpy(int(address), np.zeros(9, np.int32), 36, KIND.hipMemcpyHostToDevice)
    assert error(past) == E.hipErrorInvalidValue


def test_attributes_of_a_kernel(kernel):
    which = hip.hipFunction_attribute
    get = lambda name, attribute: ok(hip.hipFuncGetAttribute(attribute, kernel(name)))  # noqa: E731
    assert get("narrow", which.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 64
    assert get("saxpy", which.HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) == 1024
    assert get("narrow", which.HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES) == 400
    device = ok(hip.hipGetDeviceProperties(0))
    version = device.major * 10 + device.minor
    assert get("narrow", which.HIP_FUNC_ATTRIBUTE_PTX_VERSION) == version > 0
    assert get("narrow", which.HIP_FUNC_ATTRIBUTE_BINARY_VERSION) == version
    assert get("narrow", which.HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) == 65536 - 400
    assert error(hip.hipFuncGetAttribute(which.HIP_FUNC_ATTRIBUTE_MAX, kernel("narrow"))) == E.hipErrorInvalidValue
    room = hip.hipFuncAttribute.hipFuncAttributeMaxDynamicSharedMemorySize
    ok(hip.hipFuncSetAttribute(kernel("narrow"), room, 65536 - 400))
    assert error(hip.hipFuncSetAttribute(kernel("narrow"), room, 65536)) == E.hipErrorInvalidValue
    assert error(hip.hipFuncSetAttribute(0x123450, room, 1)) == E.hipErrorInvalidDeviceFunction


def test_occupancy(kernel):
    blocks = lambda name, threads, shared: ok(  # noqa: E731
        hip.hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(kernel(name), threads, shared)
    )
    assert blocks("saxpy", 1024, 0) == 2
    assert blocks("saxpy", 33, 0) == 32
    assert blocks("saxpy", 64, 32768) == 2
    assert blocks("narrow", 65, 0) == 0
    grid, block = ok(hip.hipModuleOccupancyMaxPotentialBlockSize(kernel("narrow"), 0, 0))
    assert block == 64
    assert grid == 32 * ok(hip.hipGetDeviceProperties(0)).multiProcessorCount


def test_parameters_can_be_asked_for(code):
    library = ctypes.c_void_p()
    function = ctypes.c_void_p()
    nothing = (None, None, 0, None, None, 0)
    assert raw("hipLibraryLoadData", ctypes.byref(library), code, *nothing) == E.hipSuccess
    assert raw("hipLibraryGetKernel", ctypes.byref(function), library, b"mixed") == E.hipSuccess
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    found = []
    ask = lambda i: raw(  # noqa: E731
        "hipKernelGetParamInfo", function, ctypes.c_size_t(i), ctypes.byref(offset), ctypes.byref(size)
    )
    for i in range(5):
        assert ask(i) == E.hipSuccess
        found.append((offset.value, size.value))
    assert found == [(0, 8), (8, 1), (16, 8), (24, 2), (32, 8)]
    assert ask(5) == E.hipErrorInvalidValue
    count, name = ctypes.c_uint(), ctypes.c_char_p()
    assert raw("hipLibraryGetKernelCount", ctypes.byref(count), library) == E.hipSuccess
    assert count.value == 7
    assert raw("hipKernelGetName", ctypes.byref(name), function) == E.hipSuccess
    assert name.value == b"mixed"
    assert raw("hipLibraryUnload", library) == E.hipSuccess
    assert raw("hipKernelGetName", ctypes.byref(name), function) == E.hipErrorInvalidHandle


def test_a_module_stays_while_work_needs_it(code):
    module = ok(hip.hipModuleLoadData(code))
    function = ok(hip.hipModuleGetFunction(module, b"narrow"))
    gate, out, stream = Gate(), Ints(64), ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking))
    gate.hold(stream)
    ok(launch(function, (1, 1, 1), (64, 1, 1), out, stream=stream))
    ok(hip.hipModuleUnload(module))
    assert error(hip.hipModuleUnload(module)) == E.hipErrorNotFound
    assert error(hip.hipModuleUnload(None)) == E.hipErrorInvalidHandle
    assert error(hip.hipModuleGetFunction(module, b"narrow")) == E.hipErrorInvalidHandle
    assert error(launch(function, (1, 1, 1), (64, 1, 1), out)) == E.hipErrorInvalidHandle
    gate.open()
    ok(hip.hipStreamSynchronize(stream))
    assert out.read().tolist() == [1] * 64


def test_a_module_from_a_file(code, tmp_path):
    path = tmp_path / "kernels.co"
    path.write_bytes(code)
    module = ok(hip.hipModuleLoad(bytes(path)))
    out = Ints(64)
    ok(launch(ok(hip.hipModuleGetFunction(module, b"narrow")), (1, 1, 1), (64, 1, 1), out))
    assert out.read().tolist() == [1] * 64
    ok(hip.hipModuleUnload(module))
    assert error(hip.hipModuleLoad(bytes(tmp_path / "absent"))) == E.hipErrorFileNotFound
    for broken in (b"", b"no code object at all, but long enough to be looked at" * 4, code[:200], code[:-1]):
        path.write_bytes(broken)
        assert error(hip.hipModuleLoad(bytes(path))) == E.hipErrorInvalidImage


def test_images_of_other_devices(code, module):
    amdgpu = bytearray(code)
    amdgpu[18:20] = struct.pack("<H", 224)  # EM_AMDGPU
    assert error(hip.hipModuleLoadData(bytes(amdgpu))) == E.hipErrorNoBinaryForGpu
    assert error(hip.hipModuleLoadData(b"random bytes" * 20)) == E.hipErrorInvalidImage
    assert error(hip.hipModuleGetFunction(module, b"absent")) == E.hipErrorNotFound


FAILURE = """
from helpers.rtc import Program
function = Program('extern "C" __global__ void fail(int* p) { assert(p == nullptr); }').function("fail")
stream, other, event = ok(hip.hipStreamCreate()), ok(hip.hipStreamCreate()), ok(hip.hipEventCreate())
cell = ctypes.c_void_p(8)
pointers = (ctypes.c_void_p * 1)(ctypes.addressof(cell))
ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, pointers, None))
raw("hipEventRecord", event, stream), raw("hipStreamWaitEvent", other, event, 0)
codes = lambda *results: print(*[int(error(result)) for result in results])
codes(hip.hipStreamSynchronize(stream), hip.hipStreamSynchronize(other), hip.hipEventSynchronize(event))
codes(hip.hipMalloc(8), hip.hipDeviceSynchronize(), hip.hipStreamQuery(other), hip.hipGetLastError())
codes(hip.hipDeviceReset(), hip.hipDeviceSynchronize())
print(Ints(2, 5).read().tolist())
"""


def test_a_failed_kernel_loses_the_device_until_it_is_reset(python):
    assert python(FAILURE).splitlines() == ["710 710 710", "710 710 710 710", "0 0", "[5, 5]"]


def test_modules_without_end_are_not_mistaken_for_each_other(code):
    """One module stays while thousands come and go. A loader that goes by names would hand out the first again."""
    other = rtc.build('extern "C" __global__ void nothing(int* out) { out[0] = 7; }').code
    first, one = ok(hip.hipModuleLoadData(code)), (1, 1, 1)
    for _ in range(2100):
        last = ok(hip.hipModuleLoadData(other))
        out = Ints(1)
        ok(launch(ok(hip.hipModuleGetFunction(last, b"nothing")), one, one, out))
        assert out.read()[0] == 7
        ok(hip.hipModuleUnload(last))
    ok(hip.hipModuleUnload(first))
