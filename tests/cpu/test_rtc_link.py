"""hiprtc's bitcode and links: device code of several programs in one code object."""

import ctypes

import numpy as np
import pytest
from helpers.hip_calls import KIND, ok
from helpers.rtc import RESULT, build, text_of
from rocm.bindings import hip, hiprtc

BITCODE, OBJECT, BUNDLE = 100, 3, 101
ERROR_LOG, ERROR_LOG_SIZE = 5, 6
CALLER = """
__device__ int folded(int x);
extern __device__ int offsets[2];
template <class T> __global__ void add(T* p) { p[threadIdx.x] += folded(threadIdx.x) + offsets[1]; }
extern "C" __global__ void k(int* p) {
  extern __shared__ int room[];
  room[threadIdx.x] = folded(threadIdx.x);
  __syncthreads();
  p[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x] + offsets[0];
}
template __global__ void add<int>(int*);
"""
CALLED = """
__device__ int offsets[2] = {1000, 5};
__device__ int folded(int x) {
  extern __shared__ int room[];
  __shared__ int own[64];
  own[threadIdx.x] = x;
  __syncthreads();
  return own[threadIdx.x ^ 1] + __shfl_xor(x, 2);
}
extern "C" __global__ void clear(int* p) { p[threadIdx.x] = 0; }
"""


def bitcode_of(source, *expressions):
    """Compile a program to bitcode; return it and the lowered names of its expressions."""
    program = ok(hiprtc.hiprtcCreateProgram(source.encode(), b"part.hip", 0, None, None))
    for expression in expressions:
        ok(hiprtc.hiprtcAddNameExpression(program, expression))
    status = hiprtc.hiprtcCompileProgram(program, 1, [b"-fgpu-rdc"])[0]
    assert status == RESULT.HIPRTC_SUCCESS, text_of(program)
    assert hiprtc.hiprtcGetCodeSize(program)[0] == RESULT.HIPRTC_ERROR_INVALID_PROGRAM
    code = bytearray(ok(hiprtc.hiprtcGetBitcodeSize(program)))
    ok(hiprtc.hiprtcGetBitcode(program, code))
    lowered = [str(ok(hiprtc.hiprtcGetLoweredName(program, e))) for e in expressions]
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
    return bytes(code), lowered


@pytest.fixture
def rtc(library):
    """hiprtc's functions by ctypes."""
    return ctypes.CDLL(str(library))


@pytest.fixture
def link(rtc):
    """Link bitcodes; return the status, the code object and the messages of errors."""

    def run(*bitcodes):
        log = ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(ERROR_LOG, ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        state, made, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        assert rtc.hiprtcLinkCreate(2, options, values, ctypes.byref(state)) == 0
        for code in bitcodes:
            assert rtc.hiprtcLinkAddData(state, BITCODE, code, ctypes.c_size_t(len(code)), b"part", 0, None, None) == 0
        status = rtc.hiprtcLinkComplete(state, ctypes.byref(made), ctypes.byref(size))
        image = ctypes.string_at(made.value, size.value) if status == 0 else b""
        assert rtc.hiprtcLinkDestroy(state) == 0
        return RESULT(status), image, log.value.decode()

    return run


def test_a_kernel_calls_what_another_program_defines(link):
    """Shared memory, barriers, shuffles and variables work across them; names are those that each program told."""
    caller, (name,) = bitcode_of(CALLER, b"add<int>")
    status, image, log = link(caller, bitcode_of(CALLED)[0])
    assert status == RESULT.HIPRTC_SUCCESS, log
    module, memory = ok(hip.hipModuleLoadData(image)), ok(hip.hipMalloc(256))
    cell = np.array([int(memory)], np.uint64)
    pointers, out, x = np.array([cell.ctypes.data], np.uint64), np.zeros(64, np.int32), np.arange(64)
    folded = (x ^ 1) + (x ^ 2)
    for kernel, want in ((b"clear", 0 * x), (name.encode(), folded + 5), (b"k", folded[::-1] + 1000)):
        function = ok(hip.hipModuleGetFunction(module, kernel))
        ok(hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 256, None, pointers, None))
        ok(hip.hipMemcpy(out, memory, out.nbytes, KIND.hipMemcpyDeviceToHost))
        np.testing.assert_array_equal(out, want)
    ok(hip.hipModuleUnload(module))
    ok(hip.hipFree(memory))


def test_what_is_missing_or_twice_there_is_named(link):
    caller, called = bitcode_of(CALLER)[0], bitcode_of(CALLED)[0]
    status, _, log = link(caller)
    assert status == RESULT.HIPRTC_ERROR_LINKING
    assert "folded" in log
    status, _, log = link(caller, called, called)
    assert status == RESULT.HIPRTC_ERROR_LINKING
    assert "clear" in log


def test_files_are_added_as_well(rtc, tmp_path):
    file, state = tmp_path / "part.bc", ctypes.c_void_p()
    file.write_bytes(bitcode_of(CALLED)[0])
    made, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert rtc.hiprtcLinkCreate(0, None, None, ctypes.byref(state)) == 0
    add = lambda kind, path: RESULT(rtc.hiprtcLinkAddFile(state, kind, path, 0, None, None))  # noqa: E731
    assert add(BITCODE, str(file).encode()) == RESULT.HIPRTC_SUCCESS
    assert add(BITCODE, b"nowhere.bc") == RESULT.HIPRTC_ERROR_PROGRAM_CREATION_FAILURE
    assert add(OBJECT, str(file).encode()) == RESULT.HIPRTC_ERROR_INVALID_INPUT
    assert rtc.hiprtcLinkComplete(state, ctypes.byref(made), ctypes.byref(size)) == 0
    assert ctypes.string_at(made.value, 4) == b"\x7fELF"
    assert rtc.hiprtcLinkDestroy(state) == 0


def test_wrong_arguments(rtc):
    invalid, refused = RESULT.HIPRTC_ERROR_INVALID_INPUT, RESULT.HIPRTC_ERROR_PROGRAM_CREATION_FAILURE
    state, size = ctypes.c_void_p(), ctypes.c_size_t()
    add = lambda of, kind, data, n: RESULT(  # noqa: E731
        rtc.hiprtcLinkAddData(of, kind, data, ctypes.c_size_t(n), b"part", 0, None, None)
    )
    assert rtc.hiprtcLinkCreate(0, None, None, None) == invalid
    assert rtc.hiprtcLinkCreate(1, None, None, ctypes.byref(state)) == invalid
    assert rtc.hiprtcLinkCreate(0, None, None, ctypes.byref(state)) == 0
    assert add(state, BITCODE, None, 4) == invalid
    assert add(state, BITCODE, b"BC", 0) == invalid
    assert add(state, OBJECT, b"data", 4) == invalid
    assert add(state, BITCODE, b"text", 4) == refused
    assert add(state, BUNDLE, b"BC\xc0\xde", 4) == refused
    assert rtc.hiprtcLinkComplete(state, None, ctypes.byref(size)) == invalid
    assert rtc.hiprtcLinkDestroy(state) == 0
    for gone in (state, None, ctypes.c_void_p(0x1234)):
        assert rtc.hiprtcLinkDestroy(gone) == invalid
        assert add(gone, BITCODE, b"BC\xc0\xde", 4) == invalid
        assert rtc.hiprtcLinkAddFile(gone, BITCODE, b"file", 0, None, None) == invalid
    assert rtc.hiprtcGetBitcodeSize(None, None) == invalid
    assert rtc.hiprtcGetBitcode(None, None) == invalid


def test_a_finished_program_has_no_bitcode():
    assert build("__global__ void k() {}", options=["-fno-gpu-rdc"]).code
    program = ok(hiprtc.hiprtcCreateProgram(b"__global__ void k() {}", b"k.hip", 0, None, None))
    ok(hiprtc.hiprtcCompileProgram(program, 0, None))
    assert hiprtc.hiprtcGetBitcodeSize(program)[0] == RESULT.HIPRTC_ERROR_INVALID_PROGRAM
    ok(hiprtc.hiprtcDestroyProgram(program.createRef()))
